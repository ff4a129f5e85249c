"""Handlers of events about orders, appointments and critical results (webhooks, chapters 4 and 5).

An order event has the whole order, and orders have a version: the newer version wins, whatever the
order of arrival. An older event changes nothing in the order, but may complete the history. A
lookup is scheduled where the version cannot decide, or where the event lacks a part of the order. A
handler never calls the service.

Appointments have no version. An event about one only schedules a lookup.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from uuid import UUID

import msgspec
from django.db import connection

from backoffice.mirror.datetime_limits import to_utc_in_range
from backoffice.mirror.rows import StoredVersion, add_child_rows, stored_versions
from backoffice.mirror.tables import MirrorRecord, RowValues
from backoffice.service import Record
from backoffice.service import events as service_events
from backoffice.service import orders as service_orders
from backoffice.service.events import ReceivedEvent, misread_data, parse_event_data
from backoffice.service.payload import Reader, Unreadable
from backoffice.sync.lookups import schedule_lookups
from orders.models import Order
from orders.sync.orders import (
    CLOCK_TOLERANCE,
    LOOKUP_KIND_BY_METHOD,
    ORDER_EVENTS,
    ORDERS,
    store_orders,
)
from patients.sync import unknown_patients

LOOKUP_KIND_BY_TYPE = {
    "phlebotomy": "appointment-phlebotomy",
    "patient_service_center": "appointment-psc",
}
REQUIRED_FIELDS = ("user_id", "team_id", "created_at", "updated_at")
"""Fields that identify an order and its version. An event without one of these is incomplete."""

Version = tuple[datetime, int]


@dataclass(frozen=True, slots=True)
class _ReceivedOrder:
    """One order as it was in an event."""

    message_id: str
    record: Record[service_orders.OrderPayload]
    version: Version

    @property
    def order_id(self) -> UUID:
        return self.record.data.id


def handle_orders(events: Sequence[ReceivedEvent]) -> Mapping[str, str]:
    """Store newer orders, complete histories from older ones, and schedule lookups.

    Orders whose versions cannot be compared get a lookup. Return the outcome by message id of each
    event that was not simply applied.
    """
    outcomes: dict[str, str] = {}
    doubtful: set[UUID] = set()
    received: dict[UUID, list[_ReceivedOrder]] = {}
    for event in events:
        order_or_id = _read_order(event)
        if isinstance(order_or_id, UUID):
            doubtful.add(order_or_id)
            outcomes[event.message_id] = "looked up"
        else:
            received.setdefault(order_or_id.order_id, []).append(order_or_id)
    newest: list[_ReceivedOrder] = []
    older: list[_ReceivedOrder] = []
    suspect: set[UUID] = set()
    latest = datetime.now(UTC) + CLOCK_TOLERANCE
    versions = stored_versions(ORDERS, [(order_id,) for order_id in received], lock=True)
    for order_id in sorted(received, key=lambda key: key.int):
        stored = versions.get((order_id,))
        best = max(received[order_id], key=lambda order: order.version)
        rivals = [order for order in received[order_id] if order.version == best.version]
        for order in received[order_id]:
            outcomes[order.message_id] = "unchanged" if order in rivals else "stale"
        older += [order for order in received[order_id] if order is not best]
        contradicted = any(order.record.digest != best.record.digest for order in rivals)
        if stored is None or best.version > _version(stored):
            newest.append(best)
        elif _version(stored)[0] > latest:
            # A version in the future is not trusted. The later event wins until a lookup decides.
            newest.append(best)
            suspect.add(order_id)
        elif best.version < _version(stored):
            older.append(best)
            outcomes.update((order.message_id, "stale") for order in rivals)
            continue
        elif stored.missing_since:
            newest.append(best)
        elif not _has_same_content(stored, best):
            contradicted = True
        if contradicted:
            doubtful.add(order_id)
            outcomes.update((order.message_id, "looked up") for order in rivals)
    outcome = store_orders([order.record for order in newest], versions)
    if outcome.unreadable:
        raise ValueError("an order does not fit its columns")
    created = {record.key for record in outcome.created}
    written = {record.key[0] for record in outcome.touched}
    # Orders that another worker stored after `versions` was read. That read locked all others.
    unknown = {(order_id,) for order_id in received} - versions.keys() - created
    raced = stored_versions(ORDERS, sorted(unknown))
    for order in newest:
        other = raced.get((order.order_id,))
        if order.order_id not in written:
            older.append(order)
            outcomes[order.message_id] = "stale"
            if other is None or _version(other) != order.version or _has_same_content(other, order):
                continue
        if other is not None:
            # Both have the same version, or the overwritten content is no longer known.
            doubtful.add(order.order_id)
            outcomes[order.message_id] = "looked up"
        elif order.order_id not in doubtful:
            del outcomes[order.message_id]  # The default outcome: applied
    _complete_history(older, outcome.touched)
    schedule_lookups("orders", doubtful | suspect | _unknown_relatives(outcome.touched))
    return outcomes


def handle_appointments(events: Sequence[ReceivedEvent]) -> Mapping[str, str]:
    """Schedule lookups of the active appointments of orders.

    The content of an event is not stored. It may be about an earlier appointment, or be older than
    the record in the mirror.
    """
    kinds: dict[str, set[UUID]] = {kind: set() for kind in LOOKUP_KIND_BY_METHOD.values()}
    unnamed: set[UUID] = set()
    for event in events:
        draw = parse_event_data(_APPOINTMENT, event)
        named = LOOKUP_KIND_BY_TYPE.get(draw.type)
        (kinds[named] if named else unnamed).add(draw.order_id)
    methods = dict(Order.objects.filter(pk__in=unnamed).values_list("pk", "method"))
    for order_id in unnamed:
        named = LOOKUP_KIND_BY_METHOD.get(methods.get(order_id, ""))
        for kind in [named] if named else kinds:
            kinds[kind].add(order_id)
    for kind, orders in sorted(kinds.items()):
        schedule_lookups(kind, orders)
    schedule_lookups("orders", _unknown_orders(set().union(*kinds.values())))
    return {event.message_id: "looked up" for event in events}


def handle_critical_results(events: Sequence[ReceivedEvent]) -> Mapping[str, str]:
    """Add critical results to the worklist at once, from the event alone.

    Also schedule lookups of the result and of the order.
    """
    rows = []
    users = set()
    for event in events:
        critical = parse_event_data(service_events.CRITICAL_RESULT, event)
        user_id = critical.user_id or event.user_id
        users |= {user_id} if user_id else set()
        rows.append((event, critical, user_id))
    newest: dict[UUID, tuple[object, ...]] = {}
    first: dict[UUID, datetime] = {}
    for event, critical, user_id in sorted(rows, key=lambda row: _critical_version(row[0], row[1])):
        first.setdefault(critical.order_id, event.received_at)
        newest[critical.order_id] = (
            critical.order_id,
            user_id,
            critical.sample_id,
            critical.status,
            critical.interpretation,
            to_utc_in_range(critical.created_at),
            to_utc_in_range(critical.updated_at),
            min(first[critical.order_id], event.received_at),
            event.received_at,
            event.number,
            event.message_id,
        )
    with connection.cursor() as cursor:
        columns = zip(*(newest[key] for key in sorted(newest)), strict=True)
        cursor.execute(_NOTE_CRITICAL, [list(column) for column in columns])
        noted = {message_id for (message_id,) in cursor.fetchall()}
    schedule_lookups("results", newest)
    schedule_lookups("orders", newest)
    schedule_lookups("users", unknown_patients(users))
    return {event.message_id: "stale" for event in events if event.message_id not in noted}


class _AppointmentReference(msgspec.Struct, gc=False):
    """The fields of an appointment that decide which record to look up."""

    order_id: UUID
    type: str = ""


class _OrderId(msgspec.Struct, gc=False):
    id: UUID


_APPOINTMENT = Reader(_AppointmentReference)
_ORDER_ID = Reader(_OrderId)
_decode_members = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode

_VERSION = (
    "CASE WHEN {0}.updated_at <= now() + interval"
    f" '{CLOCK_TOLERANCE.total_seconds():.0f} seconds' THEN {{0}}.updated_at ELSE '-infinity' END"
)
"""Limit of a version. A time further in the future is not a version (see CLOCK_TOLERANCE)."""
_NOTE_CRITICAL = f"""
INSERT INTO orders_criticalannouncement AS held
 (order_id, user_id, sample_id, status, interpretation, created_at, updated_at,
  first_heard_at, heard_at, event_number, message_id)
