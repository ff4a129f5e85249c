"""The change log of a record: what people did to it, from commands, notes, calls, and the audit."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, TypeVar
from uuid import UUID

from django.db.models import Model, QuerySet
from django.utils.dateparse import parse_datetime
from django.utils.translation import gettext, gettext_noop

from backoffice.accounts.models import User
from backoffice.audit.models import AuditEntry
from backoffice.outbox.models import CommandRecord
from backoffice.service.json_text import JsonObject
from backoffice.team.models import AssignmentChange, Contact, Note
from backoffice.team.queries import other_subject
from backoffice.team.subjects import RESULT_SUBJECTS, Subject, subject_label, subject_url

Row = TypeVar("Row", bound=Model)

MAX_CHANGES: Final = 100
OWN_KINDS: Final = ("note", "assignment", "contact")
"""Kinds of audit entries left out: the change log shows their own rows."""
DECISION_LABELS: Final = {
    "withdrawn": gettext_noop("Withdrawn"),
    "again": gettext_noop("Resent"),
    "exists": gettext_noop("Confirmed as done"),
    "give-up": gettext_noop("Closed without resending"),
    "shown": gettext_noop("Viewed"),
}
KIND_LABELS: Final = {
    "report": gettext_noop("Changed a lab report"),
    "event": gettext_noop("Replayed events"),
    "sign result": gettext_noop("Signed the result"),
    "undo signature": gettext_noop("Removed the signature"),
    "acknowledge critical": gettext_noop("Acknowledged critical values"),
    "critical call": gettext_noop("Called about critical values"),
    "exception": gettext_noop("Worked on the exception"),
}
"""Labels of audit entries that belong to no command; other kinds are their own labels."""
ORDER_KINDS: Final = frozenset(
    ("sign result", "undo signature", "acknowledge critical", "critical call", "exception")
)
"""Kinds of audit entries with ids of orders."""
CRITICAL_KINDS: Final = ("acknowledge critical", "critical call")
"""Kinds of audit entries that reveal a result."""
DEMOGRAPHICS_COMMANDS: Final = ("patient.info", "patient.create")
"""Commands that save all demographics of a patient."""


@dataclass(frozen=True, slots=True)
class FieldDifference:
    """The old and new value of a field. None is unknown, "" is empty."""

    label: str
    before: str | datetime | None
    after: str | datetime | None


@dataclass(frozen=True, slots=True)
class ChangeLogEntry:
    at: datetime
    by: User | None
    what: str
    state: str = ""
    """State of the command, if the entry is about one."""
    text: str = ""
    reason: str = ""
    url: str = ""
    differences: list[FieldDifference] = field(default_factory=list)
    on: str = ""
    on_url: str = ""


def change_log(
    subject: Subject, most: int = MAX_CHANGES, *, sees_results: bool
) -> list[ChangeLogEntry]:
    """Return the changes of a record, newest first.

    For a patient, include the changes of their orders and visits. Include what reveals results only
    if `sees_results`.
    """
    hidden = () if sees_results else RESULT_SUBJECTS
    commands = list(
        _of_subject(CommandRecord.objects.select_related("requested_by"), subject).order_by(
            "-requested_at"
        )[:most]
    )
    entries = _requests(commands, subject)
    entries += _decisions(subject, {str(row.pk): row for row in commands}, most, sees_results)
    notes = _of_subject(Note.objects.select_related("author"), subject).order_by("-at", "-pk")
    notes = notes.exclude(subject_type__in=hidden)
    for note in notes[:most]:
        on, url = other_subject(note, subject)
        entries.append(
            ChangeLogEntry(note.at, note.author, gettext("Note"), text=note.text, on=on, on_url=url)
        )
    calls = _of_subject(Contact.objects.select_related("by"), subject).order_by("-at", "-pk")
    calls = calls.exclude(subject_type__in=hidden)
    for call in calls[:most]:
        on, url = other_subject(call, subject)
        what = str(call.get_outcome_display())
        entries.append(ChangeLogEntry(call.at, call.by, what, text=call.note, on=on, on_url=url))
    moves = AssignmentChange.objects.select_related("before", "after", "by")
    for move in _of_subject(moves, subject).order_by("-at", "-pk")[:most]:
        on, url = other_subject(move, subject)
        difference = FieldDifference(
            gettext("Assigned to"), _staff_name(move.before), _staff_name(move.after)
        )
        what = _assignment_label(move)
        entries.append(
            ChangeLogEntry(move.at, move.by, what, differences=[difference], on=on, on_url=url)
        )
    return sorted(entries, key=lambda entry: entry.at, reverse=True)[:most]


def _of_subject(rows: QuerySet[Row], subject: Subject) -> QuerySet[Row]:
    if subject.type == "patient":
        return rows.filter(patient_id=subject.id)
    return rows.filter(subject_type=subject.type, subject_id=subject.id)


def _requests(rows: Iterable[CommandRecord], subject: Subject) -> list[ChangeLogEntry]:
    entries = []
    details: dict[UUID | None, JsonObject] = {}
    for row in sorted(rows, key=lambda row: row.requested_at):
        on, url = other_subject(row, subject)
        entries.append(
            ChangeLogEntry(
                row.requested_at,
                row.requested_by,
                row.title,
                state=row.state,
                text=row.refusal,
                reason=row.reason,
                url=str(row.pk),
                differences=_differences(row, details.get(row.patient_id)),
                on=on,
                on_url=url,
            )
        )
        if row.kind in DEMOGRAPHICS_COMMANDS and row.state == CommandRecord.State.DONE:
            details[row.patient_id] = row.payload.get("info", {})
    return entries


def _differences(row: CommandRecord, saved: JsonObject | None) -> list[FieldDifference]:
    """Return what a request was to change, as far as its payload shows it.

    Demographics are compared with those that were saved last.
    """
    payload = row.payload
    if row.kind == "appointment.move":
        time = payload.get("time") or {}
        return [
            FieldDifference(
                gettext("Visit"), _parse_time(payload.get("seen")), _parse_time(time.get("start"))
            )
        ]
    if row.kind == "order.activation":
        return [FieldDifference(gettext("Release on"), None, payload.get("activate_by") or "")]
    if row.kind == "order.messages":
        current, requested = (
            _on_off_label(payload.get("seen")),
            _on_off_label(payload.get("sms_enabled")),
        )
        return [FieldDifference(gettext("Text messages"), current, requested)]
    if row.kind == "patient.info" and saved is not None:
        before, after = _flatten(saved), _flatten(payload.get("info") or {})
        names = [name for name in {**before, **after} if before.get(name) != after.get(name)]
        return [
            FieldDifference(_label(name), before.get(name, ""), after.get(name, ""))
            for name in names
        ]
    return []


def _on_off_label(is_on: object) -> str | None:
    if not isinstance(is_on, bool):
        return None
    return gettext("On") if is_on else gettext("Off")


def _decisions(
    subject: Subject, rows: Mapping[str, CommandRecord], most: int, sees_results: bool
) -> list[ChangeLogEntry]:
    """Return the decisions on requests, and the changes that no request made."""
    hidden = OWN_KINDS if sees_results else (*OWN_KINDS, *CRITICAL_KINDS)
    entries = AuditEntry.objects.filter(action="change").exclude(object_type__in=hidden)
    if subject.type == "patient":
        entries = entries.filter(patient_ids__contains=[subject.id])
    else:
        entries = entries.filter(object_ids__contains=[subject.id])
    decisions = []
    for entry in entries.select_related("actor").order_by("-at")[:most]:
        kind, _, decision = entry.object_type.partition(" ")
        if "." not in kind:
            what = gettext(KIND_LABELS.get(entry.object_type, entry.object_type.capitalize()))
            on, url = _related_order(entry, subject)
            decisions.append(
                ChangeLogEntry(entry.at, entry.actor, what, reason=entry.reason, on=on, on_url=url)
            )
        elif decision in DECISION_LABELS:
            row = next((rows[key] for key in entry.object_ids if key in rows), None)
            what = f"{gettext(DECISION_LABELS[decision])}: {row.title if row else kind}"
            url = str(row.pk) if row else ""
            decisions.append(
                ChangeLogEntry(entry.at, entry.actor, what, reason=entry.reason, url=url)
            )
    return decisions


def _related_order(entry: AuditEntry, subject: Subject) -> tuple[str, str]:
    """Return the label and URL of the order of an entry, on the page of its patient."""
    is_of_one_order = entry.object_type in ORDER_KINDS and len(entry.object_ids) == 1
    if not is_of_one_order or subject.type != "patient":
        return "", ""
    return subject_label("order"), subject_url("order", entry.object_ids[0])


def _assignment_label(move: AssignmentChange) -> str:
    if move.after is None:
        return gettext("Unassigned")
    if move.after_id == move.by_id:
        return gettext("Took over") if move.before_id else gettext("Assigned to self")
    return gettext("Assigned to a colleague")


def _staff_name(user: User | None) -> str:
    return user.get_full_name() if user else gettext("no one")


def _parse_time(text: object) -> str | datetime | None:
    try:
        return parse_datetime(str(text)) if text else ""
    except ValueError:
        return str(text)


def _flatten(info: Mapping[str, object], prefix: str = "") -> dict[str, str]:
    texts: dict[str, str] = {}
    for name, value in info.items():
        if isinstance(value, Mapping):
            texts |= _flatten(value, f"{prefix}{name} ")
        elif value not in (None, ""):
            texts[f"{prefix}{name}"] = str(value)
    return texts


def _label(name: str) -> str:
    return name.replace("_", " ").replace("dob", "birth date").capitalize()
