"""Events about orders, appointments and critical results (webhooks, chapters 4 and 5).

An order event carries the whole order, and orders have a version: the newer one wins whatever the
order of arrival. What is older changes nothing but may complete the history. Where the version
cannot decide, or the event has less than the order, the service is asked: that is a mark here,
never a call.

Appointments have no version: an event about one is only a reason to ask.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import msgspec
from django.db import connection

from backoffice import mirror, sync
from backoffice.mirror import MirrorRecord
from backoffice.service import Record
from backoffice.service import events as service_events
from backoffice.service import orders as service_orders
from backoffice.service.events import Heard, misfit, typed
from backoffice.service.payload import Reader, Unreadable
from orders.models import Order
from orders.sync.orders import AHEAD, DRAW_KINDS, ORDERS, STEPS, store_orders
from patients.sync import unknown_patients

DRAW_KIND_OF_TYPE = {
    "phlebotomy": "appointment-phlebotomy",
    "patient_service_center": "appointment-psc",
}
NEEDED = ("user_id", "team_id", "created_at", "updated_at")
"""What tells an order and its version: an event without one of these has less than the order."""

Version = tuple[datetime, int]


@dataclass(frozen=True, slots=True)
class _Told:
    """One order as an event tells it."""

    message_id: str
    record: Record[service_orders.Order]
    version: Version

    @property
    def order_id(self) -> UUID:
        return self.record.data.id


def hear_orders(events: Sequence[Heard]) -> Mapping[str, str]:
    """Newer orders are stored; older ones complete the history; doubtful ones are looked up."""
    outcomes: dict[str, str] = {}
    doubtful: set[UUID] = set()
    told: dict[UUID, list[_Told]] = {}
    for event in events:
        found = _read(event)
        if isinstance(found, UUID):
            doubtful.add(found)
            outcomes[event.message_id] = "looked up"
        else:
            told.setdefault(found.order_id, []).append(found)
    newest: list[_Told] = []
    older: list[_Told] = []
    asked: set[UUID] = set()
    latest = datetime.now(UTC) + AHEAD
    known = mirror.known(ORDERS, [(order_id,) for order_id in told], lock=True)
    for order_id in sorted(told, key=lambda key: key.int):
        stored = known.get((order_id,))
        best = max(told[order_id], key=lambda one: one.version)
        rivals = [one for one in told[order_id] if one.version == best.version]
        for one in told[order_id]:
            outcomes[one.message_id] = "unchanged" if one in rivals else "stale"
        older += [one for one in told[order_id] if one is not best]
        contradicted = any(one.record.digest != best.record.digest for one in rivals)
        if stored is None or best.version > _version(stored):
            newest.append(best)
        elif _version(stored)[0] > latest:
            # No version at all: what came later wins, until the service is asked which is right.
            newest.append(best)
            asked.add(order_id)
        elif best.version < _version(stored):
            older.append(best)
            outcomes.update((one.message_id, "stale") for one in rivals)
            continue
        elif stored.missing:
            newest.append(best)
        elif not _says(stored, best):
            contradicted = True
        if contradicted:
            doubtful.add(order_id)
            outcomes.update((one.message_id, "looked up") for one in rivals)
    outcome = store_orders([one.record for one in newest], known)
    if outcome.unread:
        raise ValueError("an order does not fit its columns")
    created = {record.key for record in outcome.created}
    written = {record.key[0] for record in outcome.touched}
    # Another worker stored these since we looked; the others were locked by our look.
    unknown = {(order_id,) for order_id in told} - known.keys() - created
    raced = mirror.known(ORDERS, sorted(unknown))
    for one in newest:
        other = raced.get((one.order_id,))
        if one.order_id not in written:
            older.append(one)
            outcomes[one.message_id] = "stale"
            if other is None or _version(other) != one.version or _says(other, one):
                continue
        if other is not None:
            # Of one version, or nobody can tell any more what we wrote over.
            doubtful.add(one.order_id)
            outcomes[one.message_id] = "looked up"
        elif one.order_id not in doubtful:
            del outcomes[one.message_id]  # plainly applied
    _complete_history(older, outcome.touched)
    sync.mark("orders", doubtful | asked | _unknown_relatives(outcome.touched))
    return outcomes


def hear_appointments(events: Sequence[Heard]) -> Mapping[str, str]:
    """The order's active appointment is asked for: what an event brings may be of an earlier one,
    or older than what we know."""
    kinds: dict[str, set[UUID]] = {kind: set() for kind in DRAW_KINDS.values()}
    unnamed: set[UUID] = set()
    for event in events:
        draw = typed(_DRAW, event)
        named = DRAW_KIND_OF_TYPE.get(draw.type)
        (kinds[named] if named else unnamed).add(draw.order_id)
    methods = dict(Order.objects.filter(pk__in=unnamed).values_list("pk", "method"))
    for order_id in unnamed:
        named = DRAW_KINDS.get(methods.get(order_id, ""))
        for kind in [named] if named else kinds:
            kinds[kind].add(order_id)
    for kind, orders in sorted(kinds.items()):
        sync.mark(kind, orders)
    sync.mark("orders", _unknown_orders(set().union(*kinds.values())))
    return {event.message_id: "looked up" for event in events}


def hear_critical_results(events: Sequence[Heard]) -> Mapping[str, str]:
    """On the worklist at once, from the event alone; then the result and the order are read."""
    rows = []
    users = set()
    for event in events:
        told = typed(service_events.CRITICAL_RESULT, event)
        user_id = told.user_id or event.user_id
        users |= {user_id} if user_id else set()
        rows.append((event, told, user_id))
    newest: dict[UUID, tuple[Any, ...]] = {}
    first: dict[UUID, datetime] = {}
    for event, told, user_id in sorted(rows, key=lambda row: _latest(row[0], row[1])):
        first.setdefault(told.order_id, event.received_at)
        newest[told.order_id] = (
            told.order_id,
            user_id,
            told.sample_id,
            told.status,
            told.interpretation,
            mirror.to_utc_in_range(told.created_at),
            mirror.to_utc_in_range(told.updated_at),
            min(first[told.order_id], event.received_at),
            event.received_at,
            event.number,
            event.message_id,
        )
    with connection.cursor() as cursor:
        columns = zip(*(newest[key] for key in sorted(newest)), strict=True)
        cursor.execute(_NOTE_CRITICAL, [list(column) for column in columns])
        noted = {message_id for (message_id,) in cursor.fetchall()}
    sync.mark("results", newest)
    sync.mark("orders", newest)
    sync.mark("users", unknown_patients(users))
    return {event.message_id: "stale" for event in events if event.message_id not in noted}


class _Draw(msgspec.Struct, gc=False):
    """As much of an appointment as tells what to ask."""

    order_id: UUID
    type: str = ""


class _Sparse(msgspec.Struct, gc=False):
    id: UUID


_DRAW = Reader(_Draw)
_SPARSE = Reader(_Sparse)
_members = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode

_VERSION = (
    "CASE WHEN {0}.updated_at <= now() + interval"
    f" '{AHEAD.total_seconds():.0f} seconds' THEN {{0}}.updated_at ELSE '-infinity' END"
)
"""A moment of the future is no version (see AHEAD)."""
_NOTE_CRITICAL = f"""
INSERT INTO orders_criticalresult AS held
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


