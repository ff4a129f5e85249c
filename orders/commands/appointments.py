"""Commands about appointments (appointments.md 1-8): request and book.

`appointment_changes.py` has those that reschedule and cancel.

Only one of these calls takes an idempotency key. A booking or a request that is sent twice would
make two appointments. So if the answer is lost, the outcome is looked up, and if that is not
enough, a person decides. A reschedule or a cancellation that is sent twice changes nothing. At most
one command about the appointment of an order is open at a time.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import ClassVar, Final
from uuid import UUID

from django.conf import settings
from django.db import transaction
from django.urls import reverse
from django.utils.translation import gettext, gettext_noop

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
from backoffice.service import Record, Service, errors
from backoffice.service import appointments as service_appointments
from backoffice.sync.lookups import schedule_lookups_by_kind
from orders.appointment_zones import visit_zone
from orders.commands.base import OrderCommand
from orders.models import Appointment
from orders.rules import appointment_rules
from orders.rules.appointment_rules import CENTER, HOME, format_appointment_time
from orders.rules.slots import AppointmentPlace, OfferedTime, find_again
from orders.sync.appointments import APPOINTMENT_LOOKUPS
from orders.sync.orders import store_orders

Answer = Record[service_appointments.AppointmentPayload]
Settled = Confirmed | NoTrace | Disproved | Ambiguous

TIME_TAKEN: Final = gettext_noop(
    "This time is no longer available. Choose another. Your notes are saved."
)
_LOOKUP_TYPES: Final = {
    HOME: next(lookup for lookup in APPOINTMENT_LOOKUPS if lookup.kind == "appointment-phlebotomy"),
    CENTER: next(lookup for lookup in APPOINTMENT_LOOKUPS if lookup.kind == "appointment-psc"),
}
VISIT_LABELS: Final = {HOME: "home visit", CENTER: "service center appointment"}


class AppointmentCommand(OrderCommand, kw_only=True):
    """A command about the appointment of one order."""

    known_visits: list[UUID] | None = None
    """Appointments that the order had right before the first attempt, past ones included."""

    @property
    def type(self) -> str:
        raise NotImplementedError

    def lock_key(self) -> str:
        return appointment_lock(self.order_id)

    def check(self) -> None:
        open_commands = CommandRecord.objects.open().filter(lock=f"order:{self.order_id}")
        if open_commands.filter(kind="order.cancel").exists():
            raise PreconditionFailed(
                gettext("The order is being canceled. Wait until that is done.")
            )

    def current(self, service: Service) -> Answer | None:
        """Return the active appointment of the order from the service."""
        try:
            answer: Answer = _LOOKUP_TYPES[self.type].fetch(service, str(self.order_id))
        except errors.Missing:
            return None
        return answer

    def refresh(self, service: Service) -> None:
        try:
            order = service.orders.get(self.order_id)
        except errors.Missing:
            raise PreconditionFailed(gettext("The lab service no longer has this order.")) from None
        asked_at = datetime.now(UTC)
        current = self.current(service)
        with transaction.atomic():
            store_orders([order])
            self._store_appointment(current, asked_at)

    def store(self, answer: Answer | None) -> str:
        """Store the answer. None: the order has no appointment at the service any more."""
        self._store_appointment(answer, datetime.now(UTC))
        # A lookup that ran during this call may have stored the earlier state of the appointment.
        kind = _LOOKUP_TYPES[self.type].kind
        schedule_lookups_by_kind({"orders": [self.order_id], kind: [self.order_id]})
        return str(answer.data.id) if answer else ""

    def _store_appointment(self, answer: Answer | None, asked_at: datetime) -> None:
        subject = _LOOKUP_TYPES[self.type]
        if answer is None:
            subject.on_missing([str(self.order_id)], asked_at)
        else:
            subject.store({str(self.order_id): answer})

    def record_state_before(self) -> None:
        visits = Appointment.objects.filter(order_id=self.order_id)
        self.known_visits = list(visits.values_list("pk", flat=True))

    def find_appointment(
        self,
        service: Service,
        sending: SendContext,
        same: Callable[[service_appointments.AppointmentPayload], bool],
    ) -> Settled:
        """Find out whether an attempt made the active appointment.

        It did if the appointment is new and `same` returns true. "id | uuid | yes" identifies it
        (specification, Appointment).
        """
        current = self.current(service)
        if current is None:
            return NoTrace()
        visit = current.data
        if visit.id not in self._earlier_appointment_ids(sending) and same(visit):
            return Confirmed(current)
        words = f"Booked visit: {appointment_time_text(visit)}"
        return Ambiguous([PossibleMatch(str(visit.id), words)])

    def _earlier_appointment_ids(self, sending: SendContext) -> set[UUID]:
        if self.known_visits is not None:
            return set(self.known_visits)
        # A restored command, or one of an earlier release, has no `known_visits`. The mirror has
        # the appointments that were known before the command was sent.
        since = sending.first_sent_at or sending.requested_at
        rows = Appointment.objects.filter(order_id=self.order_id, as_of__lt=since)
        return set(rows.values_list("pk", flat=True))


def appointment_lock(order_id: UUID) -> str:
    return f"appointment:{order_id}"


class _BookingCommand(AppointmentCommand, kw_only=True):
    """A command that books an offered time."""

    time: OfferedTime
    notes: str = ""
    fields: ClassVar[dict[str, str]] = {"booking_key": "slot", "appointment_notes": "notes"}

    def form_url(self) -> str:
        return reverse("orders:book", args=[self.order_id])

    def place(self) -> AppointmentPlace:
        raise NotImplementedError

    def check(self) -> None:
        super().check()
        if words := appointment_rules.why_not_book(self.order()):
            raise PreconditionFailed(words)

    def refresh(self, service: Service) -> None:
        super().refresh(service)
        self.time = with_valid_key(service, self.place(), self.time)


def with_valid_key(service: Service, place: AppointmentPlace, time: OfferedTime) -> OfferedTime:
    """Return the time with a currently valid booking key. Raises PreconditionFailed."""
    if not time.expired:
        return time
    valid_time = find_again(service, place, time)
    if valid_time is None:
        raise PreconditionFailed(gettext(TIME_TAKEN), field="slot")
    return valid_time


class BookHomeAppointment(_BookingCommand, kw_only=True):
    """Book a draw at home."""

    kind: ClassVar[str] = "appointment.book"

    address: service_appointments.VisitAddress

    @property
    def type(self) -> str:
        return HOME

    def place(self) -> AppointmentPlace:
        return AppointmentPlace(address=self.address)

    def title(self) -> str:
        start = format_appointment_time(self.time.start, self.time.visit_zone)
        return f"Book home visit: {start}"

    def send(self, service: Service, sending: SendContext) -> Answer:
        calls = service.appointments
        return calls.book_phlebotomy(self.order_id, self.time.key, self.notes or None)

    def settle(self, service: Service, sending: SendContext) -> Settled:
        # "start_at | date-time or null | yes | UTC." The service chooses the provider
        # (appointments.md 4), and may write `address` in another way than it was sent.
        return self.find_appointment(
            service, sending, lambda visit: visit.start_at == self.time.start
        )


class BookCenter(_BookingCommand, kw_only=True):
    """Book an appointment at a service center."""

    kind: ClassVar[str] = "appointment.book_center"

    lab: str
    site: str
    """Name of the center, to show to staff."""

    @property
    def resend_policy(self) -> ResendPolicy:  # type: ignore[override]
        """Repeat with the same key only if the team has the service's beta with keys."""
        return ResendPolicy.SAME_KEY if settings.PSC_IDEMPOTENCY else ResendPolicy.NEVER

    @property
    def type(self) -> str:
        return CENTER

    def place(self) -> AppointmentPlace:
        return AppointmentPlace(lab=self.lab, sites=(self.time.site,))

    def title(self) -> str:
        start = format_appointment_time(self.time.start, self.time.visit_zone)
        return f"Book {self.site[:80]}: {start}"

    def send(self, service: Service, sending: SendContext) -> Answer:
        key = str(sending.idempotency_key) if settings.PSC_IDEMPOTENCY else None
        return service.appointments.book_psc(
            self.order_id,
            self.time.key,
            self.notes or None,
            idempotency_key=key,
            no_cache=key is not None,
        )

    def settle(self, service: Service, sending: SendContext) -> Settled:
        # "start_at | date-time or null | yes | UTC." No field of the record has the site's code:
        # "provider_id | string | yes" is the provider's own.
        return self.find_appointment(
            service, sending, lambda visit: visit.start_at == self.time.start
        )


