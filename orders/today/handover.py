"""The sheet a shift leaves to the next: what was done, what is still open, when it is due."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Final
from uuid import UUID

from django import forms
from django.db.models import Model
from django.utils import timezone

from backoffice.core.prepared_queries import by_key
from backoffice.core.urls import uuid_in
from backoffice.models import AuditEntry, CommandRecord, User
from backoffice.pages.widgets import DateTimeLocalInput
from backoffice.team.models import Assignment, Contact, Note
from backoffice.team.subjects import OF_RESULTS
from backoffice.templatetags.team import staff_name
from orders.models import Order
from orders.results import open_criticals
from orders.results.models import Review
from orders.search import lookup
from orders.today import my_work
from orders.today.exception_counts import Waiting, waiting
from patients.commands import CreateUser

SHIFT: Final = timedelta(hours=8)
LONGEST: Final = timedelta(days=7)
ENTRIES: Final = 1_000
"""Entries of the access log that are read for one sheet."""
LINES: Final = 60
"""What a sheet lists of what was done; the rest is counted."""
OPEN: Final = 60
WORDS: Final = {
    "sign result": ("result signed", "results signed"),
    "undo signature": ("signature taken back", "signatures taken back"),
    "acknowledge critical": ("critical result acknowledged", "critical results acknowledged"),
    "critical call": ("call about a critical result", "calls about critical results"),
    "delegate signing": ("delegation given", "delegations given"),
    "end delegation": ("delegation ended", "delegations ended"),
    "note": ("note", "notes"),
    "contact": ("call to a patient", "calls to patients"),
    "assignment": ("change of who works on what", "changes of who works on what"),
    "request": ("request to the service", "requests to the service"),
    "report": ("change of a lab report", "changes of lab reports"),
    "make token": ("API token made", "API tokens made"),
    "revoke token": ("API token revoked", "API tokens revoked"),
    "exception": ("exception handled", "exceptions handled"),
    "order-check": ("order looked up at the service", "orders looked up at the service"),
    "not the same person": ("pair of patients told apart", "pairs of patients told apart"),
    "unknown value": ("unknown value decided", "unknown values decided"),
    "member of staff": ("change of a member of staff", "changes of members of staff"),
    "second factor": ("change of a second factor", "changes of second factors"),
    "password": ("change of a password", "changes of passwords"),
    "sessions": ("log-out elsewhere", "log-outs elsewhere"),
    "team": ("team renamed", "teams renamed"),
    "event": ("replay of events", "replays of events"),
    "hold": ("hold released", "holds released"),
    "audit check": ("check of the access log", "checks of the access log"),
    "audit review": ("review of the access log", "reviews of the access log"),
    "bulk": ("action on many at once", "actions on many at once"),
    "fetch": ("list fetched again", "lists fetched again"),
}
"""Kinds of entries, one and many."""
_OF_ENTRY: Final = (
    *("at", "object_type", "object_ids", "patient_ids"),
    *("actor__first_name", "actor__last_name", "actor__username"),
)
_OF_REQUEST: Final = (
    *("kind", "title", "subject_type", "subject_id", "patient_id", "remote_id", "payload"),
    *("state", "requested_at"),
)
_OF_ORDER: Final = ("patient_first_name", "patient_last_name", "patient_dob", "lab_test_name")
OF_MANY: Final = ("sign result", "acknowledge critical", "critical call", "exception")
"""Kinds whose entry may be about many at once: about so many as it names."""


class Period(forms.Form):
    """From when to when, in the staff member's zone, and whose work."""

    begin = forms.DateTimeField(label="From", widget=DateTimeLocalInput())
    end = forms.DateTimeField(label="Until", widget=DateTimeLocalInput())
    whose = forms.ChoiceField(
        label="Whose work", choices=[("mine", "Mine"), ("all", "Everybody’s")], required=False
    )

    def __init__(self, data: Any, now: datetime) -> None:
        # The minute that has begun is part of it.
        end = now.replace(second=0, microsecond=0) + timedelta(minutes=1)
        usual = {
            "begin": _on_the_clock(end - SHIFT, -timedelta(hours=1)),
            "end": _on_the_clock(end, timedelta(hours=1)),
            "whose": "mine",
        }
        given = {name: data.get(name, "") for name in usual if data.get(name, "").strip()}
        super().__init__({**usual, **given})

    def clean(self) -> None:
        begin, end = self.cleaned_data.get("begin"), self.cleaned_data.get("end")
        if begin and end and begin >= end:
            self.add_error("end", "Choose an end after the beginning.")
        elif begin and end and end - begin > LONGEST:
            self.add_error("begin", "A sheet covers at most seven days.")


def _on_the_clock(moment: datetime, aside: timedelta) -> str:
    """As one types it here. An hour that the clock shows twice cannot be typed: then the one beside
    it."""
    local = timezone.localtime(moment)
    while local.replace(fold=0).utcoffset() != local.replace(fold=1).utcoffset():
        moment += aside
        local = timezone.localtime(moment)
    return f"{local:%Y-%m-%dT%H:%M}"


@dataclass(frozen=True, slots=True)
class About:
    """Whom a line is about, as far as its row tells."""

    patient: UUID | None
    order: UUID | None = None
    typed: str = ""
    """The name that was typed to register somebody."""