def _latest(event: Heard, told: service_events.CriticalResult) -> tuple[datetime, int]:
    version = told.updated_at
    if version is None or version > datetime.now(UTC) + AHEAD:
        version = datetime.min.replace(tzinfo=UTC)
    return version, event.number


def _read(event: Heard) -> _Told | UUID:
    """The order and its version; its id alone where the event has less than that."""
    found = service_orders.ORDER.read(event.data, event.received_at)
    if isinstance(found, Unreadable):
        if _has_less(event.data):
            return typed(_SPARSE, event).id
        raise misfit(found)
    order = found.data
    lab_test = order.lab_test
    if not order.events or not (lab_test.id or lab_test.name):
        return order.id
    if order.updated_at > datetime.now(UTC) + AHEAD:
        return order.id
    step = order.latest_event
    return _Told(event.message_id, found, (order.updated_at, step.id if step else 0))


def _has_less(data: bytes) -> bool:
    """Whether a part is missing that every order has; raises ValueError when it is no object."""
    sent = _members(data)
    return any(name not in sent or bytes(sent[name]) == b"null" for name in NEEDED)


def _version(stored: mirror.StoredVersion) -> Version:
    updated_at, event_id, _ = stored.order
    return updated_at, event_id


def _says(stored: mirror.StoredVersion, one: _Told) -> bool:
    """Whether what is stored is what the event tells."""
    content = stored.digest[:-1]
    return content == one.record.digest[: len(content)]


def _complete_history(told: Sequence[_Told], written: Iterable[MirrorRecord]) -> None:
    """Steps that only an older event tells. Steps are added, never changed; one that is told
    otherwise than we hold it is drift."""
    orders = {one.order_id for one in told}
    steps = _steps(MirrorRecord.from_service(one.record, one.order_id) for one in told)
    same = _steps(record for record in written if record.key[0] in orders)
    rows = [step for key, step in sorted(steps.items()) if same.get(key) != step]
    if rows:
        mirror.add_child_rows(STEPS, rows)


def _steps(records: Iterable[MirrorRecord]) -> dict[tuple[str, int], mirror.RowValues]:
    return {
        (step["order_id"], step["event_id"]): step
        for record in records
        for step in STEPS.rows(record)
    }


def _unknown_relatives(touched: Iterable[Any]) -> set[UUID]:
    """Orders of the same transactions, such as a redraw, that the mirror has not."""
    return _unknown_orders(
        {
            other.id
            for record in touched
            if record.data.order_transaction is not None
            for other in record.data.order_transaction.orders
            if other.id != record.key[0]
        }
    )


def _unknown_orders(wanted: set[UUID]) -> set[UUID]:
    if not wanted:
        return wanted
    return wanted - set(Order.objects.filter(pk__in=wanted).values_list("pk", flat=True))
