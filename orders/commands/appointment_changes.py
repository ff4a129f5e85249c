"""Commands that change an appointment (appointments.md 5 and 6): reschedule, cancel."""

from __future__ import annotations

from datetime import datetime
from typing import Any, ClassVar
from uuid import UUID

from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext, gettext_noop

from backoffice.core.time_formats import ago
from backoffice.outbox.command import (
    Ambiguous,
    Confirmed,
    Disproved,
    NoTrace,
    PossibleMatch,
    PreconditionFailed,
    ResendPolicy,
    SendContext,
)
from backoffice.outbox.models import CommandRecord
from backoffice.service import Service, areas
from backoffice.service import appointments as service_appointments
from backoffice.service import orders as service_orders
from orders.commands.appointments import (
    VISIT_LABELS,
    Answer,
    AppointmentCommand,
    Settled,
    appointment_time_text,
    with_valid_key,
)
from orders.models import Appointment
from orders.rules import appointment_rules
from orders.rules.appointment_rules import HOME, format_appointment_time
from orders.rules.slots import AppointmentPlace, OfferedTime


class _ActiveAppointmentCommand(AppointmentCommand, kw_only=True):
    """Base of changes of an appointment that the person saw."""

    resend_policy: ClassVar[ResendPolicy] = ResendPolicy.SAME_EFFECT

    visit_type: str
    appointment_id: UUID
    seen: datetime | None
    """The start that the person saw."""

    @property
    def type(self) -> str:
        return self.visit_type

    def visit(self, *also: datetime) -> Appointment:
        """Return the appointment if it starts at the time the person saw, or at one of `also`."""
        active = appointment_rules.active_appointment(self.order_id)
        if active is None:
            raise PreconditionFailed(
                gettext("The visit has ended or was canceled by someone else.")
            )
        if active.pk != self.appointment_id or active.start_at not in (self.seen, *also):
            now = {"time": format_appointment_time(active.start_at, active.visit_zone)}
            raise PreconditionFailed(
                gettext("The visit has changed. It is now: %(time)s.") % now
                + self._last_change_note()
            )
        return active

    def _last_change_note(self) -> str:
        """Return which staff member made the latest change, and when.

        The text is empty if nobody here made it.
        """
        rows = CommandRecord.objects.about(*self.subject()).filter(
            kind__startswith="appointment.", state=CommandRecord.State.DONE
        )
        row = rows.order_by("-finished_at").first()
        if row is None or row.finished_at is None:
            return ""
        change = {
            "name": row.requested_by.get_full_name(),
            "ago": ago(row.finished_at, timezone.now()),
        }
        return " " + gettext("Changed by %(name)s %(ago)s.") % change


class RescheduleAppointment(_ActiveAppointmentCommand, kw_only=True):
    """Reschedule an appointment. The old time is valid until the service confirms the new one."""

    kind: ClassVar[str] = "appointment.move"
    fields: ClassVar[dict[str, str]] = {"booking_key": "slot", "appointment_notes": "notes"}

    time: OfferedTime
    where: AppointmentPlace
    zone: str = ""
    """Time zone of the time that the person saw."""
    place_before: list[str] | None = None
    """The place of the appointment right before the first attempt: see `_place_values`."""
    notes: str = ""

    def difference(self) -> tuple[dict[str, Any], dict[str, Any]]:
        return {"start": self.seen}, {"start": self.time.start}

    def title(self) -> str:
        when = format_appointment_time(self.time.start, self.time.visit_zone)
        return f"Reschedule {VISIT_LABELS[self.type]} to {when}"

    def form_url(self) -> str:
        return reverse("orders:move", args=[self.order_id])

    def check(self) -> None:
        super().check()
        order = self.order()
        visit = self.visit(self.time.start)
        if words := appointment_rules.why_not_move(order, visit):
            raise PreconditionFailed(words)
        if self._is_at_new_time(visit):
            raise PreconditionFailed(gettext("The visit is already at this time."), field="slot")

    def _is_at_new_time(self, visit: Appointment) -> bool:
        """Whether it is already at the requested time and place.

        Only for an appointment at home, the time alone decides. Two centers may offer the same
        times, and no field is guaranteed to be a site's code.
        """
        return visit.start_at == self.time.start and (
            self.type == HOME or visit.provider_id == self.time.site
        )

    def record_state_before(self) -> None:
        super().record_state_before()
        visit = self.visit(self.time.start)
        self.place_before = _place_values(
            visit.provider_id, visit.first_line, visit.zip_code, visit.lng, visit.lat
        )

    def refresh(self, service: Service) -> None:
        super().refresh(service)
        self.check()
        self.time = with_valid_key(service, self.where, self.time)

    def send(self, service: Service, sending: SendContext) -> Answer:
        calls = service.appointments
        move = calls.reschedule_phlebotomy if self.type == HOME else calls.reschedule_psc
        return move(self.order_id, self.time.key, self.notes)

    def settle(self, service: Service, sending: SendContext) -> Settled:
        current = self.current(service)
        if current is None or current.data.id != self.appointment_id:
            # "The GET returns only the active one" (appointments.md 5): our appointment has ended.
            other = current and f"Another visit is booked: {appointment_time_text(current.data)}"
            return Ambiguous(
                [PossibleMatch(str(current.data.id), other)] if current and other else []
            )
        # "id | uuid | yes" and "start_at | date-time or null | yes | UTC": it has the new time.
        start = current.data.start_at
        if start == self.time.start and (self.type == HOME or self.time.start != self.seen):
            return Confirmed(current)
        if start == self.time.start:
            return Confirmed(current) if self._has_other_place(current) else NoTrace()
        if start == self.seen:
            return NoTrace()
        return Ambiguous(
            [
                PossibleMatch(
                    str(current.data.id),
                    f"The visit is at another time: {appointment_time_text(current.data)}",
                )
            ]
        )

    def _has_other_place(self, answer: Answer) -> bool:
        """Whether an appointment that keeps its time is no longer at its former place.

        No field shows that it is at the requested site. But only a reschedule changes its "address
        | USAddress | yes" and "location | LngLat | yes".
        """
        visit = answer.data
        address = visit.address or service_appointments.AppointmentAddress()
        spot = visit.location or areas.LngLat()
        now = _place_values(
            visit.provider_id or "", address.first_line, address.zip_code or "", spot.lng, spot.lat
        )
        return self.place_before is not None and now != self.place_before


