"""Rows of the appointment pages, with all they show: a fixed number of queries."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import date, timedelta, tzinfo
from typing import Any, Final
from uuid import UUID

from django.conf import settings
from django.db.models import Exists, OuterRef, QuerySet
from django.utils import timezone

from backoffice.core import vocabulary
from backoffice.core.access import may
from backoffice.core.prepared_queries import array, by_key, cursor
from backoffice.core.urls import record_url
from backoffice.models import AS_RECEIVED, User
from labs.models import Lab
from orders.appointments.display_times import Clocks, clocks
from orders.appointments.forms import OVER, AppointmentFilters, methods_of
from orders.models import Appointment, Order
from orders.models.order import BOOKABLE_STATUSES, CANCELED_STATUSES
from orders.scheduling import rules

_OF_ORDER: Final = (
    *("id", "user_id", "created_at", "last_event_at", "low_level_status", "bucket", "method"),
    *("lab_test_name", "patient_first_name", "patient_last_name", "patient_name", "patient_dob"),
    "priority",
)
_OF_VISITED: Final = (
    *("low_level_status", "lab_test_name"),
    *("patient_first_name", "patient_last_name", "patient_dob"),
)
_PEOPLE: Final = (
    "SELECT id, first_name || ' ' || last_name, dob FROM patients_patient"
    " WHERE id = ANY(%s) AND name_key <> ''"
)
NOT_OF_A_DAY: Final = (
    *AS_RECEIVED,
    *("as_of", "order_transaction_id", "end_at", "zip_code", "lng", "lat"),
)
"""What pages of days do not show of a visit."""
CALLED_OFF: Final = "appointment_cancelled"


@dataclass(slots=True)
class Visit:
    """One row: the appointment, who it is for, and how its clocks relate."""

    appointment: Appointment
    order: Order | None
    name: str
    born: date | None
    clocks: Clocks | None

    @property
    def day(self) -> date | None:
        """Day of the visit where it is."""
        return self.appointment.draw_day

    @property
    def two_clocks(self) -> bool:
        """The draw's clock and the staff member's differ at that moment."""
        return self.clocks is not None and self.clocks.differ

    @property
    def disagrees(self) -> bool:
        """`status` and `event_status` do not say the same."""
        row = self.appointment
        return _label("status", row.status) != _label("event_status", row.event_status)

    @property
    def at_home(self) -> bool:
        return self.appointment.type == rules.HOME


@dataclass(slots=True)
class Site:
    """Visits of a day in one place: a service centre, or the homes of one town."""

    name: str
    provider: str
    code: str
    place: str
    at_home: bool
    visits: list[Visit] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Waiting:
    """An order that waits for a visit, with the last one it had."""

    order: Order
    before: Appointment | None


def visits(rows: Iterable[Appointment]) -> list[Visit]:
    """The rows with their patients and orders: two queries, whatever their number."""
    found = list(rows)
    orders: Mapping[UUID | None, Order] = by_key(
        Order, {row.order_id for row in found}, _OF_VISITED
    )
    with cursor() as asked:
        asked.execute(_PEOPLE, [array({row.user_id for row in found} - {None})])
        people = {key: (name, born) for key, name, born in asked.fetchall()}
    here = timezone.get_current_timezone()
    return [_visit(row, orders.get(row.order_id), people.get(row.user_id), here) for row in found]


def to_book(types: Iterable[str]) -> QuerySet[Order]:
    """Orders whose paperwork is there and which nobody has booked. Without `types` those that the
    clinic books by itself (`BOOKED_METHODS`): most patients may walk in without a booking."""
    methods = methods_of(list(types)) or settings.BOOKED_METHODS
    rows = Order.objects.filter(low_level_status__in=BOOKABLE_STATUSES, method__in=methods)
    return _without_visit(rows)


def to_rebook() -> QuerySet[Order]:
    """Orders whose visit was called off, and which have no other one."""
    return _without_visit(Order.objects.filter(low_level_status=CALLED_OFF))


def waiting(rows: Iterable[Order]) -> list[Waiting]:
    """The orders with the last visit each had: one query."""
    found = list(rows)
    last: dict[UUID | None, Appointment] = {}
    visits = Appointment.objects.filter(order_id__in=[order.pk for order in found])
    for visit in visits.defer("record", "content_hash").order_by("as_of", "pk"):
        last[visit.order_id] = visit
    return [Waiting(order, last.get(order.pk)) for order in found]


def by_site(rows: Iterable[Visit], *, by_name: bool) -> list[Site]:
    """Visits of a day by where they are, the centres first; each in the order of the day."""
    names = Lab.names()
    found: dict[tuple[Any, ...], Site] = {}
    for visit in rows:
        row = visit.appointment
        place = ", ".join(part for part in (row.city, row.state) if part)
        if visit.at_home:
            key: tuple[Any, ...] = (True, place if by_name else "", row.provider)
            new = Site("At home", row.provider, "", place if by_name else "", True)
        else:
            key = (False, row.state, row.city, row.provider, row.provider_id, row.first_line)
            street = ", ".join(part for part in (row.first_line, place) if part)
            name = names.get(row.provider, row.provider)
            new = Site(name, row.provider, row.provider_id, street, False)
        found.setdefault(key, new).visits.append(visit)
    return [found[key] for key in sorted(found)]


def actions(visit: Visit, user: User) -> dict[str, Any]:
    """The documents of a visit, and what this person may do about one that stands; a reason where
    they may not."""
    row, order = visit.appointment, visit.order
    if order is None or not may(user, "patients.view", "orders.view"):
        return {}
    documents = {"documents": record_url("documents:order", order.pk)}
    if (
        row.has_ended
        or row.superseded_at
        or row.missing_since
        or not may(user, "appointments.change")
    ):
        return documents
    no_move, no_cancel = rules.why_not_move(order, row), rules.why_not_cancel(row)
    return {
        "move": "" if no_move else record_url("orders:move", order.pk),
        "cancel": "" if no_cancel else record_url("orders:cancel-visit", order.pk),
        "rebook": bool(no_move) and order.low_level_status not in CANCELED_STATUSES,
        "words": no_cancel or no_move,
        **documents,
    }


def _without_visit(rows: QuerySet[Order]) -> QuerySet[Order]:
    standing = Appointment.objects.filter(order_id=OuterRef("pk"), superseded_at=None)
    standing = standing.exclude(status__in=OVER).exclude(event_status__in=OVER)
    return rows.filter(~Exists(standing), missing_since=None).only(*_OF_ORDER)


def _visit(
    row: Appointment, order: Order | None, person: tuple[str, date | None] | None, here: tzinfo
) -> Visit:
    name, born = person or ("", None)
    if person is None and order is not None:
        name = f"{order.patient_first_name} {order.patient_last_name}"
        born = order.patient_dob
    return Visit(
        appointment=row,
        order=order,
        name=name.strip(),
        born=born,
        clocks=clocks(row.start_at, row.visit_zone, here) if row.start_at else None,
    )


def _label(name: str, value: str) -> str:
    return vocabulary.term(f"appointment.{name}", value).label


def week_of(day: date) -> list[date]:
    """Monday to Sunday of a day's week."""
    monday = day - timedelta(days=day.weekday())
    return [monday + timedelta(days=number) for number in range(7)]


def of_week(
    rows: QuerySet[Appointment], form: AppointmentFilters, days: list[date], most: int
) -> list[Appointment]:
    """At most `most` visits of each day: one query."""
    each = [form.of_day(rows, day).order_by("start_at", "id").values("pk")[:most] for day in days]
    keys = each[0].union(*each[1:], all=True)
    found = Appointment.objects.filter(pk__in=keys).defer(*NOT_OF_A_DAY)
    return list(found.order_by("draw_day", "start_at", "id"))
