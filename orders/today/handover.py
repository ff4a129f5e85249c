"""The hand-over sheet of a shift: what was done, what is still open, and when it is due."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

from django import forms
from django.http import QueryDict
from django.utils import timezone
from django.utils.translation import gettext, gettext_lazy, ngettext, ngettext_lazy

from backoffice.accounts.models import User
from backoffice.audit.models import AuditEntry
from backoffice.core.prepared_queries import Row, by_key
from backoffice.core.urls import parse_uuid
from backoffice.outbox.models import CommandRecord
from backoffice.pages.widgets import DateTimeLocalInput
from backoffice.team.models import Assignment, Contact, Note
from backoffice.team.subjects import RESULT_SUBJECTS
from backoffice.team.template_functions import staff_name
from orders.models import Order
from orders.models.review import Review
from orders.results import open_criticals
from orders.search import lookup
from orders.today import my_work
from orders.today.exception_counts import ExceptionCount, exception_counts
from patients.commands import CreateUser

SHIFT_LENGTH: Final = timedelta(hours=8)
MAX_PERIOD: Final = timedelta(days=7)
MAX_READ_ENTRIES: Final = 1_000
"""Most audit entries read for one sheet."""
MAX_SHOWN_ENTRIES: Final = 60
"""Most entries listed on a sheet; the rest is counted."""
MAX_OPEN_ITEMS: Final = 60
ENTRY_LABELS: Final = {
    "sign result": ngettext_lazy("%(shown)s result signed", "%(shown)s results signed", "count"),
    "undo signature": ngettext_lazy(
        "%(shown)s signature undone", "%(shown)s signatures undone", "count"
    ),
    "acknowledge critical": ngettext_lazy(
        "%(shown)s critical result acknowledged", "%(shown)s critical results acknowledged", "count"
    ),
    "critical call": ngettext_lazy(
        "%(shown)s call about a critical result", "%(shown)s calls about critical results", "count"
    ),
    "delegate signing": ngettext_lazy(
        "%(shown)s delegation created", "%(shown)s delegations created", "count"
    ),
    "end delegation": ngettext_lazy(
        "%(shown)s delegation ended", "%(shown)s delegations ended", "count"
    ),
    "note": ngettext_lazy("%(shown)s note", "%(shown)s notes", "count"),
    "contact": ngettext_lazy("%(shown)s patient contact", "%(shown)s patient contacts", "count"),
    "assignment": ngettext_lazy(
        "%(shown)s assignment change", "%(shown)s assignment changes", "count"
    ),
    "request": ngettext_lazy(
        "%(shown)s request to the service", "%(shown)s requests to the service", "count"
    ),
    "report": ngettext_lazy("%(shown)s lab report change", "%(shown)s lab report changes", "count"),
    "make token": ngettext_lazy(
        "%(shown)s API token created", "%(shown)s API tokens created", "count"
    ),
    "revoke token": ngettext_lazy(
        "%(shown)s API token revoked", "%(shown)s API tokens revoked", "count"
    ),
    "exception": ngettext_lazy(
        "%(shown)s exception handled", "%(shown)s exceptions handled", "count"
    ),
    "order-check": ngettext_lazy(
        "%(shown)s order checked with the service",
        "%(shown)s orders checked with the service",
        "count",
    ),
    "not the same person": ngettext_lazy(
        "%(shown)s pair of patients marked as different people",
        "%(shown)s pairs of patients marked as different people",
        "count",
    ),
    "unknown value": ngettext_lazy(
        "%(shown)s unknown value decided", "%(shown)s unknown values decided", "count"
    ),
    "member of staff": ngettext_lazy(
        "%(shown)s staff account change", "%(shown)s staff account changes", "count"
    ),
    "second factor": ngettext_lazy(
        "%(shown)s second-factor change", "%(shown)s second-factor changes", "count"
    ),
    "password": ngettext_lazy("%(shown)s password change", "%(shown)s password changes", "count"),
    "sessions": ngettext_lazy(
        "%(shown)s sign-out from other devices", "%(shown)s sign-outs from other devices", "count"
    ),
    "team": ngettext_lazy("%(shown)s team renamed", "%(shown)s teams renamed", "count"),
    "event": ngettext_lazy("%(shown)s event replay", "%(shown)s event replays", "count"),
    "hold": ngettext_lazy("%(shown)s hold released", "%(shown)s holds released", "count"),
    "audit check": ngettext_lazy(
        "%(shown)s access log check", "%(shown)s access log checks", "count"
    ),
    "audit review": ngettext_lazy(
        "%(shown)s access log review", "%(shown)s access log reviews", "count"
    ),
    "bulk": ngettext_lazy("%(shown)s bulk action", "%(shown)s bulk actions", "count"),
    "fetch": ngettext_lazy("%(shown)s list refresh", "%(shown)s list refreshes", "count"),
}
"""Labels of the kinds of entries, with the number `shown`: singular and plural."""
_ENTRY_COLUMNS: Final = (
    *("at", "object_type", "object_ids", "patient_ids"),
    *("actor__first_name", "actor__last_name", "actor__username"),
)
_REQUEST_COLUMNS: Final = (
    *("kind", "title", "subject_type", "subject_id", "patient_id", "remote_id", "payload"),
    *("state", "requested_at"),
)
_ORDER_COLUMNS: Final = ("patient_first_name", "patient_last_name", "patient_dob", "lab_test_name")
MULTI_RECORD_KINDS: Final = ("sign result", "acknowledge critical", "critical call", "exception")
"""Kinds of entries that count once for each record they name."""


class HandoverForm(forms.Form):
    """The period in the user's time zone, and the staff covered."""

    begin = forms.DateTimeField(label=gettext_lazy("From"), widget=DateTimeLocalInput())
    end = forms.DateTimeField(label=gettext_lazy("Until"), widget=DateTimeLocalInput())
    whose = forms.ChoiceField(
        label=gettext_lazy("Staff"),
        choices=[("mine", gettext_lazy("Only me")), ("all", gettext_lazy("Everyone"))],
        required=False,
    )

    def __init__(self, data: QueryDict | Mapping[str, str], now: datetime) -> None:
        # The current minute is part of the period.
        end = now.replace(second=0, microsecond=0) + timedelta(minutes=1)
        defaults = {
            "begin": _form_time(end - SHIFT_LENGTH, -timedelta(hours=1)),
            "end": _form_time(end, timedelta(hours=1)),
            "whose": "mine",
        }
        typed = {name: data.get(name, "") for name in defaults if data.get(name, "").strip()}
        super().__init__({**defaults, **typed})

    def clean(self) -> None:
        begin, end = self.cleaned_data.get("begin"), self.cleaned_data.get("end")
        if begin and end and begin >= end:
            self.add_error("end", gettext("Choose an end time after the start time."))
        elif begin and end and end - begin > MAX_PERIOD:
            self.add_error("begin", gettext("A handoff sheet covers up to 7 days."))


