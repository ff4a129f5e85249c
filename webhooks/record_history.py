"""An order, its result and its appointments as they were known at a past moment.

The bodies of events are stored until they are deleted after `EVENT_BODY_DAYS`, and so is each
version of a result. A read of the service replaces the record, so only the newest read is stored.
The state at a moment is the last stored version before it. Before the first version, the state is
not known.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Final, Literal
from uuid import UUID

from django.utils.translation import gettext

from backoffice.core.urls import parse_uuid
from orders.models import Appointment, Order, OrderPatientChange, Result, ResultVersion
from orders.results.differences import ResultLine, lines_by_marker
from webhooks import payloads, record_fields
from webhooks.event_list_rows import EventRow
from webhooks.models import Event
from webhooks.record_fields import EMPTY, DisplayedValue, FieldRow, Values

MAX_VERSIONS: Final = 50
"""Newest versions of a result that are read."""
EFFECTIVE_OUTCOMES: Final = ("applied", "unchanged")
"""Outcomes of events whose version was, or became, the stored one."""
URL_MOMENT_FORMAT: Final = "%Y-%m-%dT%H:%M:%SZ"
"""Format of a moment in a URL. It is in UTC, so it is the same for every user."""
MAX_CLOCK_LEAD: Final = timedelta(minutes=10)
"""An order whose `updated_at` is later than this has no version (`orders.sync.orders`)."""


@dataclass(frozen=True, slots=True)
class RecordVersion:
    """One stored version of a record. `source` is event, read or version (of a result)."""

    at: datetime
    """When this product received it."""
    source: Literal["event", "read", "version"]
    values: Values | None
    """None if the body of the event has been deleted."""
    row: EventRow | None = None
    number: int | None = None
    """Number of a version of a result."""


@dataclass(frozen=True, slots=True)
class RecordAtMoment:
    """A record as of a past moment, compared with its current version.

    `version` is None if it is not known.
    """

    title: str
    version: RecordVersion | None
    current: RecordVersion | None
    oldest_at: datetime | None
    """When the oldest stored version was received; None if there is none."""
    next_at: datetime | None
    """When the next stored version was received."""
    rows: list[FieldRow] = field(default_factory=list)
    hidden: int = 0
    """Number of fields that the role of the user may not see."""
    missing_since: datetime | None = None
    """When the service was first found not to have the record, if it was missing at that moment."""
    superseded_at: datetime | None = None
    """When another appointment replaced it, if it was replaced at that moment."""

    @property
    def is_current(self) -> bool:
        return self.version is not None and self.version is self.current

    @property
    def changed(self) -> list[FieldRow]:
        """Fields that differ from the current version."""
        return [row for row in self.rows if row.differs]

    @property
    def same(self) -> list[FieldRow]:
        return [row for row in self.rows if not row.differs]


Compare = Callable[[Values, Values], tuple[list[FieldRow], int]]


@dataclass(frozen=True, slots=True)
class RecordHistory:
    """The stored versions of one record, oldest first; the last is the current one, if any."""

    title: str
    versions: list[RecordVersion]
    compare: Compare
    current: RecordVersion | None
    missing_since: datetime | None = None
    superseded_at: datetime | None = None

    def at_moment(self, moment: datetime) -> RecordAtMoment:
        """Return the record as it was known at `moment`."""
        before = [version for version in self.versions if version.at <= moment]
        after = [version for version in self.versions if version.at > moment]
        version = before[-1] if before else None
        rows: list[FieldRow] = []
        hidden = 0
        if version is not None and version.values is not None:
            now = self.current.values if self.current else None
            rows, hidden = self.compare(version.values, now or {})
        return RecordAtMoment(
            self.title,
            version,
            self.current,
            oldest_at=self.versions[0].at if self.versions else None,
            next_at=after[0].at if after else None,
            rows=rows,
            hidden=hidden,
            missing_since=_at_or_before(self.missing_since, moment),
            superseded_at=_at_or_before(self.superseded_at, moment),
        )


def _at_or_before(at: datetime | None, moment: datetime) -> datetime | None:
    return at if at is not None and at <= moment else None


@dataclass(frozen=True, slots=True)
class SliderStop:
    """A moment when a record changed: a stop of the slider on the page."""

    at: datetime
    """The next whole second, which a URL can have and which includes the change."""
    titles: tuple[str, ...]
    """Titles of the records that changed."""

    @property
    def address(self) -> str:
        return self.at.strftime(URL_MOMENT_FORMAT)


def slider_stops(histories: Iterable[RecordHistory]) -> list[SliderStop]:
    """Return the moments when a record changed, oldest first."""
    titles: dict[datetime, dict[str, None]] = {}
    for history in histories:
        for version in history.versions:
            titles.setdefault(_second(version.at), {})[history.title] = None
    return [SliderStop(at, tuple(titles[at])) for at in sorted(titles)]


def _second(at: datetime) -> datetime:
    whole = at.astimezone(UTC).replace(microsecond=0)
    return whole if whole == at else whole + timedelta(seconds=1)


def first_move_after(
    order: Order, moves: Sequence[OrderPatientChange], moment: datetime
) -> OrderPatientChange | None:
    """Return the first move of the order to another patient after a moment.

    Its `before` is the patient at that moment.
    """
    return min((move for move in moves if move.at > moment), key=lambda m: m.at, default=None)


def order_history(
    order: Order, event_rows: Sequence[EventRow], granted: frozenset[str]
) -> RecordHistory:
    """Return the history of the order. `event_rows`: events about it, newest first."""

    def compare(at_moment: Values, now: Values) -> tuple[list[FieldRow], int]:
        rows, hidden = record_fields.compare(record_fields.ORDER_FIELDS, at_moment, now, granted)
        first = [record_fields.status_row(at_moment, now), record_fields.steps_row(at_moment, now)]
        return first + rows, hidden

    versions: list[RecordVersion] = []
    newest: tuple[datetime, int] | None = None
    for row in reversed(event_rows):
        event = row.event
        if event.state != Event.State.DONE or event.outcome not in EFFECTIVE_OUTCOMES:
            continue
        if not event.event_type.startswith("labtest.order."):
            continue
        if event.body is None:
            if event.outcome == "applied":
                versions.append(RecordVersion(_known_since(event), "event", None, row))
            continue
        data = payloads.data_of(event)
        version = _order_version(data, event.received_at)
        if version is None or (newest is not None and version <= newest):
            continue
        newest = version
        versions.append(RecordVersion(_known_since(event), "event", data, row))
    return _with_current(gettext("Order"), versions, order, compare)


def appointment_histories(
    visits: Sequence[Appointment], event_rows: Sequence[EventRow], granted: frozenset[str]
) -> list[RecordHistory]:
    """Return the history of each appointment: stored ones first, then those only events have."""

    def compare(at_moment: Values, now: Values) -> tuple[list[FieldRow], int]:
        return record_fields.compare(record_fields.VISIT_FIELDS, at_moment, now, granted)

    by_visit: dict[str, list[RecordVersion]] = {str(visit.pk): [] for visit in visits}
    removed: list[RecordVersion] = []
    for row in reversed(event_rows):
        event = row.event
        if event.state != Event.State.DONE:
            continue
        if not event.event_type.startswith("labtest.appointment."):
            continue
        if event.body is None:
            removed.append(RecordVersion(event.received_at, "event", None, row))
            continue
        data = payloads.data_of(event)
        key = parse_uuid(str(data.get("id")))
        if key is not None:
            version = RecordVersion(event.received_at, "event", data, row)
            by_visit.setdefault(str(key), []).append(version)
    stored = {str(visit.pk): visit for visit in visits}
    # An event without its body belongs to a known appointment only if there is exactly one.
    if removed and len(by_visit) == 1:
        only = next(iter(by_visit))
        by_visit[only] = removed + by_visit[only]
    return [
        _with_current(gettext("Visit"), versions, stored.get(key), compare)
        for key, versions in by_visit.items()
    ]


def warning_history(event_rows: Sequence[EventRow], granted: frozenset[str]) -> RecordHistory:
    """Return the history of the lab's warnings of a critical result. Only events have them."""

    def compare(at_moment: Values, now: Values) -> tuple[list[FieldRow], int]:
        return record_fields.compare(record_fields.WARNING_FIELDS, at_moment, now, granted)

    versions = [
        RecordVersion(
            row.event.received_at,
            "event",
            payloads.data_of(row.event) if row.event.body is not None else None,
            row,
        )
        for row in reversed(event_rows)
        if row.event.event_type == "labtest.result.critical"
        and row.event.state == Event.State.DONE
        and row.event.outcome != "stale"
    ]
    current = versions[-1] if versions else None
    return RecordHistory(gettext("Critical result alert from the lab"), versions, compare, current)