SELECT * FROM unnest(%s::uuid[], %s::uuid[], %s::text[], %s::text[], %s::text[],
 %s::timestamptz[], %s::timestamptz[], %s::timestamptz[], %s::timestamptz[], %s::bigint[],
 %s::text[])
ON CONFLICT (order_id) DO UPDATE SET
 user_id = excluded.user_id, sample_id = excluded.sample_id, status = excluded.status,
 interpretation = excluded.interpretation, created_at = excluded.created_at,
 updated_at = excluded.updated_at, heard_at = excluded.heard_at,
 event_number = excluded.event_number, message_id = excluded.message_id,
 first_heard_at = least(held.first_heard_at, excluded.first_heard_at)
WHERE ({_VERSION.format("excluded")}, excluded.event_number)
 > ({_VERSION.format("held")}, held.event_number)
RETURNING message_id
"""


def _critical_version(
    event: ReceivedEvent, critical: service_events.CriticalResultPayload
) -> tuple[datetime, int]:
    version = critical.updated_at
    if version is None or version > datetime.now(UTC) + CLOCK_TOLERANCE:
        version = datetime.min.replace(tzinfo=UTC)
    return version, event.number


def _read_order(event: ReceivedEvent) -> _ReceivedOrder | UUID:
    """Return the order with its version, or only its id if the event is incomplete."""
    record = service_orders.ORDER.read(event.data, event.received_at)
    if isinstance(record, Unreadable):
        if _is_incomplete(event.data):
            return parse_event_data(_ORDER_ID, event).id
        raise misread_data(record)
    order = record.data
    lab_test = order.lab_test
    if not order.events or not (lab_test.id or lab_test.name):
        return order.id
    if order.updated_at > datetime.now(UTC) + CLOCK_TOLERANCE:
        return order.id
    step = order.latest_event
    return _ReceivedOrder(event.message_id, record, (order.updated_at, step.id if step else 0))


def _is_incomplete(data: bytes) -> bool:
    """Whether a field is missing that every order has.

    Raises ValueError if the data is not an object.
    """
    members = _decode_members(data)
    return any(name not in members or bytes(members[name]) == b"null" for name in REQUIRED_FIELDS)


def _version(stored: StoredVersion) -> Version:
    updated_at, event_id, _ = stored.sort_key
    return updated_at, event_id


def _has_same_content(stored: StoredVersion, order: _ReceivedOrder) -> bool:
    """Whether the stored order has the content of the event."""
    content = stored.digest[:-1]
    return content == order.record.digest[: len(content)]


def _complete_history(older: Sequence[_ReceivedOrder], written: Iterable[MirrorRecord]) -> None:
    """Add the steps that only an older event has.

    Steps are added and never changed. A step that differs from the stored one is drift.
    """
    orders = {order.order_id for order in older}
    steps = _steps(MirrorRecord.from_service(order.record, order.order_id) for order in older)
    same = _steps(record for record in written if record.key[0] in orders)
    rows = [step for key, step in sorted(steps.items()) if same.get(key) != step]
    if rows:
        add_child_rows(ORDER_EVENTS, rows)


def _steps(records: Iterable[MirrorRecord]) -> dict[tuple[str, int], RowValues]:
    return {
        (step["order_id"], step["event_id"]): step
        for record in records
        for step in ORDER_EVENTS.rows(record)
    }


def _unknown_relatives(touched: Iterable[MirrorRecord]) -> set[UUID]:
    """Return orders of the same transactions that the mirror does not have, such as a redraw."""
    return _unknown_orders(
        {
            other.id
            for record in touched
            if record.data.order_transaction is not None
            for other in record.data.order_transaction.orders
            if other.id != record.key[0]
        }
    )


def _unknown_orders(order_ids: set[UUID]) -> set[UUID]:
    """Return the ids that the mirror does not have."""
    if not order_ids:
        return order_ids
    return order_ids - set(Order.objects.filter(pk__in=order_ids).values_list("pk", flat=True))
