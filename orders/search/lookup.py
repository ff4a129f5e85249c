"""What was typed, looked up as everything it can be, and where it leads when it is one thing.

A fixed number of queries, each limited and answered by an index, whatever the size of the tables.
Without the right to see who a patient is, only ids and samples are looked up.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from itertools import chain
from typing import Any, Final, NamedTuple
from uuid import UUID

from django.core.exceptions import EmptyResultSet

from backoffice.core import prepared_queries, vocabulary
from backoffice.core.access import may
from backoffice.core.identifiers import key, key_expression
from backoffice.core.prepared_queries import Row, array, by_key, columns, cursor, where
from backoffice.core.urls import record_url
from backoffice.models import AS_RECEIVED, User
from backoffice.pages.paging.keys import UNREACHED_LIMIT
from orders.models import Appointment, Order, OrderNameWord
from orders.models.appointment import ENDED_STATUSES
from patients.models import Patient, id_range_for_prefix

LEAST: Final = 2
"""Characters from which something is looked up."""
MOST: Final = 50
"""Rows of a kind that are shown."""
FOUND: Final = MOST + 1
"""Rows of a kind that are looked up: one more tells that there are more."""
LAST: Final = 5
"""Orders that are read of each patient, the newest first."""
COUNTED: Final = 500
"""Orders of a patient among which the open ones are counted, the newest first: nobody has more, but
for those under whose name a team keeps its stock."""
LEAST_OF_CODE: Final = 3
SURE: Final = 6
"""Characters from which the beginning of an id means that id."""
FINISHED: Final = (vocabulary.RESULT_IN, vocabulary.CLOSED)


Whom = tuple[UUID | None, UUID | None]
"""A patient and an order of theirs, as far as they are known."""


@dataclass(slots=True)
class Person:
    """A patient that was found, with what tells two of one name apart."""

    patient: UUID
    about: Patient
    newest: list[UUID] = field(default_factory=list)
    """Their newest orders; `LAST` of them at most."""
    orders: list[Order] = field(default_factory=list)
    """Those of them that were read: all of who was found alone, else what is told of each."""
    open_orders: list[UUID] = field(default_factory=list)
    """All that are under way, the newest first."""
    once: str = ""
    """The name on an order, where the patient was found by that and is called otherwise."""

    @property
    def order(self) -> Order | None:
        """What is told of them: the newest that is open, or else the newest."""
        if self.open_orders:
            return next((one for one in self.orders if one.pk == self.open_orders[0]), None)
        return self.orders[0] if self.orders else None

    @property
    def name(self) -> str:
        """By demographics or an order; the last order may have a part of a name."""
        return self.about.full_name or (self.orders and name_of(self.orders[0])) or ""

    @property
    def born(self) -> date | None:
        if self.about.name_key:
            return self.about.dob
        return self.orders[0].patient_dob if self.orders else None

    @property
    def url(self) -> str:
        """Their one open order, or only order; else their page."""
        own = self.open_orders or self.newest
        if len(own) == 1:
            return of_order(own[0])
        return record_url("patients:detail", self.patient)


@dataclass(slots=True)
class Found:
    """Everything that fits, by kind."""

    people: list[Person] = field(default_factory=list)
    orders: list[Order] = field(default_factory=list)
    samples: list[Order] = field(default_factory=list)
    visits: list[Appointment] = field(default_factory=list)
    more: bool = False
    """There are others that fit."""
    sure: str = ""
    """Address of the one thing that was meant; empty when it may be several."""

    @property
    def count(self) -> int:
        return len(self.people) + len(self.orders) + len(self.samples) + len(self.visits)

    def ids(self) -> list[UUID]:
        rows: list[Any] = [*self.orders, *self.samples, *self.visits]
        return [*(one.patient for one in self.people), *(row.pk for row in rows)]

    def patients(self) -> list[UUID | None]:
        rows: list[Any] = [*self.orders, *self.samples, *self.visits]
        return [*(one.patient for one in self.people), *(row.user_id for row in rows)]


def find(text: str, user: User, most: int = MOST) -> Found:
    """What `text` can mean to this member of staff: of each kind the first `most`, two at least,
    and whether there are more."""
    text = " ".join(text.split())
    found = Found()
    if len(text) < LEAST:
        return found
    orders, samples = _orders_by_code(text)
    visits = _visits_by_code(text) if may(user, "appointments.view") else []
    named: list[Order] = []
    if may(user, "patients.view"):
        names = names_of({(visit.user_id, visit.order_id) for visit in visits[:most]})
        for visit in visits[:most]:
            visit.name = names[visit.user_id, visit.order_id]  # type: ignore[attr-defined]
        found.people, named = _people(text, most + 1)
        if found.people and len(text.replace("-", "")) < SURE and id_range_for_prefix(text):
            # The end of a phone number begins the ids of a few orders, too, by chance.
            orders = [order for order in orders if not str(order.pk).startswith(text.lower())]
    found.sure = _sure(found.people, [*orders, *samples, *named], visits)
    if len(found.people) == 1 and not (orders or samples or visits or named):
        named = found.people[0].orders
        visits = _visits_of(found.people[0].patient) if may(user, "appointments.view") else []
    found.orders, found.samples, found.visits = [*orders, *named], samples, visits
    for rows in (found.people, found.orders, found.samples, found.visits):
        found.more = found.more or len(rows) > most
        del rows[most:]
    return found


def name_of(row: Order | None) -> str:
    return f"{row.patient_first_name} {row.patient_last_name}".strip() if row else ""


def names_of(found: Collection[Whom]) -> dict[Whom, str]:
    """Of the patient; without one, as on the order: two queries."""
    people = by_key(Patient, {patient for patient, _ in found}, _ABOUT)
    named = {patient: row.full_name for patient, row in people.items()}
    orders = by_key(Order, {order for patient, order in found if not named.get(patient)}, _SHOWN)
    return {
        (patient, order): named.get(patient) or name_of(orders.get(order))
        for patient, order in found
    }


def of_order(order: Order | UUID) -> str:
    return record_url("orders:detail", order.pk if isinstance(order, Order) else order)


def _sure(people: Sequence[Person], orders: Sequence[Order], visits: Sequence[Appointment]) -> str:
    """Where exactly one thing was found: its page. Orders of one transaction are one thing."""
    things = {order.order_transaction_id or order.pk for order in orders}
    owners = {visit.order_id for visit in visits} - {order.pk for order in orders}
    if len(people) + len(things) + len(owners) != 1:
        return ""
    if people:
        return people[0].url
    if orders:
        return of_order(max(orders, key=lambda order: order.created_at))
    (order_id,) = owners
    return of_order(order_id) if order_id else ""


def _people(text: str, most: int) -> tuple[list[Person], list[Order]]:
    """Patients with their last orders: those who have something open first, then those whose last
    order is the newest. And orders by name that belong to nobody known."""
    ranked = Patient.objects.best_matches(text, FOUND)
    named = _orders_by_name(text, ranked) if len(ranked) < FOUND else []
    # A parcel to somebody tells nothing of who owns the order: the team's own stock, often.
    owners = {order.user_id: name_of(order) for order in named if name_of(order)}
    ids = [*ranked, *(pk for pk in owners if pk is not None)][:FOUND]
    if not ids:
        return [], named
    with cursor() as asked:
        asked.execute(_LAST, [list(FINISHED), array(ids)])
        told = {row[0]: _Last(*row[1:]) for row in asked.fetchall()}
    shown = sorted((pk for pk in ids if pk in told), key=lambda pk: told[pk].weight)[:most]
    about = by_key(Patient, shown, _ABOUT)
    read = {pk: told[pk].read(LAST if len(shown) == 1 else 1) for pk in shown}
    orders = by_key(Order, chain.from_iterable(read.values()), _SHOWN)
    people = []
    for pk in (pk for pk in shown if pk in about):
        newest, under_way = told[pk].newest or [], told[pk].under_way or []
        own = [orders[each] for each in read[pk] if each in orders]
        people.append(Person(pk, about[pk], newest, own, under_way))
        people[-1].once = owners[pk] if owners.get(pk) not in (None, people[-1].name) else ""
    return people, [o for o in named if o.user_id not in told]


class _Last(NamedTuple):
    """Orders of one patient; None: there are none."""

    newest: list[UUID] | None
    under_way: list[UUID] | None
    at: datetime | None

    def read(self, most: int) -> list[UUID]:
        """The newest, and the newest that is open."""
        return list(dict.fromkeys([*(self.newest or [])[:most], *(self.under_way or [])[:1]]))

    @property
    def weight(self) -> tuple[bool, float]:
        return not self.under_way, -self.at.timestamp() if self.at else 0


_LAST: Final = f"""
SELECT patients_patient.id, newest, under_way, at FROM patients_patient, LATERAL (
 SELECT (array_agg(id ORDER BY created_at DESC))[:{LAST}] AS newest,
  array_agg(id ORDER BY created_at DESC) FILTER (WHERE bucket <> ALL(%s)) AS under_way,
  max(created_at) AS at
 FROM (
  SELECT id, bucket, created_at FROM orders_order WHERE user_id = patients_patient.id
  ORDER BY created_at DESC LIMIT {COUNTED}
 ) AS counted
) AS own WHERE patients_patient.id = ANY(%s)
"""  # noqa: S608 - numbers of ours
"""The newest orders and the open ones of each, by one walk along `order_of_patient`."""
_ABOUT: Final = (
    *("first_name", "last_name", "name_key", "dob", "city", "state"),
    *("fields_from_order", "source_order_created_at"),
)


def _orders_by_code(text: str) -> tuple[list[Order], list[Order]]:
    """Orders by the beginning of their id or that of their transaction, and by sample id."""
    ids = ("id", "order_transaction_id")
    found = _by_code(
        Order, _SHOWN, text, ids, key_expression("sample_id"), "created_at DESC, id DESC"
    )
    typed = key(text)
    samples = [order for order in found if key(order.sample_id or "").startswith(typed)]
    return [order for order in found if order not in samples], samples


_SHOWN: Final = (
    *("id", "user_id", "created_at", "low_level_status", "bucket", "method", "sample_id"),
    *("lab_test_name", "patient_first_name", "patient_last_name", "patient_name", "patient_dob"),
    *("recipient_name", "order_transaction_id"),
)


def _is_code(text: str) -> bool:
    """One run of letters and digits with a digit in it, as samples and bookings are numbered."""
    plain = text.replace("-", "")
    return (
        len(plain) >= LEAST_OF_CODE
        and plain.isascii()
        and plain.isalnum()
        and any(mark.isdigit() for mark in plain)
    )


def _orders_by_name(text: str, known: Sequence[UUID]) -> list[Order]:
    """Orders that carry the name but belong to none of these patients: a kit without a patient
    yet, a parcel to somebody else, a patient who was called so once."""
    called = OrderNameWord.matching({"names": text}).values("names")[:UNREACHED_LIMIT]
    try:
        names, values = called.query.sql_with_params()
    except EmptyResultSet:
        return []
    statement = f"SELECT {columns(Order, _SHOWN)} FROM orders_order WHERE names_id IN ({names})"  # noqa: S608
    if known:
        statement += " AND (user_id IS NULL OR user_id <> ALL(%s))"
        values = (*values, list(known))
    return prepared_queries.read(Order, f"{statement} LIMIT {FOUND}", values, _SHOWN, planned=False)


def _visits_by_code(text: str) -> list[Appointment]:
    """Visits by the beginning of their id or of the number the lab gave them."""
    return _by_code(
        Appointment, _OF_VISIT, text, ("id",), "upper(external_id)", "start_at DESC, id"
    )


_OF_VISIT: Final = (
    *("id", "user_id", "order_id", "start_at", "iana_timezone", "type", "status", "city", "state"),
    "external_id",
)


def _by_code(
    model: type[Row],
    shown: prepared_queries.Names,
    text: str,
    ids: Sequence[str],
    code: str,
    order: str,
) -> list[Row]:
    """Rows of which one of these ids or this code (an expression) begins so, each found by its
    index.

    In plain SQL: to compose such a statement takes longer than to answer it.
    """
    table, readings = model._meta.db_table, []
    typed = key(text)
    asked: dict[str, Any] = {"code": f"{typed}%"}
    if between := id_range_for_prefix(text):
        asked["low"], asked["high"] = between
        readings += [f"{column} BETWEEN %(low)s AND %(high)s" for column in ids]
    if _is_code(typed):
        readings.append(f"{code} LIKE %(code)s")
    if not readings:
        return []
    keys = (f"(SELECT id FROM {table} WHERE {one} LIMIT {FOUND})" for one in readings)  # noqa: S608
    statement = (
        f"SELECT {columns(model, shown)} FROM {table}"  # noqa: S608 - our names
        f" WHERE id IN ({' UNION ALL '.join(keys)}) ORDER BY {order} LIMIT {FOUND}"
    )
    return prepared_queries.read(model, statement, asked, shown, planned=False)


def _visits_of(patient_id: UUID) -> list[Appointment]:
    """The standing visits of one patient, the next one first."""
    return where(Appointment, _STANDING, [patient_id], but=AS_RECEIVED)


_STANDING: Final = (
    f"user_id = %s AND superseded_at IS NULL AND event_status NOT IN {ENDED_STATUSES}"
    f" AND status NOT IN {ENDED_STATUSES} ORDER BY start_at LIMIT {LAST}"
)
