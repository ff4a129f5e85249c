"""Commands about appointments (appointments.md 1-8): request, book, reschedule, cancel.

Only one of these calls takes an idempotency key. A booking or a request that is sent twice would
make two appointments. So if the answer is lost, the outcome is looked up, and if that is not
enough, a person decides. A reschedule or a cancellation that is sent twice changes nothing. At most
one command about the appointment of an order is open at a time.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, ClassVar, Final
from uuid import UUID

from django.conf import settings
from django.db import transaction
from django.urls import reverse
from django.utils import timezone

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
from backoffice.service import Record, Service, errors
from backoffice.service import appointments as service_appointments
from backoffice.service import orders as service_orders
from backoffice.sync.lookups import schedule_lookups_by_kind
from orders.commands.base import OrderCommand
from orders.models import Appointment
from orders.rules import appointment_rules
from orders.rules.appointment_rules import CENTER, HOME, format_visit_time
from orders.rules.slots import OfferedTime, VisitPlace, find_again
from orders.sync.appointments import APPOINTMENT_LOOKUPS
from orders.sync.orders import store_orders
from orders.visit_zones import visit_zone

Answer = Record[service_appointments.AppointmentPayload]
Settled = Confirmed | NoTrace | Disproved | Ambiguous

TIME_TAKEN: Final = "This time is no longer available. Choose another one; your notes are kept."
_LOOKUP_TYPES: Final = {
    HOME: next(one for one in APPOINTMENT_LOOKUPS if one.kind == "appointment-phlebotomy"),
    CENTER: next(one for one in APPOINTMENT_LOOKUPS if one.kind == "appointment-psc"),
}
_VISIT_LABELS: Final = {HOME: "visit at home", CENTER: "appointment at a service centre"}


class _VisitCommand(OrderCommand, kw_only=True):
    """A command about the appointment of one order."""

    known_visits: list[UUID] | None = None
    """Appointments that the order had right before the first attempt, past ones included."""

    @property
    def type(self) -> str:
        raise NotImplementedError

    def lock_key(self) -> str:
        return visit_lock(self.order_id)

    def check(self) -> None:
        own = CommandRecord.objects.open().filter(lock=f"order:{self.order_id}")
        if own.filter(kind="order.cancel").exists():
            raise PreconditionFailed(
                "The order is being cancelled just now: wait until that is settled."
            )

    def current(self, service: Service) -> Answer | None:
        """Return the active appointment of the order from the service."""
        try:
            found: Answer = _LOOKUP_TYPES[self.type].fetch(service, str(self.order_id))
        except errors.Missing:
            return None
        return found

    def refresh(self, service: Service) -> None:
        try:
            order = service.orders.get(self.order_id)
        except errors.Missing:
            raise PreconditionFailed("The service no longer has this order.") from None
        asked_at = datetime.now(UTC)
        found = self.current(service)
        with transaction.atomic():
            store_orders([order])
            self._store_visit(found, asked_at)

    def store(self, answer: Answer | None) -> str:
        """Store the answer. None: the order has no appointment at the service any more."""
        self._store_visit(answer, datetime.now(UTC))
        # A lookup that ran during this call may have stored the earlier state of the appointment.
        kind = _LOOKUP_TYPES[self.type].kind
        schedule_lookups_by_kind({"orders": [self.order_id], kind: [self.order_id]})
        return str(answer.data.id) if answer else ""

    def _store_visit(self, found: Answer | None, asked_at: datetime) -> None:
        subject = _LOOKUP_TYPES[self.type]
        if found is None:
            subject.on_missing([str(self.order_id)], asked_at)
        else:
            subject.store({str(self.order_id): found})

    def record_state_before(self) -> None:
        known = Appointment.objects.filter(order_id=self.order_id)
        self.known_visits = list(known.values_list("pk", flat=True))

    def find_visit(
        self, service: Service, sending: SendContext, same: Callable[[Any], bool]
    ) -> Settled:
        """Find out whether an attempt made the active appointment.

        It did if the appointment is new and `same` returns true. "id | uuid | yes" identifies it
        (specification, Appointment).
        """
        found = self.current(service)
        if found is None:
            return NoTrace()
        visit = found.data
        if visit.id not in self._known_visit_ids(sending) and same(visit):
            return Confirmed(found)
        words = f"The visit that stands now: {_visit_time(visit)}"
        return Ambiguous([PossibleMatch(str(visit.id), words)])

    def _known_visit_ids(self, sending: SendContext) -> set[UUID]:
        if self.known_visits is not None:
            return set(self.known_visits)
        # A restored command, or one of an earlier release, has no `known_visits`. The mirror has
        # the appointments that were known before the command was sent.
        since = sending.first_sent_at or sending.requested_at
        rows = Appointment.objects.filter(order_id=self.order_id, as_of__lt=since)
        return set(rows.values_list("pk", flat=True))


def visit_lock(order_id: UUID) -> str:
    return f"appointment:{order_id}"


class _BookingCommand(_VisitCommand, kw_only=True):
    """A command that books an offered time."""

    time: OfferedTime
    notes: str = ""
    fields: ClassVar[dict[str, str]] = {"booking_key": "slot", "appointment_notes": "notes"}

    def form_url(self) -> str:
        return reverse("orders:book", args=[self.order_id])

    def place(self) -> VisitPlace:
        raise NotImplementedError

    def check(self) -> None:
        super().check()
        if words := appointment_rules.why_not_book(self.order()):
            raise PreconditionFailed(words)

    def refresh(self, service: Service) -> None:
        super().refresh(service)
        self.time = with_valid_key(service, self.place(), self.time)


def with_valid_key(service: Service, place: VisitPlace, time: OfferedTime) -> OfferedTime:
    """Return the time with a currently valid booking key. Raises PreconditionFailed."""
    if not time.expired:
        return time
    found = find_again(service, place, time)
    if found is None:
        raise PreconditionFailed(TIME_TAKEN, field="slot")
    return found


class BookVisit(_BookingCommand, kw_only=True):
    """Book a draw at home."""

    kind: ClassVar[str] = "appointment.book"

    address: service_appointments.VisitAddress

    @property
    def type(self) -> str:
        return HOME

    def place(self) -> VisitPlace:
        return VisitPlace(address=self.address)

    def title(self) -> str:
        return f"Book a visit at home: {format_visit_time(self.time.start, self.time.visit_zone)}"

    def send(self, service: Service, sending: SendContext) -> Answer:
        calls = service.appointments
        return calls.book_phlebotomy(self.order_id, self.time.key, self.notes or None)

    def settle(self, service: Service, sending: SendContext) -> Settled:
        # "start_at | date-time or null | yes | UTC." The service chooses the provider
        # (appointments.md 4), and may write `address` in another way than it was sent.
        return self.find_visit(service, sending, lambda visit: visit.start_at == self.time.start)


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

    def place(self) -> VisitPlace:
        return VisitPlace(lab=self.lab, sites=(self.time.site,))

    def title(self) -> str:
        return f"Book {self.site[:80]}: {format_visit_time(self.time.start, self.time.visit_zone)}"

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
        return self.find_visit(service, sending, lambda visit: visit.start_at == self.time.start)


class RequestVisit(_VisitCommand, kw_only=True):
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
        return f"Ask {self.provider[:80]} for a visit at home"

    def form_url(self) -> str:
        return reverse("orders:book", args=[self.order_id])

    def check(self) -> None:
        super().check()
        order = self.order()
        if words := appointment_rules.why_not_book(order):
            raise PreconditionFailed(words)
        if appointment_rules.conflicting_visit(order, [self.provider]):
            raise PreconditionFailed(
                "The patient has a visit with this provider already, for another order."
            )

    def send(self, service: Service, sending: SendContext) -> Answer:
        calls = service.appointments
        return calls.request_phlebotomy(
            self.order_id, self.address, self.provider, self.notes or None
        )

    def settle(self, service: Service, sending: SendContext) -> Settled:
        # "provider | enum | yes": the slug in the request. The appointment "starts pending without
        # start or end time" (appointments.md 3), and `address` may be written in another way.
        return self.find_visit(service, sending, lambda visit: visit.provider == self.provider)


class _ActiveVisitCommand(_VisitCommand, kw_only=True):
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
        found = appointment_rules.active_visit(self.order_id)
        if found is None:
            raise PreconditionFailed(
                "There is no visit any more: it has ended or was cancelled meanwhile."
            )
        if found.pk != self.appointment_id or found.start_at not in (self.seen, *also):
            now = format_visit_time(found.start_at, found.visit_zone)
            raise PreconditionFailed(
                f"The appointment has changed meanwhile: it is now {now}.{self._last_change_note()}"
            )
        return found

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
        who = row.requested_by.get_full_name()
        return f" {who} asked for that {ago(row.finished_at, timezone.now())}."


class MoveVisit(_ActiveVisitCommand, kw_only=True):
    """Reschedule an appointment. The old time is valid until the service confirms the new one."""

    kind: ClassVar[str] = "appointment.move"
    fields: ClassVar[dict[str, str]] = {"booking_key": "slot", "appointment_notes": "notes"}

    time: OfferedTime
    where: VisitPlace
    zone: str = ""
    """Time zone of the time that the person saw."""
    place_before: list[str] | None = None
    """The place of the appointment right before the first attempt: see `_place_values`."""
    notes: str = ""

    def difference(self) -> tuple[dict[str, Any], dict[str, Any]]:
        return {"start": self.seen}, {"start": self.time.start}

    def title(self) -> str:
        when = format_visit_time(self.time.start, self.time.visit_zone)
        return f"Move the {_VISIT_LABELS[self.type]} to {when}"

    def form_url(self) -> str:
        return reverse("orders:move", args=[self.order_id])

    def check(self) -> None:
        super().check()
        order = self.order()
        visit = self.visit(self.time.start)
        if words := appointment_rules.why_not_move(order, visit):
            raise PreconditionFailed(words)
        if self._is_at_new_time(visit):
            raise PreconditionFailed("The appointment is at this time already.", field="slot")

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
        found = self.current(service)
        if found is None or found.data.id != self.appointment_id:
            # "The GET returns only the active one" (appointments.md 5): our appointment has ended.
            other = found and f"Another visit stands now: {_visit_time(found.data)}"
            return Ambiguous([PossibleMatch(str(found.data.id), other)] if found and other else [])
        # "id | uuid | yes" and "start_at | date-time or null | yes | UTC": it has the new time.
        start = found.data.start_at
        if start == self.time.start and (self.type == HOME or self.time.start != self.seen):
            return Confirmed(found)
        if start == self.time.start:
            return Confirmed(found) if self._has_other_place(found) else NoTrace()
        if start == self.seen:
            return NoTrace()
        return Ambiguous(
            [
                PossibleMatch(
                    str(found.data.id), f"The visit is at another time: {_visit_time(found.data)}"
                )
            ]
        )

    def _has_other_place(self, found: Answer) -> bool:
        """Whether an appointment that keeps its time is no longer at its former place.

        No field shows that it is at the requested site. But only a reschedule changes its "address
        | USAddress | yes" and "location | LngLat | yes".
        """
        visit = found.data
        address = visit.address or service_appointments.AppointmentAddress()
        spot = visit.location or service_appointments.LngLat()
        now = _place_values(
            visit.provider_id or "", address.first_line, address.zip_code or "", spot.lng, spot.lat
        )
        return self.place_before is not None and now != self.place_before


def _place_values(
    provider_id: str, first_line: str, zip_code: str, lng: float | None, lat: float | None
) -> list[str]:
    """Return the place of an appointment as values, to compare it with a later state."""
    return [provider_id, first_line, zip_code, str(lng), str(lat)]


def _visit_time(visit: service_appointments.AppointmentPayload) -> str:
    """Return the time of an appointment as the service sent it, as text for staff."""
    state = visit.address.state if visit.address else ""
    return format_visit_time(visit.start_at, visit_zone(visit.iana_timezone, state))


class CancelVisit(_ActiveVisitCommand, kw_only=True):
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
        return f"Cancel the {_VISIT_LABELS[self.type]}"

    def form_url(self) -> str:
        return reverse("orders:cancel-visit", args=[self.order_id])

    def done_url(self, remote_id: str) -> str:
        return reverse("orders:book", args=[self.order_id]) if self.rebook else ""

    def check(self) -> None:
        super().check()
        if appointment_rules.active_visit(self.order_id) is None:
            return  # Somebody else has canceled it; the service will say so.
        if words := appointment_rules.why_not_cancel(self.visit()):
            raise PreconditionFailed(words)

    def send(self, service: Service, sending: SendContext) -> Answer:
        calls = service.appointments
        cancel = calls.cancel_phlebotomy if self.type == HOME else calls.cancel_psc
        return cancel(self.order_id, self.reason_id, self.notes or None)

    def settle(self, service: Service, sending: SendContext) -> Settled:
        found = self.current(service)
        if found is None or found.data.id != self.appointment_id:
            return self._settle_ended_visit(service, found)
        # "event_status | enum | yes": completed and cancelled are final (appointments.md 6).
        if found.data.event_status == "completed":
            return Disproved("The visit took place: it is completed.")
        return Confirmed(found) if found.data.event_status == "cancelled" else NoTrace()

    def _settle_ended_visit(self, service: Service, found: Answer | None) -> Settled:
        """Settle for an appointment that is no longer active.

        It was canceled, unless the draw of the order is over. "The GET returns only the active one"
        (appointments.md 5).
        """
        order = service.orders.get(self.order_id).data
        steps = {service_orders.low_level(event.status) for event in order.events}
        if steps & appointment_rules.DRAWN_STATUSES:
            return Ambiguous(
                [PossibleMatch(str(self.appointment_id), "The order is past its draw.")]
            )
        return Confirmed(found)