def _place_values(
    provider_id: str, first_line: str, zip_code: str, lng: float | None, lat: float | None
) -> list[str]:
    """Return the place of an appointment as values, to compare it with a later state."""
    return [provider_id, first_line, zip_code, str(lng), str(lat)]


class CancelAppointment(_ActiveAppointmentCommand, kw_only=True):
    """Cancel an appointment; the order stays open."""

    kind: ClassVar[str] = "appointment.cancel"
    fields: ClassVar[dict[str, str]] = {
        "cancellation_reason_id": "reason",
        "cancellationReasonId": "reason",
        "notes": "notes",
        "note": "notes",
    }

    reason_id: UUID
    notes: str = ""
    rebook: bool = False
    """Whether the person wants to book another appointment once this one is canceled."""

    def title(self) -> str:
        return f"Cancel {VISIT_LABELS[self.type]}"

    def form_url(self) -> str:
        return reverse("orders:cancel-visit", args=[self.order_id])

    def done_url(self, remote_id: str) -> str:
        return reverse("orders:book", args=[self.order_id]) if self.rebook else ""

    def check(self) -> None:
        super().check()
        if appointment_rules.active_appointment(self.order_id) is None:
            return  # Someone else has canceled it; the service will say so.
        if words := appointment_rules.why_not_cancel(self.visit()):
            raise PreconditionFailed(words)

    def send(self, service: Service, sending: SendContext) -> Answer:
        calls = service.appointments
        cancel = calls.cancel_phlebotomy if self.type == HOME else calls.cancel_psc
        return cancel(self.order_id, self.reason_id, self.notes or None)

    def settle(self, service: Service, sending: SendContext) -> Settled:
        current = self.current(service)
        if current is None or current.data.id != self.appointment_id:
            return self._settle_ended_appointment(service, current)
        # "event_status | enum | yes": completed and cancelled are final (appointments.md 6).
        if current.data.event_status == "completed":
            return Disproved(gettext_noop("The visit took place and is completed."))
        return Confirmed(current) if current.data.event_status == "cancelled" else NoTrace()

    def _settle_ended_appointment(self, service: Service, current: Answer | None) -> Settled:
        """Settle for an appointment that is no longer active.

        It was canceled, unless the draw of the order is over. "The GET returns only the active one"
        (appointments.md 5).
        """
        order = service.orders.get(self.order_id).data
        steps = {service_orders.low_level(event.status) for event in order.events}
        if steps & appointment_rules.DRAWN_STATUSES:
            return Ambiguous(
                [
                    PossibleMatch(
                        str(self.appointment_id), gettext_noop("The sample has been collected.")
                    )
                ]
            )
        return Confirmed(current)