def _form_time(moment: datetime, aside: timedelta) -> str:
    """Return a time as the form field shows it, in the user's time zone.

    An hour that occurs twice (the end of daylight saving time) cannot be typed. Then `aside` is
    added.
    """
    local = timezone.localtime(moment)
    while local.replace(fold=0).utcoffset() != local.replace(fold=1).utcoffset():
        moment += aside
        local = timezone.localtime(moment)
    return f"{local:%Y-%m-%dT%H:%M}"


@dataclass(frozen=True, slots=True)
class EntrySubject:
    """The person that an entry is about, as far as its row names one."""

    patient: UUID | None
    order: UUID | None = None
    typed: str = ""
    """The name typed to register a new patient."""


@dataclass(frozen=True, slots=True)
class HandoverEntry:
    """One action of staff that the next shift may want to read."""

    at: datetime
    by: str
    what: str
    text: str
    about: EntrySubject
    name: str = ""
    next_due_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class HandoverSheet:
    counts: list[str]
    entries: list[HandoverEntry]
    more: int
    capped: bool
    criticals: list[tuple[Review, Order | None]]
    assigned: list[my_work.AssignedRecord]
    requests: list[tuple[CommandRecord, str]]
    """Open commands with the names of the patients they are about."""
    exceptions: list[ExceptionCount]

    def records(self) -> list[str]:
        """Return the ids of the records on the sheet."""
        orders = {
            str(order.pk): None for exception in self.exceptions for order in exception.oldest
        }
        return list(dict.fromkeys([*(item.row.subject_id for item in self.assigned), *orders]))

    def patients(self) -> set[UUID | None]:
        return {
            *(entry.about.patient for entry in self.entries if entry.name),
            *(row.user_id for row, _ in self.criticals),
            *(item.row.patient_id for item in self.assigned),
            *(request_subject(row).patient for row, _ in self.requests),
            *(order.user_id for exception in self.exceptions for order in exception.oldest),
        }


def handover_sheet(
    user: User,
    begin: datetime,
    end: datetime,
    *,
    all_staff: bool,
    results: bool,
    exceptions: bool,
) -> HandoverSheet:
    """Return the sheet of a period; a fixed number of queries.

    `results`, `exceptions`: whether the reader may see them.
    """
    entries = AuditEntry.objects.filter(action="change", at__gte=begin, at__lt=end)
    assigned, commands = Assignment.objects.order_by("at"), CommandRecord.objects.open()
    if not all_staff:
        entries = entries.filter(actor=user)
        assigned, commands = assigned.filter(user=user), commands.filter(requested_by=user)
    entries = entries.select_related("actor").only(*_ENTRY_COLUMNS)
    newest = list(entries.order_by("-at", "-pk")[: MAX_READ_ENTRIES + 1])
    sheet_entries = _sheet_entries(newest[:MAX_READ_ENTRIES], results)
    requests = list(commands.only(*_REQUEST_COLUMNS).order_by("requested_at")[:MAX_OPEN_ITEMS])
    criticals = list(open_criticals()[:MAX_OPEN_ITEMS]) if results else []
    names = subject_names(
        {
            *(entry.about for entry in sheet_entries[:MAX_SHOWN_ENTRIES]),
            *map(request_subject, requests),
        }
    )
    orders = by_key(Order, [row.pk for row in criticals], _ORDER_COLUMNS)
    return HandoverSheet(
        _count_texts(newest[:MAX_READ_ENTRIES]),
        [replace(entry, name=names[entry.about]) for entry in sheet_entries[:MAX_SHOWN_ENTRIES]],
        max(len(sheet_entries) - MAX_SHOWN_ENTRIES, 0),
        len(newest) > MAX_READ_ENTRIES,
        [(row, orders.get(row.pk)) for row in criticals],
        my_work.describe_assignments(assigned, MAX_OPEN_ITEMS, results=results),
        [(row, names[request_subject(row)]) for row in requests],
        exception_counts(user, timezone.now(), all_staff=all_staff) if exceptions else [],
    )


