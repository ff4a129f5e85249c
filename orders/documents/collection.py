"""Times of collection: known times, the zone of their display, and times to reject."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, tzinfo
from typing import Any, Final
from uuid import UUID

from django import forms
from django.core.exceptions import ValidationError
from django.utils import timezone
from django.utils.translation import gettext, gettext_lazy, gettext_noop

from backoffice.core.time_formats import spoken, zone_name
from backoffice.pages.widgets import TO_THE_MINUTE, DateTimeLocalInput
from backoffice.service.written_times import read_written_time
from orders.appointment_zones import Basis
from orders.local_time import local_clock_of, staff_clock
from orders.models import Appointment, Order, OrderEvent

FUTURE: Final = gettext_noop(
    "This time is in the future. Enter the time when the sample was collected."
)
TOO_EARLY: Final = gettext_noop("This is before the order was created (%(time)s). Check the date.")
EMPTY: Final = gettext_noop("Enter the collection time, or choose “Collected now”.")
NOT_A_TIME: Final = gettext_noop("Enter a collection date and time, such as 11/25/2026, 9:30 AM.")
CLOCK_CHANGE: Final = gettext_noop(
    "The clocks change at this time. Enter a time an hour earlier or later."
)


@dataclass(frozen=True, slots=True)
class CollectionTime:
    """A known time of collection, and its source."""

    at: datetime
    source: str


@dataclass(frozen=True, slots=True)
class CollectionClock:
    """The zone in which a time of collection is shown and typed."""

    zone: tzinfo
    note: str = ""

    @property
    def name(self) -> str:
        """Return the name of the zone, such as `MST (America/Denver)`."""
        short, long = zone_name(timezone.now().astimezone(self.zone)), str(self.zone)
        return short if short == long else f"{short} ({long.replace('_', ' ')})"


DRAW_COMPLETED: Final = "draw_completed"


def draw_times(keys: Iterable[UUID]) -> dict[UUID, datetime]:
    """Return when the draws of orders were completed, by order id."""
    events = OrderEvent.objects.filter(order_id__in=list(keys), low_level_status=DRAW_COMPLETED)
    return dict(events.order_by("created_at").values_list("order_id", "created_at"))


def collection_times(
    draw_times: Mapping[UUID, datetime],
    reported: Mapping[UUID, str | None],
    visits: Mapping[UUID, Appointment],
) -> dict[UUID, CollectionTime]:
    """Return the time of collection by order id.

    It is the time that the lab reports, else that of the completed draw, else that of the
    appointment.
    """
    times = {
        key: CollectionTime(visit.start_at, gettext("Time of the visit."))
        for key, visit in visits.items()
        if visit.start_at is not None
    }
    times |= {
        key: CollectionTime(at, gettext("Time of the completed draw."))
        for key, at in draw_times.items()
    }
    for key, text in reported.items():
        if (at := read_written_time(text).instant) is not None:
            times[key] = CollectionTime(at, gettext("Time in the lab’s report."))
    return times


def is_appointment_canceled(visit: Appointment) -> bool:
    return "cancelled" in (visit.status, visit.event_status)


def collection_clock(order: Order, visit: Appointment | None) -> CollectionClock:
    """Return the clock of the appointment, else of the patient, else of the staff member.

    A clock that is not that of the appointment has a note that says so.
    """
    if visit is not None and visit.visit_zone.basis is not Basis.UNKNOWN:
        return CollectionClock(visit.visit_zone.zone, visit.visit_zone.note)
    loaded: Order | None = order
    if order.get_deferred_fields() or not Order.user.is_cached(order):
        loaded = Order.objects.select_related("user").filter(pk=order.pk).first()
    clock = local_clock_of(loaded) if loaded else staff_clock()
    if not clock.known:
        return CollectionClock(staff_clock().zone, gettext("your time zone"))
    return CollectionClock(
        clock.zone, "" if clock.sure else gettext("time zone assumed from the state")
    )


def collection_time_error(
    at: datetime, order: Order, collected: CollectionTime | None, zone: tzinfo
) -> str:
    """Return why this order's sample cannot have been collected at this time, or an empty text."""
    if collected is not None and at == to_minute(collected.at):
        return ""  # A visit may be in the future; a sample may be older than its import.
    return time_range_error(at, order.created_at, zone)


def time_range_error(at: datetime, created: datetime, zone: tzinfo) -> str:
    """Return why the time is not between the creation of the order and now, or an empty text."""
    now = timezone.now()
    if at > now:
        return gettext(FUTURE)
    if at < to_minute(created):
        return gettext(TOO_EARLY) % {"time": spoken(created.astimezone(zone), now.astimezone(zone))}
    return ""


def to_minute(moment: datetime) -> datetime:
    """Round a time down to minutes, which is the precision of typed times."""
    return moment.replace(second=0, microsecond=0)


class CollectedField(forms.DateTimeField):
    """A time of collection in `zone`, or in the staff member's zone if `zone` is not set."""

    zone: tzinfo | None = None

    def __init__(self, *, required: bool) -> None:
        super().__init__(
            label=gettext_lazy("Collected"),
            required=required,
            input_formats=[TO_THE_MINUTE, f"{TO_THE_MINUTE}:%S"],
            widget=DateTimeLocalInput(),
            error_messages={"required": gettext_lazy(EMPTY), "invalid": gettext_lazy(NOT_A_TIME)},
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
                    raise ValidationError(gettext(CLOCK_CHANGE), "clock_change") from error
                raise
            except (OverflowError, ValueError) as error:
                raise ValidationError(gettext(NOT_A_TIME), "invalid") from error
