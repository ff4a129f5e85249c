"""When a sample was collected: what is known of it, in which zone it is shown, and which times
cannot be right."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, tzinfo
from typing import Any, Final
from uuid import UUID

from django import forms
from django.core.exceptions import ValidationError
from django.utils import timezone

from backoffice.pages.widgets import TO_THE_MINUTE, DateTimeLocalInput
from backoffice.service.written_times import read_written_time
from backoffice.templatetags.ages import spoken, zone_name
from orders.local_time import here, place_of
from orders.models import Appointment, Order, OrderEvent
from orders.visit_zones import Basis

FUTURE: Final = "This time is in the future. Enter the time at which the sample was collected."
TOO_EARLY: Final = "This is before the order was created ({}). Check the date."
EMPTY: Final = "Enter the time of collection, or choose “Collected now”."
NOT_A_TIME: Final = "Enter a date and a time of collection, such as 11/25/2026, 9:30 AM."
CLOCK_CHANGE: Final = "The clocks change at this time. Enter a time an hour earlier or later."


@dataclass(frozen=True, slots=True)
class Collected:
    """A known time of collection, and where it is from."""

    at: datetime
    source: str


@dataclass(frozen=True, slots=True)
class Clock:
    """The zone in which the time of a collection is shown and typed."""

    zone: tzinfo
    note: str = ""

    @property
    def name(self) -> str:
        """`MST (America/Denver)`."""
        short, long = zone_name(timezone.now().astimezone(self.zone)), str(self.zone)
        return short if short == long else f"{short} ({long.replace('_', ' ')})"


DRAWN: Final = "draw_completed"


def draws_of(keys: Iterable[UUID]) -> dict[UUID, datetime]:
    """When the draws of orders were completed, by the ids of the orders."""
    events = OrderEvent.objects.filter(order_id__in=list(keys), low_level_status=DRAWN)
    return dict(events.order_by("created_at").values_list("order_id", "created_at"))


def known_times(
    drawn: Mapping[UUID, datetime],
    reported: Mapping[UUID, str | None],
    visits: Mapping[UUID, Appointment],
) -> dict[UUID, Collected]:
    """Of orders by their ids: what the lab reports, else when the draw was completed, else the time
    of the visit."""
    found = {
        key: Collected(visit.start_at, "Time of the visit.")
        for key, visit in visits.items()
        if visit.start_at is not None
    }
    found |= {key: Collected(at, "Time of the completed draw.") for key, at in drawn.items()}
    for key, text in reported.items():
        if (at := read_written_time(text).instant) is not None:
            found[key] = Collected(at, "Time in the lab’s report.")
    return found


def is_canceled(visit: Appointment) -> bool:
    return "cancelled" in (visit.status, visit.event_status)


def clock_of(order: Order, visit: Appointment | None) -> Clock:
    """The clock at the place of the draw: of the visit, else of the patient; else of the staff
    member, who sees which it is."""
    if visit is not None and visit.visit_zone.basis is not Basis.UNKNOWN:
        return Clock(visit.visit_zone.zone, visit.visit_zone.note)
    whole: Order | None = order
    if order.get_deferred_fields() or not Order.user.is_cached(order):
        whole = Order.objects.select_related("user").filter(pk=order.pk).first()
    place = place_of(whole) if whole else here()
    if not place.known:
        return Clock(here().zone, "your time zone")
    return Clock(place.zone, "" if place.sure else "time zone assumed from the state")


def why_not_collected(at: datetime, order: Order, known: Collected | None, zone: tzinfo) -> str:
    """Why the sample of this order cannot have been collected then; empty where it can."""
    if known is not None and at == minute_of(known.at):
        return ""  # A visit may be ahead, and an imported order younger than its sample.
    return why_not_between(at, order.created_at, zone)


def why_not_between(at: datetime, created: datetime, zone: tzinfo) -> str:
    """Why this is not between the time when an order was created and now."""
    now = timezone.now()
    if at > now:
        return FUTURE
    if at < minute_of(created):
        return TOO_EARLY.format(spoken(created.astimezone(zone), now.astimezone(zone)))
    return ""


def minute_of(moment: datetime) -> datetime:
    """As precise as a time can be typed."""
    return moment.replace(second=0, microsecond=0)


class CollectedField(forms.DateTimeField):
    """A time of collection by the clock of `zone`; that of the staff member unless it is set."""

    zone: tzinfo | None = None

    def __init__(self, *, required: bool) -> None:
        super().__init__(
            label="Collected",
            required=required,
            input_formats=[TO_THE_MINUTE, f"{TO_THE_MINUTE}:%S"],
            widget=DateTimeLocalInput(),
            error_messages={"required": EMPTY, "invalid": NOT_A_TIME},
        )

    def prepare_value(self, value: Any) -> Any:
        with timezone.override(self.zone or timezone.get_current_timezone()):
            return super().prepare_value(value)

    def to_python(self, value: Any) -> datetime | None:
        with timezone.override(self.zone or timezone.get_current_timezone()):
            try:
                return super().to_python(value)
            except ValidationError as error:
                if getattr(error, "code", "") == "ambiguous_timezone":
                    raise ValidationError(CLOCK_CHANGE, "clock_change") from error
                raise
            except (OverflowError, ValueError) as error:
                raise ValidationError(NOT_A_TIME, "invalid") from error