def result_history(order_id: UUID, result: Result | None) -> RecordHistory:
    """Return the history of the result, whose versions are all stored forever: one query."""
    newest_first = ResultVersion.objects.filter(order_id=order_id).order_by("-number")[
        :MAX_VERSIONS
    ]
    versions = [
        RecordVersion(row.received_at, "version", row.content, number=row.number)
        for row in reversed(newest_first)
    ]
    return RecordHistory(
        gettext("Result"),
        versions,
        _compare_results,
        versions[-1] if versions else None,
        result.missing_since if result else None,
    )


def _compare_results(at_moment: Values, now: Values) -> tuple[list[FieldRow], int]:
    rows, _ = record_fields.compare(
        record_fields.RESULT_FIELDS, at_moment, now, frozenset({"orders.view"})
    )
    before, after = lines_by_marker(at_moment), lines_by_marker(now)
    for key in {**before, **after}:
        old, new = before.get(key), after.get(key)
        name = str((old or new or {}).get("name", ""))
        rows.append(FieldRow(name, _marker_value(old), _marker_value(new)))
    return rows, 0


def _marker_value(line: ResultLine | None) -> DisplayedValue:
    """Return a marker as one line: value, unit, flag, range, notes of the lab."""
    if line is None:
        return EMPTY
    if line.get("missing"):
        return DisplayedValue(
            gettext("Missing: %(reason)s")
            % {"reason": line.get("why") or gettext("no reason given")}
        )
    parts = [f"{line.get('text', '')} {line.get('unit') or ''}".strip(), line.get("flag")]
    if line.get("range"):
        parts.append(gettext("range %(range)s") % {"range": line["range"]})
    parts.append(line.get("notes"))
    return DisplayedValue(", ".join(str(part) for part in parts if part))