class RequestAppointment(AppointmentCommand, kw_only=True):
    """Ask a phlebotomist to call the patient and agree on a time."""

    kind: ClassVar[str] = "appointment.request"
    fields: ClassVar[dict[str, str]] = {
        "appointment_notes": "notes",
        "provider": "provider",
        **{
            f"address.{name}": name
            for name in ("first_line", "second_line", "city", "state", "zip_code", "access_notes")
        },
    }

    provider: str
    address: service_appointments.VisitAddress
    notes: str = ""

    @property
    def type(self) -> str:
        return HOME

    def title(self) -> str:
        return f"Request home visit from {self.provider[:80]}"

    def form_url(self) -> str:
        return reverse("orders:book", args=[self.order_id])

    def check(self) -> None:
        super().check()
        order = self.order()
        if words := appointment_rules.why_not_book(order):
            raise PreconditionFailed(words)
        if appointment_rules.conflicting_appointment(order, [self.provider]):
            raise PreconditionFailed(
                gettext("The patient already has a visit with this provider for another order.")
            )

    def send(self, service: Service, sending: SendContext) -> Answer:
        calls = service.appointments
        return calls.request_phlebotomy(
            self.order_id, self.address, self.provider, self.notes or None
        )

    def settle(self, service: Service, sending: SendContext) -> Settled:
        # "provider | enum | yes": the slug in the request. The appointment "starts pending without
        # start or end time" (appointments.md 3), and `address` may be written in another way.
        return self.find_appointment(
            service, sending, lambda visit: visit.provider == self.provider
        )


def appointment_time_text(visit: service_appointments.AppointmentPayload) -> str:
    """Return the time of an appointment as the service sent it, as text for staff."""
    state = visit.address.state if visit.address else ""
    return format_appointment_time(visit.start_at, visit_zone(visit.iana_timezone, state))
