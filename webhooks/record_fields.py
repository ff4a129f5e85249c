"""Fields of stored records with their labels, and the comparison of two versions of a record."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any, Final, NamedTuple, TypeAlias

from django.utils.translation import gettext, gettext_noop

from backoffice.core import vocabulary
from backoffice.service.orders import low_level
from webhooks.payloads import one_line, parse_instant, replace_surrogates

Values: TypeAlias = Mapping[str, Any]
"""The JSON of a record."""

MAX_MEMBERS: Final = 400
"""Most members of one record that are compared."""
MAX_DEPTH: Final = 6


class RecordField(NamedTuple):
    """A field of a record that staff may see.

    `path` is its dotted path in the record, `kind` is text, moment, day, or the name of a
    vocabulary, and `permission` is required to see it.
    """

    path: str
    label: str
    kind: str = "text"
    permission: str = "orders.view"


@dataclass(frozen=True, slots=True)
class DisplayedValue:
    """A value for display: a moment, a day, a status, or text."""

    text: str = ""
    moment: datetime | None = None
    day: date | None = None
    term: vocabulary.Term | None = None


@dataclass(frozen=True, slots=True)
class FieldRow:
    """A field at a past moment and now."""

    label: str
    then: DisplayedValue
    now: DisplayedValue

    @property
    def differs(self) -> bool:
        return self.then != self.now


def _patient_fields(prefix: str, **labels: str) -> tuple[RecordField, ...]:
    return tuple(
        RecordField(f"{prefix}.{name}", label, "day" if name == "dob" else "text", "patients.view")
        for name, label in labels.items()
    )


_ADDRESS: Final = {
    "receiver_name": gettext_noop("Recipient"),
    "first_line": gettext_noop("Street"),
    "second_line": gettext_noop("Apartment or unit"),
    "city": gettext_noop("City"),
    "state": gettext_noop("State"),
    "zip": gettext_noop("ZIP code"),
    "zip_code": gettext_noop("ZIP code"),
}
ORDER_FIELDS: Final = (
    RecordField("updated_at", gettext_noop("Changed at the lab service"), "moment"),
    RecordField("lab_test.name", gettext_noop("Test")),
    RecordField("lab_test.lab.name", gettext_noop("Lab")),
    RecordField("lab_test.method", gettext_noop("Collection"), "order.method"),
    RecordField("sample_id", gettext_noop("Sample ID")),
    RecordField("priority", gettext_noop("Priority")),
    RecordField("billing_type", gettext_noop("Billing"), "order.billing_type"),
    RecordField("origin", gettext_noop("Origin"), "order.origin"),
    RecordField("activate_by", gettext_noop("Scheduled for"), "day"),
    RecordField("expected_result_by_date", gettext_noop("Result expected by"), "day"),
    RecordField("worst_case_result_by_date", gettext_noop("Result expected no later than"), "day"),
    RecordField("has_abn", gettext_noop("Has an ABN")),
    RecordField("user_id", gettext_noop("Patient ID")),
    RecordField("order_transaction.status", gettext_noop("Transaction"), "transaction.status"),
    RecordField(
        "interpretation", gettext_noop("Interpretation"), "order.interpretation", "results.view"
    ),
    RecordField("has_missing_results", gettext_noop("Results missing"), "text", "results.view"),
    *_patient_fields(
        "patient_details",
        first_name=gettext_noop("First name"),
        last_name=gettext_noop("Last name"),
        dob=gettext_noop("Birth date"),
        gender=gettext_noop("Gender"),
        phone_number=gettext_noop("Phone"),
        email=gettext_noop("Email"),
    ),
    *_patient_fields("patient_address", **_ADDRESS),
    RecordField("icd_codes", gettext_noop("Diagnoses"), "text", "patients.view"),
    RecordField("notes", gettext_noop("Notes"), "text", "patients.view"),
    RecordField("clinical_notes", gettext_noop("Clinical notes"), "text", "patients.view"),
    RecordField("passthrough", gettext_noop("Clinic reference"), "text", "patients.view"),
)
VISIT_FIELDS: Final = (
    RecordField("status", gettext_noop("Status"), "appointment.status"),
    RecordField("event_status", gettext_noop("Latest step"), "appointment.event_status"),
    RecordField("start_at", gettext_noop("Starts"), "moment"),
    RecordField("end_at", gettext_noop("Ends"), "moment"),
    RecordField("provider", gettext_noop("Provider")),
    RecordField("external_id", gettext_noop("Provider’s number")),
    RecordField("can_reschedule", gettext_noop("Can be rescheduled")),
    *_patient_fields("address", **_ADDRESS, unit=gettext_noop("Apartment or unit")),
    RecordField("appointment_notes", gettext_noop("Notes"), "text", "patients.view"),
)
WARNING_FIELDS: Final = (
    RecordField("interpretation", gettext_noop("Interpretation"), "order.interpretation"),
    RecordField("status", gettext_noop("Result"), "result.status"),
    RecordField("updated_at", gettext_noop("Retrieved from the lab"), "moment"),
)
RESULT_FIELDS: Final = (
    RecordField("status", gettext_noop("Status"), "result.status"),
    RecordField("laboratory", gettext_noop("Laboratory")),
    RecordField("specimen", gettext_noop("Specimen number")),
    RecordField("collected", gettext_noop("Collected")),
    RecordField("received", gettext_noop("Received by the lab")),
    RecordField("reported", gettext_noop("Reported")),
    RecordField("corrections", gettext_noop("Announced corrections")),
)
EMPTY: Final = DisplayedValue()
_NOT_COMPARED: Final = ("events", "requisition_form_url")
"""Steps are only counted. The link of the requisition differs in each answer."""


def compare(
    fields: Sequence[RecordField], then: Values, now: Values, granted: frozenset[str]
) -> tuple[list[FieldRow], int]:
    """Return the fields that have a value in either version, and how many of them are hidden.

    Users who may see raw records also get the differing members that are not in `fields`.
    """
    rows: list[FieldRow] = []
    hidden = 0
    for field in fields:
        row = FieldRow(
            gettext(field.label),
            display_value(value_at(then, field.path), field),
            display_value(value_at(now, field.path), field),
        )
        if row.then == row.now == EMPTY:
            continue
        if field.permission in granted:
            rows.append(row)
        else:
            hidden += 1
    if "records.view" in granted:
        rows += _other_members({field.path for field in fields}, then, now)
    return rows, hidden


def value_at(values: Values, path: str) -> Any:
    """Return the value at a dotted path, or None."""
    value: Any = values
    for name in path.split("."):
        value = value.get(name) if isinstance(value, Mapping) else None
    return value


def display_value(value: object, field: RecordField) -> DisplayedValue:
    """Return a value in the format of its field; unchanged if it does not fit the field."""
    if value is None or value in ("", [], {}):
        return EMPTY
    if field.kind == "moment" and (moment := parse_instant(value)) is not None:
        return DisplayedValue(moment=moment)
    if field.kind == "day" and isinstance(value, str):
        try:
            return DisplayedValue(day=date.fromisoformat(value[:10]))
        except ValueError:
            return DisplayedValue(replace_surrogates(one_line(value)))
    if field.kind not in ("text", "moment", "day") and isinstance(value, str):
        return DisplayedValue(term=vocabulary.term(field.kind, value))
    return DisplayedValue(replace_surrogates(one_line(value)))


def status_row(then: Values, now: Values) -> FieldRow:
    """Return the status of an order, from its newest step."""
    return FieldRow(gettext("Status"), _status(then), _status(now))


def steps_row(then: Values, now: Values) -> FieldRow:
    """Return the number of steps of an order."""
    return FieldRow(
        gettext("Steps"),
        DisplayedValue(str(len(_steps(then)))),
        DisplayedValue(str(len(_steps(now)))),
    )


def _steps(order: Values) -> list[Values]:
    steps = order.get("events")
    return [step for step in steps if isinstance(step, Mapping)] if isinstance(steps, list) else []


def _status(order: Values) -> DisplayedValue:
    steps = sorted(_steps(order), key=_step_order)
    last_step = order.get("last_event")
    if not isinstance(last_step, Mapping):
        last_step = steps[-1] if steps else {}
    history = [low_level(str(step.get("status", ""))) for step in steps]
    status = low_level(str(last_step.get("status") or order.get("status") or ""))
    method = value_at(order, "lab_test.method")
    method = method if isinstance(method, str) else ""
    return DisplayedValue(term=vocabulary.order_term(status, method, history))


def _step_order(step: Values) -> tuple[str, int]:
    number = step.get("id")
    return str(step.get("created_at")), number if isinstance(number, int) else 0


def _other_members(paths: set[str], then: Values, now: Values) -> list[FieldRow]:
    before, after = dict(_flatten(then)), dict(_flatten(now))
    return [
        FieldRow(_label(path), before.get(path, EMPTY), after.get(path, EMPTY))
        for path in sorted({*before, *after} - paths)
        if before.get(path) != after.get(path)
    ]


def _flatten(values: Values) -> Iterator[tuple[str, DisplayedValue]]:
    """Yield values by dotted path, at most `MAX_MEMBERS` of them."""
    todo: list[tuple[str, object, int]] = [("", values, 0)]
    count = 0
    while todo and count < MAX_MEMBERS:
        path, value, depth = todo.pop()
        if isinstance(value, Mapping) and depth < MAX_DEPTH:
            todo += [
                (f"{path}.{name}" if path else name, member, depth + 1)
                for name, member in value.items()
                if path or name not in _NOT_COMPARED
            ]
        elif value not in (None, "", [], {}):
            count += 1
            yield path, DisplayedValue(replace_surrogates(one_line(value)))


def _label(path: str) -> str:
    words = [part.replace("_", " ") for part in path.split(".")]
    return " › ".join([words[0].capitalize(), *words[1:]])
