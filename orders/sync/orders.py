"""Sync of orders with their history and transactions (orders.md 3-5)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple
from uuid import UUID

import msgspec
from django.conf import settings

from backoffice.core import vocabulary
from backoffice.core.vocabulary import interpretations
from backoffice.mirror.applying import apply_batch, flag_missing
from backoffice.mirror.rows import StoredVersions
from backoffice.mirror.tables import (
    ApplyOutcome,
    ChildTable,
    MirrorRecord,
    MirrorTable,
    RecordKey,
    RowValues,
)
from backoffice.service import Record, Service
from backoffice.service import orders as service_orders
from backoffice.sync.lookups import LookupType, schedule_lookups_by_kind
from backoffice.sync.missing_records import SortedListComparison, look_up_suspects
from backoffice.sync.models import SyncRun
from backoffice.sync.pagination import Batch, batches_by_creation
from backoffice.sync.runs import SyncedList
from orders.models import Order, OrderEvent, Transaction
from orders.rules.result_identity import update_reviews
from orders.sync.result_versions import orders_with_result, update_order_interpretations
from orders.turnaround import limits
from patients.search_keys import name_key, plain_key
from patients.sync import unknown_patients

ORDERS_A_PAGE = 100

CLOCK_TOLERANCE = timedelta(minutes=10)
"""Most by which clocks may differ. A version further in the future is not trusted."""

RESULT_STATUSES = {"partial_results", "completed", "corrected", "redraw_available"}
KNOWN_STATUSES = vocabulary.VOCABULARIES["order.low_level_status"].keys()
LOOKUP_KIND_BY_METHOD = {
    "walk_in_test": "appointment-psc",
    "at_home_phlebotomy": "appointment-phlebotomy",
}


def _order(record: MirrorRecord) -> RowValues:
    order: service_orders.OrderPayload = record.data
    event = order.latest_event
    dotted = event.status if event else order.status or ""
    low = service_orders.low_level(dotted) if event else ""
    method = order.lab_test.method or service_orders.method(dotted) or ""
    patient = order.patient_details or service_orders.PatientDetails()
    address = order.patient_address or order.shipping_details or service_orders.OrderAddress()
    details = order.details.data
    shipment = details.shipment if details else None
    group = order.order_transaction
    own_entry = (
        next((entry for entry in group.orders if entry.id == order.id), None) if group else None
    )
    since = event.created_at if event else None
    slug = order.lab_test.lab.slug if order.lab_test.lab else None
    name = name_key(patient.first_name, patient.last_name)
    receiver = address.receiver_name
    # Usually the recipient is the patient, so that the key is already known.
    is_patient = receiver == f"{patient.first_name} {patient.last_name}"
    recipient = name if is_patient else name_key(receiver)
    word = interpretations.read_word(order.interpretation)
    reading = word.interpretation if word else None
    return {
        "team_id": order.team_id,
        "user_id": order.user_id,
        "order_transaction_id": group.id if group else None,
        "parent_id": own_entry.parent_id if own_entry else None,
        "created_at": order.created_at,
        "updated_at": order.updated_at,
        "last_event_id": event.id if event else 0,
        "last_event_at": since,
        "quiet_at": limits.quiet_at(
            low, method, slug, since, order.activate_by, order.expected_result_by_date
        ),
        "last_status": dotted,
        "status": service_orders.bucket(dotted),
        "low_level_status": low,
        "status_detail": event.status_detail if event else None,
        "bucket": vocabulary.order_bucket(
            low, method, (service_orders.low_level(event.status) for event in order.events)
        ),
        "method": method,
        "origin": order.origin,
        "priority": order.priority,
        "activate_by": order.activate_by,
        "sample_id": order.sample_id,
        "outbound_tracking_number": shipment.outbound_tracking_number if shipment else None,
        "inbound_tracking_number": shipment.inbound_tracking_number if shipment else None,
        "lab_test_id": order.lab_test.id,
        "lab_test_name": order.lab_test.name,
        "lab_slug": slug,
        "billing_type": order.billing_type,
        "interpretation": reading,
        "service_interpretation": reading or "",
        "interpretation_received": interpretations.as_received(order.interpretation, reading or ""),
        "has_missing_results": order.has_missing_results,
        "has_abn": order.has_abn,
        "expected_result_by_date": order.expected_result_by_date,
        "worst_case_result_by_date": order.worst_case_result_by_date,
        "passthrough": order.passthrough,
        "patient_first_name": patient.first_name or "",
        "patient_last_name": patient.last_name or "",
        "patient_name": name,
        "patient_dob": patient.dob,
        "patient_gender": patient.gender or "",
        "patient_phone": patient_phone(patient, address, name, recipient),
        "patient_email": patient.email or "",
        "recipient_name": recipient,
    }


def patient_phone(
    patient: service_orders.PatientDetails,
    address: service_orders.OrderAddress,
    name: str,
    recipient: str,
) -> str:
    """Return the patient's phone number, else that of the address if it is not another person's."""
    if patient.phone_number:
        return patient.phone_number
    is_patient = not recipient or plain_key(recipient) == plain_key(name)
    return (address.phone_number or "") if is_patient else ""


def _events(record: MirrorRecord) -> Iterator[RowValues]:
    # These values are stored as text anyway. Half of the rows of a sync are events, and this halves
    # their cost.
    order_id = record.key[0].hex
    for event in {event.id: event for event in record.data.events}.values():
        yield {
            "order_id": order_id,
            "event_id": event.id,
            "created_at": event.created_at.isoformat(),
            "status": event.status,
            "low_level_status": service_orders.low_level(event.status),
            "status_detail": event.status_detail,
        }


ORDER_EVENTS = ChildTable(
    model=OrderEvent,
    parent="order_id",
    key=("order_id", "event_id"),
    rows=_events,
    replace=False,
)

ORDERS = MirrorTable(
    model=Order,
    key=("id",),
    promote=_order,
    revision=5,
    version=("updated_at", "last_event_id"),
    max_ahead=CLOCK_TOLERANCE,
    children=(ORDER_EVENTS,),
    vocabularies={
        "status": "order.status",
        "low_level_status": "order.low_level_status",
        "status_detail": "order.status_detail",
        "method": "order.method",
        "origin": "order.origin",
        "billing_type": "order.billing_type",
        "interpretation_received": interpretations.VOCABULARY,
    },
)

TRANSACTIONS = MirrorTable(
    model=Transaction,
    key=("id",),
    promote=lambda record: {"status": record.data.status},
    vocabularies={"status": "transaction.status"},
)


class _WithTransaction(msgspec.Struct):
    order_transaction: msgspec.Raw = msgspec.Raw(b"null")


_decode_transaction = msgspec.json.Decoder(_WithTransaction).decode


def store_orders(
    records: Sequence[Record[service_orders.OrderPayload]], versions: StoredVersions | None = None
) -> ApplyOutcome:
    """Store orders, newer versions only, and schedule lookups of what belongs to a changed order.

    A transaction comes with each of its orders; its latest read wins. `versions` is the mirror's
    state of the orders, if the caller has locked their rows.
    """
    related: dict[RecordKey, _RelatedRecords] = {}

    def gather(mirror_record: MirrorRecord) -> None:
        related[mirror_record.key] = _related_records(mirror_record)

    vocabulary.decisions.refresh_if_stale()
    limits.refresh()
    outcome = apply_batch(
        ORDERS, [mirror_record_of(record) for record in records], gather, versions
    )
    touched = [related[mirror_record.key] for mirror_record in outcome.touched]
    apply_batch(TRANSACTIONS, [order.group for order in touched if order.group is not None])
    if with_result := orders_with_result(order.order_id for order in touched):
        update_order_interpretations(with_result)
        update_reviews(with_result)
    _mark_lookups(touched)
    return outcome


def mirror_record_of(record: Record[service_orders.OrderPayload]) -> MirrorRecord:
    order = record.data
    event = order.latest_event
    return MirrorRecord.from_service(
        record, order.id, version=(order.updated_at, event.id if event else 0)
    )


class _RelatedRecords(NamedTuple):
    """What belongs to an order: its transaction, its patient, and records with their own call.

    `draw` is the kind of lookup of its appointment, if it has one.
    """

    order_id: UUID
    user_id: UUID
    group: MirrorRecord | None
    has_result: bool
    draw: str | None


def _related_records(record: MirrorRecord) -> _RelatedRecords:
    order: service_orders.OrderPayload = record.data
    group = order.order_transaction
    steps = {service_orders.low_level(event.status) for event in order.events}
    draw = LOOKUP_KIND_BY_METHOD.get(order.lab_test.method or "")
    data = order.details.data
    is_booked = draw is not None and (
        (data is not None and data.appointment_id is not None)
        or any(step.startswith("appointment_") for step in steps)
    )
    return _RelatedRecords(
        order.id,
        order.user_id,
        MirrorRecord(
            (group.id,),
            bytes(_decode_transaction(record.raw).order_transaction),
            record.as_of,
            group,
        )
        if group
        else None,
        not steps.isdisjoint(RESULT_STATUSES) or not steps <= KNOWN_STATUSES,
        draw if is_booked else None,
    )


def _mark_lookups(touched: list[_RelatedRecords]) -> None:
    """Schedule lookups of results, unknown patients and appointments."""
    reasons: dict[str, Iterable[UUID]] = {
        "results": [order.order_id for order in touched if order.has_result],
        "users": unknown_patients(order.user_id for order in touched),
    }
    for kind in LOOKUP_KIND_BY_METHOD.values():
        reasons[kind] = [order.order_id for order in touched if order.draw == kind]
    schedule_lookups_by_kind(reasons)


def _fetch_pages(service: Service, run: SyncRun) -> Iterator[Batch[service_orders.OrderPayload]]:
    """Yield all orders, oldest first; with a window, only those updated since its start.

    The window has no end, because a row that is updated while the list is read would leave a closed
    window. An updated row may enter this window on any page, so changes are read one page at a
    time.
    """
    since = run.checkpoint.get("since")
    return batches_by_creation(
        lambda start, number: service.orders.list(
            page=number,
            size=ORDERS_A_PAGE,
            start_date=start,
            updated_start_date=run.window_start,
            order_key="created_at",
            order_direction="asc",
        ),
        ORDERS_A_PAGE,
        since=datetime.fromisoformat(since) if since else None,
        created_at=lambda order: order.created_at,
        key=lambda order: order.id,
        **({} if run.window_start is None else {"window": 1}),
    )


CHANGED_ORDERS = SyncedList(
    resource="orders",
    batches=_fetch_pages,
    store=store_orders,
    interval=lambda: timedelta(seconds=settings.SYNC_ORDERS_SECONDS),
    full=False,
    lookup_kind="orders",
    team_of=lambda order: order.team_id,
)

ALL_ORDERS = SyncedList(
    resource="orders",
    batches=_fetch_pages,
    store=store_orders,
    interval=lambda: timedelta(hours=settings.SYNC_SWEEP_HOURS),
    find_missing=lambda run: SortedListComparison(
        run, ORDERS, handle_suspects=look_up_suspects("orders")
    ),
    updated_at=lambda order: order.updated_at,
    lookup_kind="orders",
    team_of=lambda order: order.team_id,
)


def _store_order_answers(
    answers: Mapping[str, Record[service_orders.OrderPayload]],
) -> dict[str, timedelta | None]:
    store_orders(list(answers.values()))
    return {}


def _flag_missing(keys: Sequence[str], asked_at: datetime) -> None:
    flag_missing(ORDERS, [(UUID(key),) for key in keys], asked_at)


ORDER_LOOKUP = LookupType(
    kind="orders",
    fetch=lambda service, key: service.orders.get(key),
    store=_store_order_answers,
    on_missing=_flag_missing,
    team_of=lambda record: record.data.team_id,
)