@dataclass(frozen=True, slots=True)
class Did:
    """One thing somebody did that the next shift may want to read."""

    at: datetime
    by: str
    what: str
    text: str
    about: About
    name: str = ""
    next_due_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Sheet:
    counts: list[str]
    did: list[Did]
    more: int
    capped: bool
    criticals: list[tuple[Review, Order | None]]
    held: list[my_work.Held]
    asked: list[tuple[CommandRecord, str]]
    """Requests, and the names of those they are about."""
    exceptions: list[Waiting]

    def records(self) -> list[str]:
        """Ids of what the sheet names."""
        orders = {str(order.pk): None for one in self.exceptions for order in one.oldest}
        return list(dict.fromkeys([*(one.row.subject_id for one in self.held), *orders]))

    def patients(self) -> set[UUID | None]:
        return {
            *(one.about.patient for one in self.did if one.name),
            *(row.user_id for row, _ in self.criticals),
            *(one.row.patient_id for one in self.held),
            *(about_request(row).patient for row, _ in self.asked),
            *(order.user_id for one in self.exceptions for order in one.oldest),
        }


def sheet(
    user: User,
    begin: datetime,
    end: datetime,
    *,
    all_staff: bool,
    results: bool,
    exceptions: bool,
) -> Sheet:
    """A fixed number of queries. `results`, `exceptions`: whether the reader sees them."""
    entries = AuditEntry.objects.filter(action="change", at__gte=begin, at__lt=end)
    held, asked = Assignment.objects.order_by("at"), CommandRecord.objects.open()
    if not all_staff:
        entries = entries.filter(actor=user)
        held, asked = held.filter(user=user), asked.filter(requested_by=user)
    entries = entries.select_related("actor").only(*_OF_ENTRY)
    found = list(entries.order_by("-at", "-pk")[: ENTRIES + 1])
    did = _did(found[:ENTRIES], results)
    requests = list(asked.only(*_OF_REQUEST).order_by("requested_at")[:OPEN])
    criticals = list(open_criticals()[:OPEN]) if results else []
    names = names_of({*(one.about for one in did[:LINES]), *map(about_request, requests)})
    orders = by_key(Order, [row.pk for row in criticals], _OF_ORDER)
    return Sheet(
        _counted(found[:ENTRIES]),
        [replace(one, name=names[one.about]) for one in did[:LINES]],
        max(len(did) - LINES, 0),
        len(found) > ENTRIES,
        [(row, orders.get(row.pk)) for row in criticals],
        my_work.described(held, OPEN, results=results),
        [(row, names[about_request(row)]) for row in requests],
        waiting(user, timezone.now(), all_staff=all_staff) if exceptions else [],
    )


def about_request(row: CommandRecord) -> About:
    """A person who is being registered is no patient yet: their name was typed."""
    if row.kind != CreateUser.kind:
        return About(row.patient_id, _order_of(row))
    info = row.payload.get("info") or {}
    typed = f"{info.get('first_name', '')} {info.get('last_name', '')}".strip()
    return About(uuid_in(row.remote_id), typed=typed)


def names_of(found: Collection[About]) -> dict[About, str]:
    """As the service knows them; else as on their order, or as they were typed: two queries."""
    names = lookup.names_of({(one.patient, one.order) for one in found})
    return {one: names[one.patient, one.order] or one.typed for one in found}


def _order_of(row: CommandRecord | Note | Contact) -> UUID | None:
    return uuid_in(row.subject_id) if row.subject_type in ("order", "result") else None


def _kind(entry: AuditEntry) -> str:
    """A request has the kind of its command, with a dot: `order.create`."""
    return "request" if "." in entry.object_type.partition(" ")[0] else entry.object_type


def _counted(entries: Sequence[AuditEntry]) -> list[str]:
    """`32 results signed`, the most frequent first."""
    numbers: Counter[str] = Counter()
    for entry in entries:
        kind = _kind(entry)
        numbers[kind] += len(entry.object_ids) if kind in OF_MANY else 1
    return [f"{number:,} {_words(kind)[number != 1]}" for kind, number in numbers.most_common()]


def _words(kind: str) -> tuple[str, str]:
    """One and many of a kind; `bulk …` and `fetch …` name what they are about behind it."""
    known = WORDS.get(kind) or WORDS.get(kind.partition(" ")[0])
    return known or (f"change: {kind}", f"changes: {kind}")


def _did(entries: Sequence[AuditEntry], results: bool) -> list[Did]:
    """Requests, calls and notes with their words, oldest first; the rest is only counted."""
    requests = _named(entries, "request", CommandRecord, UUID)
    notes = _named(entries, "note", Note, int)
    contacts = _named(entries, "contact", Contact, int)
    found = []
    for entry in reversed(entries):
        kind = _kind(entry)
        patient = entry.patient_ids[0] if entry.patient_ids else None
        by = staff_name(entry.actor) or "The back office"
        key = entry.object_ids[0] if entry.object_ids else ""
        if kind == "request" and (row := requests.get(key)):
            words = row.refusal or row.get_state_display()
            found.append(Did(entry.at, by, row.title, words, about_request(row)))
        elif kind == "note" and (note := notes.get(key)):
            if note.subject_type in OF_RESULTS and not results:
                continue
            about = About(patient, _order_of(note))
            found.append(Did(entry.at, by, "Note", note.text, about))
        elif kind == "contact" and (call := contacts.get(key)):
            what = call.get_outcome_display()
            about = About(patient, _order_of(call))
            due = call.next_due_at
            found.append(Did(entry.at, by, what, call.note, about, next_due_at=due))
    return found


def _named(
    entries: Sequence[AuditEntry], kind: str, model: type[Model], read: Callable[[str], object]
) -> dict[str, Any]:
    """Rows that entries of a kind are about, by what the entries call them."""
    keys = {}
    for entry in entries:
        if entry.object_ids and _kind(entry) == kind:
            with contextlib.suppress(ValueError):  # something else of that name
                keys[entry.object_ids[0]] = read(entry.object_ids[0])
    rows = by_key(model, keys.values())
    return {name: rows[key] for name, key in keys.items() if key in rows}
