"""Fields of stored records, in words, and what two versions of a record say differently."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any, Final, NamedTuple

from backoffice.core import vocabulary
from backoffice.service.orders import low_level
from webhooks.payloads import brief, moment_of, sendable

Values = Mapping[str, Any]

MOST: Final = 400
"""Members of one record that are compared."""
DEPTH: Final = 6


class Field(NamedTuple):
    """One field that staff may see: where it is in a record, what it is called, how it is written
    (text, moment, day, or the name of a vocabulary), and the permission that it needs."""

    path: str
    label: str
    kind: str = "text"
    permission: str = "orders.view"


@dataclass(frozen=True, slots=True)
class Shown:
    """A value as a page shows it: an instant, a day, a status, or text."""

    text: str = ""
    moment: datetime | None = None
    day: date | None = None
    term: vocabulary.Term | None = None


@dataclass(frozen=True, slots=True)
class FieldRow:
    """A field as it was and as it is now."""

    label: str
    then: Shown
    now: Shown

    @property
    def differs(self) -> bool:
        return self.then != self.now


def _of_patient(prefix: str, **labels: str) -> tuple[Field, ...]:
    return tuple(
        Field(f"{prefix}.{name}", label, "day" if name == "dob" else "text", "patients.view")
        for name, label in labels.items()
    )


_ADDRESS: Final = {
    "receiver_name": "Recipient",
    "first_line": "Street",
    "second_line": "Apartment or unit",
    "city": "City",
    "state": "State",
    "zip": "ZIP code",
    "zip_code": "ZIP code",
}
ORDER_FIELDS: Final = (
    Field("updated_at", "Changed at the service", "moment"),
    Field("lab_test.name", "Test"),
    Field("lab_test.lab.name", "Lab"),
    Field("lab_test.method", "Collection", "order.method"),
    Field("sample_id", "Sample ID"),
    Field("priority", "Priority"),
    Field("billing_type", "Billing", "order.billing_type"),
    Field("origin", "Origin", "order.origin"),
    Field("activate_by", "Scheduled for", "day"),
    Field("expected_result_by_date", "Result expected by", "day"),
    Field("worst_case_result_by_date", "Result at the latest by", "day"),
    Field("has_abn", "Has an ABN"),
    Field("user_id", "Patient ID"),
    Field("order_transaction.status", "Transaction", "transaction.status"),
    Field("interpretation", "Interpretation", "order.interpretation", "results.view"),
    Field("has_missing_results", "Has missing results", "text", "results.view"),
    *_of_patient(
        "patient_details",
        first_name="First name",
        last_name="Last name",
        dob="Birth date",
        gender="Gender",
        phone_number="Phone",
        email="Email",
    ),
    *_of_patient("patient_address", **_ADDRESS),
    Field("icd_codes", "Diagnoses", "text", "patients.view"),
    Field("notes", "Notes", "text", "patients.view"),
    Field("clinical_notes", "Clinical notes", "text", "patients.view"),
    Field("passthrough", "Our reference", "text", "patients.view"),
)
VISIT_FIELDS: Final = (
    Field("status", "Status", "appointment.status"),
    Field("event_status", "Latest step", "appointment.event_status"),
    Field("start_at", "Starts", "moment"),
    Field("end_at", "Ends", "moment"),
    Field("provider", "Provider"),
    Field("external_id", "Number at the provider"),
    Field("can_reschedule", "Can be rescheduled"),
    *_of_patient("address", **_ADDRESS, unit="Apartment or unit"),
    Field("appointment_notes", "Notes", "text", "patients.view"),
)
WARNING_FIELDS: Final = (
    Field("interpretation", "Interpretation", "order.interpretation"),
    Field("status", "Result", "result.status"),
    Field("updated_at", "Fetched from the lab", "moment"),
)
RESULT_FIELDS: Final = (
    Field("status", "Status", "result.status"),
    Field("laboratory", "Laboratory"),
    Field("specimen", "Specimen number"),
    Field("collected", "Collected"),
    Field("received", "Received by the lab"),
    Field("reported", "Reported"),
    Field("corrections", "Corrections announced"),
)
EMPTY: Final = Shown()
_NEVER: Final = ("events", "requisition_form_url")
"""Steps are counted, not listed; the link of the requisition is another one in each answer."""


def compare(
    fields: Sequence[Field], then: Values, now: Values, granted: frozenset[str]
) -> tuple[list[FieldRow], int]:
    """Fields that have a value in either version, and how many of them the reader may not see.

    Who may see records as sent also gets the members that no field names, where they differ.
    """
    rows: list[FieldRow] = []
    hidden = 0
    for field in fields:
        row = FieldRow(
            field.label, shown(at(then, field.path), field), shown(at(now, field.path), field)
        )
        if row.then == row.now == EMPTY:
            continue
        if field.permission in granted:
            rows.append(row)
        else:
            hidden += 1
    if "records.view" in granted:
        rows += _others({field.path for field in fields}, then, now)
    return rows, hidden


def at(values: Values, path: str) -> Any:
    """The value at a dotted path; None where there is none."""
    found: Any = values
    for name in path.split("."):
        found = found.get(name) if isinstance(found, Mapping) else None
    return found


def shown(value: Any, field: Field) -> Shown:
    """A value of a record as its field is written; what does not fit is written as it came."""
    if value is None or value in ("", [], {}):
        return EMPTY
    if field.kind == "moment" and (moment := moment_of(value)) is not None:
        return Shown(moment=moment)
    if field.kind == "day" and isinstance(value, str):
        try:
            return Shown(day=date.fromisoformat(value[:10]))
        except ValueError:
            return Shown(sendable(brief(value)))
    if field.kind not in ("text", "moment", "day") and isinstance(value, str):
        return Shown(term=vocabulary.term(field.kind, value))
    return Shown(sendable(brief(value)))


def status_row(then: Values, now: Values) -> FieldRow:
    """The status of an order, from its newest step."""
    return FieldRow("Status", _status(then), _status(now))


def steps_row(then: Values, now: Values) -> FieldRow:
    return FieldRow("Steps", Shown(str(len(_steps(then)))), Shown(str(len(_steps(now)))))


def _steps(order: Values) -> list[Mapping[str, Any]]:
    steps = order.get("events")
    return [step for step in steps if isinstance(step, Mapping)] if isinstance(steps, list) else []


def _status(order: Values) -> Shown:
    steps = sorted(_steps(order), key=_in_time)
    last = order.get("last_event")
    if not isinstance(last, Mapping):
        last = steps[-1] if steps else {}
    history = [low_level(str(step.get("status", ""))) for step in steps]
    status = low_level(str(last.get("status") or order.get("status") or ""))
    method = at(order, "lab_test.method")
    method = method if isinstance(method, str) else ""
    return Shown(term=vocabulary.order_term(status, method, history))


def _in_time(step: Mapping[str, Any]) -> tuple[str, int]:
    number = step.get("id")
    return str(step.get("created_at")), number if isinstance(number, int) else 0


def _others(named: set[str], then: Values, now: Values) -> list[FieldRow]:
    before, after = dict(_flat(then)), dict(_flat(now))
    return [
        FieldRow(_label(path), before.get(path, EMPTY), after.get(path, EMPTY))
        for path in sorted({*before, *after} - named)
        if before.get(path) != after.get(path)
    ]


def _flat(values: Values) -> Iterator[tuple[str, Shown]]:
    """Values by dotted path, at most `MOST` of them."""
    todo: list[tuple[str, Any, int]] = [("", values, 0)]
    count = 0
    while todo and count < MOST:
        path, value, depth = todo.pop()
        if isinstance(value, Mapping) and depth < DEPTH:
            todo += [
                (f"{path}.{name}" if path else name, one, depth + 1)
                for name, one in value.items()
                if path or name not in _NEVER
            ]
        elif value not in (None, "", [], {}):
            count += 1
            yield path, Shown(sendable(brief(value)))


def _label(path: str) -> str:
    words = [part.replace("_", " ") for part in path.split(".")]
    return " › ".join([words[0].capitalize(), *words[1:]])