def _with_current(
    title: str,
    versions: list[RecordVersion],
    record: Order | Appointment | None,
    compare: Compare,
) -> RecordHistory:
    """Return the history of the events' versions, with the mirrored record as the last one."""
    if record is None:
        # Only events have this record, so the latest version is the current one.
        return RecordHistory(title, versions, compare, versions[-1] if versions else None)
    own_event = next(
        (v for v in versions if v.row and v.row.event.received_at == record.as_of), None
    )
    since = own_event.at if own_event else record.as_of
    current = RecordVersion(
        since,
        "event" if own_event else "read",
        record.record_at(),
        own_event.row if own_event else None,
    )
    earlier = sorted((v for v in versions if v.at < since), key=lambda v: v.at)
    superseded = record.superseded_at if isinstance(record, Appointment) else None
    return RecordHistory(
        title, [*earlier, current], compare, current, record.missing_since, superseded
    )


def _known_since(event: Event) -> datetime:
    """Return when the version of an event became, or was found to be, the stored one."""
    if event.outcome == "applied" and event.applied_at is not None:
        return event.applied_at
    return event.received_at


def _order_version(data: Values, received_at: datetime) -> tuple[datetime, int] | None:
    """Return the version of an order as `orders.handlers` computes it.

    Return None if the event has no version.
    """
    updated_at = payloads.parse_instant(data.get("updated_at"))
    if updated_at is None or updated_at > received_at + MAX_CLOCK_LEAD:
        return None
    last_step = data.get("last_event")
    steps = [last_step] if isinstance(last_step, dict) else data.get("events")
    numbers = [
        step["id"]
        for step in (steps if isinstance(steps, list) else [])
        if isinstance(step, dict) and isinstance(step.get("id"), int)
    ]
    return updated_at, max(numbers, default=0)
