"""Rows of the appointment pages with everything they show, by a fixed number of queries."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta, tzinfo
from typing import Any, Final
from uuid import UUID

from django.db.models import QuerySet
from django.utils import timezone
from django.utils.translation import gettext

from backoffice.accounts.access import may
from backoffice.accounts.models import User
from backoffice.core import vocabulary
from backoffice.core.prepared_queries import array, by_key, cursor
from backoffice.core.urls import record_url
from backoffice.mirror.models import AS_RECEIVED
from labs.models import Lab
from orders.appointment_list.display_times import AppointmentClocks, appointment_clocks
from orders.models import Appointment, Order
from orders.models.order import CANCELED_STATUSES
from orders.rules import appointment_rules

_VISIT_ORDER_COLUMNS: Final = (
    *("low_level_status", "lab_test_name"),
    *("patient_first_name", "patient_last_name", "patient_dob"),
)
_PEOPLE_SQL: Final = (
    "SELECT id, first_name || ' ' || last_name, dob FROM patients_patient"
    " WHERE id = ANY(%s) AND name_key <> ''"
)
DEFERRED_ON_DAY_PAGES: Final = (
    *AS_RECEIVED,
    *("as_of", "order_transaction_id", "end_at", "zip_code", "lng", "lat"),
)
"""Columns of an appointment that the pages by day do not show."""


@dataclass(slots=True)
class AppointmentRow:
    """One row: an appointment with its patient, order and local times."""

    appointment: Appointment
    order: Order | None
    name: str
    born: date | None
    clocks: AppointmentClocks | None
    by_name: bool
    """Whether the user may see who the patient is."""

    @property
    def day(self) -> date | None:
        """The day of the visit in the zone of the draw."""
        return self.appointment.draw_day

    @property
    def has_two_clocks(self) -> bool:
        """Whether the local times of the draw and of the staff member differ at the start."""
        return self.clocks is not None and self.clocks.are_different

    @property
    def site(self) -> str:
        """The number of the service center."""
        return "" if self.is_at_home else str(self.appointment.provider_id)

    @property
    def place(self) -> str:
        """The town of the visit. At home, it is the patient's."""
        if self.is_at_home and not self.by_name:
            return ""
        return ", ".join(filter(None, (self.appointment.city, self.appointment.state)))

    @property
    def has_status_mismatch(self) -> bool:
        """Whether `status` and `event_status` have different labels."""
        row = self.appointment
        return _label("status", row.status) != _label("event_status", row.event_status)

    @property
    def is_at_home(self) -> bool:
        return self.appointment.type == appointment_rules.HOME


@dataclass(slots=True)
class AppointmentSite:
    """The visits of a day in one place: a service center, or the homes of one town."""

    name: str
    provider: str
    code: str
    place: str
    is_at_home: bool
    visits: list[AppointmentRow] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class UnbookedOrder:
    """An order that needs a visit, with its last appointment."""

    order: Order
    last_appointment: Appointment | None
    by_name: bool
    """Whether the user may see who the patient is."""

    @property
    def last_start(self) -> datetime | None:
        return self.last_appointment.start_at if self.last_appointment else None

    @property
    def last_provider(self) -> str:
        return self.last_appointment.provider if self.last_appointment else ""


def appointment_rows(rows: Iterable[Appointment], *, by_name: bool) -> list[AppointmentRow]:
    """Return rows with their patients and orders: two queries, whatever their number."""
    appointments = list(rows)
    orders: Mapping[UUID | None, Order] = by_key(
        Order, {row.order_id for row in appointments}, _VISIT_ORDER_COLUMNS
    )
    with cursor() as db_cursor:
        db_cursor.execute(_PEOPLE_SQL, [array({row.user_id for row in appointments} - {None})])
        people = {key: (name, born) for key, name, born in db_cursor.fetchall()}
    own_zone = timezone.get_current_timezone()
    return [
        _appointment_row(row, orders.get(row.order_id), people.get(row.user_id), own_zone, by_name)
        for row in appointments
    ]


def unbooked_orders(rows: Iterable[Order], *, by_name: bool) -> list[UnbookedOrder]:
    """Return the orders with the last appointment of each: one query."""
    orders = list(rows)
    last: dict[UUID | None, Appointment] = {}
    visits = Appointment.objects.filter(order_id__in=[order.pk for order in orders])
    for visit in visits.defer("record", "content_hash").order_by("as_of", "pk"):
        last[visit.order_id] = visit
    return [UnbookedOrder(order, last.get(order.pk), by_name) for order in orders]


def group_by_site(rows: Iterable[AppointmentRow]) -> list[AppointmentSite]:
    """Group the visits of a day by site, service centers first, each in order of time.

    Home visits are not grouped by town for users who may not see it.
    """
    names = Lab.names()
    sites: dict[tuple[Any, ...], AppointmentSite] = {}
    for visit in rows:
        row = visit.appointment
        if visit.is_at_home:
            key: tuple[Any, ...] = (True, visit.place, row.provider)
            new = AppointmentSite(gettext("At home"), row.provider, "", visit.place, True)
        else:
            key = (False, row.state, row.city, row.provider, row.provider_id, row.first_line)
            street = ", ".join(part for part in (row.first_line, visit.place) if part)
            name = names.get(row.provider, row.provider)
            new = AppointmentSite(name, row.provider, row.provider_id, street, False)
        sites.setdefault(key, new).visits.append(visit)
    return [sites[key] for key in sorted(sites)]


def row_actions(visit: AppointmentRow, user: User) -> dict[str, Any]:
    """Return the links of a row: its documents and, for an active visit, the allowed changes.

    `words` says why a change is not possible.
    """
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
    no_move, no_cancel = (
        appointment_rules.why_not_move(order, row),
        appointment_rules.why_not_cancel(row),
    )
    return {
        "move": "" if no_move else record_url("orders:move", order.pk),
        "cancel": "" if no_cancel else record_url("orders:cancel-visit", order.pk),
        "rebook": bool(no_move) and order.low_level_status not in CANCELED_STATUSES,
        "words": no_cancel or no_move,
        **documents,
    }


def _appointment_row(
    row: Appointment,
    order: Order | None,
    person: tuple[str, date | None] | None,
    own_zone: tzinfo,
    by_name: bool,
) -> AppointmentRow:
    name, born = person or ("", None)
    if person is None and order is not None:
        name = f"{order.patient_first_name} {order.patient_last_name}"
        born = order.patient_dob
    return AppointmentRow(
        appointment=row,
        order=order,
        name=name.strip(),
        born=born,
        clocks=appointment_clocks(row.start_at, row.visit_zone, own_zone) if row.start_at else None,
        by_name=by_name,
    )


def _label(name: str, value: str) -> str:
    return vocabulary.term(f"appointment.{name}", value).label


def week_days(day: date) -> list[date]:
    """Return the days from Monday to Sunday of a day's week."""
    monday = day - timedelta(days=day.weekday())
    return [monday + timedelta(days=number) for number in range(7)]


def week_appointments(
    rows: QuerySet[Appointment], days: list[date], most: int
) -> list[Appointment]:
    """Return at most `most` visits of each day: one query."""
    each = [
        rows.filter(draw_day=day).order_by("start_at", "id").values("pk")[:most] for day in days
    ]
    keys = each[0].union(*each[1:], all=True)
    appointments = Appointment.objects.filter(pk__in=keys).defer(*DEFERRED_ON_DAY_PAGES)
    return list(appointments.order_by("draw_day", "start_at", "id"))