def request_subject(row: CommandRecord) -> EntrySubject:
    """Return the person a command is about. A person being registered has only the typed name."""
    if row.kind != CreateUser.kind:
        return EntrySubject(row.patient_id, _order_id(row))
    info = row.payload.get("info") or {}
    typed = f"{info.get('first_name', '')} {info.get('last_name', '')}".strip()
    return EntrySubject(parse_uuid(row.remote_id), typed=typed)


def subject_names(subjects: Collection[EntrySubject]) -> dict[EntrySubject, str]:
    """Return names from demographics, else from the order, else as typed: two queries."""
    names = lookup.names_by_subject({(subject.patient, subject.order) for subject in subjects})
    return {subject: names[subject.patient, subject.order] or subject.typed for subject in subjects}


def _order_id(row: CommandRecord | Note | Contact) -> UUID | None:
    return parse_uuid(row.subject_id) if row.subject_type in ("order", "result") else None


def _entry_kind(entry: AuditEntry) -> str:
    """Return the kind of an entry. Commands have kinds with a dot, such as `order.create`."""
    return "request" if "." in entry.object_type.partition(" ")[0] else entry.object_type


def _count_texts(entries: Sequence[AuditEntry]) -> list[str]:
    """Return counts such as "32 results signed", the most frequent first."""
    numbers: Counter[str] = Counter()
    for entry in entries:
        kind = _entry_kind(entry)
        numbers[kind] += len(entry.object_ids) if kind in MULTI_RECORD_KINDS else 1
    return [_count_text(kind, number) for kind, number in numbers.most_common()]


def _count_text(kind: str, number: int) -> str:
    """Return the number of entries of a kind. For `bulk …` and `fetch …` the subject follows."""
    values = {"count": number, "shown": f"{number:,}", "kind": kind}
    label = ENTRY_LABELS.get(kind) or ENTRY_LABELS.get(kind.partition(" ")[0])
    if label is None:
        text = ngettext("%(shown)s change: %(kind)s", "%(shown)s changes: %(kind)s", number)
        return text % values
    return label % values


def _sheet_entries(entries: Sequence[AuditEntry], results: bool) -> list[HandoverEntry]:
    """Return commands, calls and notes as entries, oldest first. Other kinds are only counted."""
    requests = _rows_by_entry_id(entries, "request", CommandRecord, UUID)
    notes = _rows_by_entry_id(entries, "note", Note, int)
    contacts = _rows_by_entry_id(entries, "contact", Contact, int)
    sheet_entries = []
    for entry in reversed(entries):
        kind = _entry_kind(entry)
        patient = entry.patient_ids[0] if entry.patient_ids else None
        by = staff_name(entry.actor) or gettext("The back office")
        key = entry.object_ids[0] if entry.object_ids else ""
        if kind == "request" and (row := requests.get(key)):
            words = row.refusal or row.get_state_display()
            sheet_entries.append(
                HandoverEntry(entry.at, by, row.title, words, request_subject(row))
            )
        elif kind == "note" and (note := notes.get(key)):
            if note.subject_type in RESULT_SUBJECTS and not results:
                continue
            about = EntrySubject(patient, _order_id(note))
            sheet_entries.append(HandoverEntry(entry.at, by, gettext("Note"), note.text, about))
        elif kind == "contact" and (call := contacts.get(key)):
            what = call.get_outcome_display()
            about = EntrySubject(patient, _order_id(call))
            due = call.next_due_at
            sheet_entries.append(
                HandoverEntry(entry.at, by, what, call.note, about, next_due_at=due)
            )
    return sheet_entries


def _rows_by_entry_id(
    entries: Sequence[AuditEntry], kind: str, model: type[Row], read: Callable[[str], object]
) -> dict[str, Row]:
    """Return the rows that entries of a kind are about, by the id in the entries."""
    keys = {}
    for entry in entries:
        if entry.object_ids and _entry_kind(entry) == kind:
            with contextlib.suppress(ValueError):  # Another object has the same kind.
                keys[entry.object_ids[0]] = read(entry.object_ids[0])
    rows = by_key(model, keys.values())
    return {name: rows[key] for name, key in keys.items() if key in rows}
