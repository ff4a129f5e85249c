"""Look up a search text as a patient, order, sample, parcel or visit.

A fixed number of queries, each with a limit and an index, whatever the size of the tables. Users
who may not see patients search ids and samples only.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from itertools import chain
from typing import Final, NamedTuple
from uuid import UUID

from django.db.models import Q

from backoffice.accounts.access import may
from backoffice.accounts.models import User
from backoffice.core.identifiers import comparison_key
from backoffice.core.prepared_queries import array, by_key, cursor, where
from backoffice.core.urls import record_url
from backoffice.mirror.models import AS_RECEIVED
from backoffice.pages.paging.keys import keys_of_any
from orders.models import Appointment, Order
from orders.models.appointment import ENDED_STATUSES
from orders.models.search_conditions import order_conditions, visit_conditions
from orders.search_text import OrderSearchText, parse_order_search_text
from patients.models import FINISHED_BUCKETS, Patient
from patients.search_text import SearchText

MIN_LENGTH: Final = 2
"""Shortest text that is looked up, in characters."""
MAX_SHOWN: Final = 50
"""Most rows shown of each kind."""
MAX_FETCHED: Final = MAX_SHOWN + 1
"""Most rows read of each kind. The extra row shows that there are more."""
ORDERS_PER_PATIENT: Final = 5
"""Most orders read of each patient, newest first."""
MAX_COUNTED_ORDERS: Final = 500
"""Number of newest orders of a patient among which the open ones are counted. Only the patients
under which a team keeps its stock of kits have more orders.
"""

PatientAndOrder = tuple[UUID | None, UUID | None]
"""Ids of a patient and of one of their orders, as far as they are known."""


@dataclass(slots=True)
class PatientMatch:
    """A patient that matches, with the details that distinguish patients of the same name."""

    patient_id: UUID
    patient: Patient
    newest_order_ids: list[UUID] = field(default_factory=list)
    """The ids of the newest orders, at most `ORDERS_PER_PATIENT`."""
    orders: list[Order] = field(default_factory=list)
    """The orders that were read: all orders for a single match, else the one shown."""
    open_order_ids: list[UUID] = field(default_factory=list)
    """The ids of all orders under way, newest first."""
    former_name: str = ""
    """The name on an order, if the search found the patient by it and their name is another now."""

    @property
    def order(self) -> Order | None:
        """The order shown with the patient: the newest open one, else the newest."""
        if self.open_order_ids:
            return next(
                (order for order in self.orders if order.pk == self.open_order_ids[0]), None
            )
        return self.orders[0] if self.orders else None

    @property
    def name(self) -> str:
        """The name in the demographics, else on the newest order, which may have only a part."""
        return self.patient.full_name or (self.orders and patient_name(self.orders[0])) or ""

    @property
    def born(self) -> date | None:
        if self.patient.name_key:
            return self.patient.dob
        return self.orders[0].patient_dob if self.orders else None

    @property
    def url(self) -> str:
        """The URL of their only open order or only order, else of the patient."""
        order_ids = self.open_order_ids or self.newest_order_ids
        if len(order_ids) == 1:
            return order_url(order_ids[0])
        return record_url("patients:detail", self.patient_id)


class NumberMatch(NamedTuple):
    """An order, and the number of its sample or parcel that matches."""

    order: Order
    number: str


@dataclass(slots=True)
class SearchResult:
    """Everything that matches, by kind."""

    people: list[PatientMatch] = field(default_factory=list)
    orders: list[Order] = field(default_factory=list)
    samples: list[NumberMatch] = field(default_factory=list)
    parcels: list[NumberMatch] = field(default_factory=list)
    visits: list[Appointment] = field(default_factory=list)
    has_more: bool = False
    """Whether there are further matches."""
    sole_match_url: str = ""
    """URL of the only match; empty if there are several or none."""

    @property
    def count(self) -> int:
        return len(self.people) + len(self.all_orders()) + len(self.visits)

    def all_orders(self) -> list[Order]:
        return [*self.orders, *(match.order for match in (*self.samples, *self.parcels))]

    def ids(self) -> list[UUID]:
        rows: list[Order | Appointment] = [*self.all_orders(), *self.visits]
        return [*(person.patient_id for person in self.people), *(row.pk for row in rows)]

    def patients(self) -> list[UUID | None]:
        rows: list[Order | Appointment] = [*self.all_orders(), *self.visits]
        return [*(person.patient_id for person in self.people), *(row.user_id for row in rows)]


def search_records(text: str, user: User, most: int = MAX_SHOWN) -> SearchResult:
    """Return the records that match `text` and that this user may see.

    `most`: the most matches of each kind, at least two.
    """
    search = parse_order_search_text(text, by_name=may(user, "patients.view"))
    result = SearchResult()
    if len(search.typed.text) < MIN_LENGTH:
        return result
    _add_orders(result, search)
    visits = _visits(search) if may(user, "appointments.view") else []
    named: list[Order] = []
    if may(user, "patients.view"):
        names = names_by_subject({(visit.user_id, visit.order_id) for visit in visits[:most]})
        for visit in visits[:most]:
            visit.name = names[visit.user_id, visit.order_id]  # type: ignore[attr-defined]
        result.people, named = _people(search.typed, most + 1)
        ids = search.typed.id_range
        if result.people and ids and search.typed.is_short_id:
            # A typed phone number may by chance also be the beginning of a few order ids.
            result.orders = [row for row in result.orders if not ids[0] <= row.pk <= ids[1]]
    found = [*result.all_orders(), *named]
    result.sole_match_url = _sole_match_url(result.people, found, visits)
    if len(result.people) == 1 and not (found or visits):
        named = result.people[0].orders
        visits = (
            _patient_appointments(result.people[0].patient_id)
            if may(user, "appointments.view")
            else []
        )
    result.orders, result.visits = [*result.orders, *named], visits
    for rows in (result.people, result.orders, result.samples, result.parcels, result.visits):
        result.has_more = result.has_more or len(rows) > most
        del rows[most:]
    return result


def patient_name(row: Order | None) -> str:
    return f"{row.patient_first_name} {row.patient_last_name}".strip() if row else ""


def names_by_subject(subjects: Collection[PatientAndOrder]) -> dict[PatientAndOrder, str]:
    """Return the name of each patient, or else the name on the order: two queries."""
    people = by_key(Patient, {patient for patient, _ in subjects}, _PATIENT_COLUMNS)
    named = {patient: row.full_name for patient, row in people.items()}
    orders = by_key(
        Order, {order for patient, order in subjects if not named.get(patient)}, _ORDER_COLUMNS
    )
    return {
        (patient, order): named.get(patient) or patient_name(orders.get(order))
        for patient, order in subjects
    }


def order_url(order: Order | UUID) -> str:
    return record_url("orders:detail", order.pk if isinstance(order, Order) else order)


def _sole_match_url(
    people: Sequence[PatientMatch], orders: Sequence[Order], visits: Sequence[Appointment]
) -> str:
    """Return the page of the only match, or "". Orders of one transaction count as one match."""
    transactions = {order.order_transaction_id or order.pk for order in orders}
    orders_of_visits = {visit.order_id for visit in visits} - {order.pk for order in orders}
    if len(people) + len(transactions) + len(orders_of_visits) != 1:
        return ""
    if people:
        return people[0].url
    if orders:
        return order_url(max(orders, key=lambda order: order.created_at))
    (order_id,) = orders_of_visits
    return order_url(order_id) if order_id else ""


def _people(typed: SearchText, most: int) -> tuple[list[PatientMatch], list[Order]]:
    """Return matching patients with their last orders, and matching orders without such a patient.

    Patients with open orders are first, then those with the newest last order.
    """
    ranked = Patient.objects.best_matches(typed, MAX_FETCHED)
    named = _orders_by_person(typed, ranked) if len(ranked) < MAX_FETCHED else []
    # The recipient of a parcel may not be the patient of the order. Often the order belongs to the
    # team's own stock of kits.
    owners = {order.user_id: patient_name(order) for order in named if patient_name(order)}
    ids = [*ranked, *(pk for pk in owners if pk is not None)][:MAX_FETCHED]
    if not ids:
        return [], named
    with cursor() as db_cursor:
        db_cursor.execute(_RECENT_ORDERS_SQL, [list(FINISHED_BUCKETS), array(ids)])
        recent = {row[0]: _RecentOrders(*row[1:]) for row in db_cursor.fetchall()}
    shown_ids = sorted((pk for pk in ids if pk in recent), key=lambda pk: recent[pk].sort_key)[
        :most
    ]
    patients = by_key(Patient, shown_ids, _PATIENT_COLUMNS)
    read = {
        pk: recent[pk].ids_to_read(ORDERS_PER_PATIENT if len(shown_ids) == 1 else 1)
        for pk in shown_ids
    }
    orders = by_key(Order, chain.from_iterable(read.values()), _ORDER_COLUMNS)
    people = []
    for pk in (pk for pk in shown_ids if pk in patients):
        newest, under_way = recent[pk].newest or [], recent[pk].under_way or []
        own_orders = [orders[order_id] for order_id in read[pk] if order_id in orders]
        people.append(PatientMatch(pk, patients[pk], newest, own_orders, under_way))
        people[-1].former_name = owners[pk] if owners.get(pk) not in (None, people[-1].name) else ""
    return people, [order for order in named if order.user_id not in recent]


class _RecentOrders(NamedTuple):
    """The orders of one patient; None where there are none."""

    newest: list[UUID] | None
    under_way: list[UUID] | None
    at: datetime | None

    def ids_to_read(self, most: int) -> list[UUID]:
        """Return the ids of the newest orders and of the newest open one."""
        return list(dict.fromkeys([*(self.newest or [])[:most], *(self.under_way or [])[:1]]))

    @property
    def sort_key(self) -> tuple[bool, float]:
        return not self.under_way, -self.at.timestamp() if self.at else 0


_RECENT_ORDERS_SQL: Final = f"""
SELECT patients_patient.id, newest, under_way, at FROM patients_patient, LATERAL (
 SELECT (array_agg(id ORDER BY created_at DESC))[:{ORDERS_PER_PATIENT}] AS newest,
  array_agg(id ORDER BY created_at DESC) FILTER (WHERE bucket <> ALL(%s)) AS under_way,
  max(created_at) AS at
 FROM (
  SELECT id, bucket, created_at FROM orders_order WHERE user_id = patients_patient.id
  ORDER BY created_at DESC LIMIT {MAX_COUNTED_ORDERS}
 ) AS counted
) AS own WHERE patients_patient.id = ANY(%s)
"""  # noqa: S608 - only constants
"""The newest and the open orders of each patient, by one scan of the index `order_of_patient`."""
_PATIENT_COLUMNS: Final = (
    *("first_name", "last_name", "name_key", "dob", "city", "state"),
    *("fields_from_order", "source_order_created_at"),
)


def _add_orders(result: SearchResult, search: OrderSearchText) -> None:
    """Add the orders that an identifier finds: by sample ID, by tracking number, or by an id."""
    for order in _orders(search):
        parcels = (order.outbound_tracking_number, order.inbound_tracking_number)
        if number := _matching_number(search.code_prefix or search.whole_code, order.sample_id):
            result.samples.append(NumberMatch(order, number))
        elif number := _matching_number(search.tracking_prefix, *parcels):
            result.parcels.append(NumberMatch(order, number))
        else:
            result.orders.append(order)


def _matching_number(prefix: str, *numbers: str | None) -> str:
    """Return the number that begins with the prefix, or ""."""
    keys = {number: comparison_key(number) for number in numbers if number}
    return next((number for number in keys if prefix and keys[number].startswith(prefix)), "")


def _orders(search: OrderSearchText) -> list[Order]:
    found = keys_of_any(Order.objects.all(), order_conditions(search), MAX_FETCHED)
    orders = Order.objects.filter(pk__in=found).only(*_ORDER_COLUMNS)
    return list(orders.order_by("-created_at", "-pk")[:MAX_FETCHED])


_ORDER_COLUMNS: Final = (
    *("id", "user_id", "created_at", "low_level_status", "bucket", "method", "sample_id"),
    *("lab_test_name", "patient_first_name", "patient_last_name", "patient_name", "patient_dob"),
    *("recipient_name", "order_transaction_id"),
    *("outbound_tracking_number", "inbound_tracking_number"),
)


def _orders_by_person(typed: SearchText, patients: Sequence[UUID]) -> list[Order]:
    """Return orders with this person on them that belong to none of these patients.

    For example a kit without a patient yet, a parcel to somebody else, or a former name.
    """
    others = Q(user=None) | ~Q(user__in=patients)
    return list(Order.objects.with_person(typed).filter(others).only(*_ORDER_COLUMNS)[:MAX_FETCHED])


def _visits(search: OrderSearchText) -> list[Appointment]:
    found = keys_of_any(Appointment.objects.all(), visit_conditions(search), MAX_FETCHED)
    visits = Appointment.objects.filter(pk__in=found).only(*_VISIT_COLUMNS)
    return list(visits.order_by("-start_at", "pk")[:MAX_FETCHED])


_VISIT_COLUMNS: Final = (
    *("id", "user_id", "order_id", "start_at", "iana_timezone", "type", "status", "city", "state"),
    "external_id",
)


def _patient_appointments(patient_id: UUID) -> list[Appointment]:
    """Return the active visits of one patient, the next one first."""
    return where(Appointment, _STANDING_CONDITION, [patient_id], exclude=AS_RECEIVED)


_STANDING_CONDITION: Final = (
    f"user_id = %s AND superseded_at IS NULL AND event_status NOT IN {ENDED_STATUSES}"
    f" AND status NOT IN {ENDED_STATUSES} ORDER BY start_at LIMIT {ORDERS_PER_PATIENT}"
)
