"""Visits for a draw (appointments.md 1-8): ask for one, book, move, cancel.

No call of them but one knows an idempotency key. Booking and asking for a visit twice would be two
visits, so their lost answers are looked up and else left to a person; moving and cancelling do
nothing when done twice. One command about an order's visit may be open at a time.
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

from backoffice import sync
from backoffice.models import CommandRecord
from backoffice.outbox import (
    Ambiguous,
    Confirmed,
    Disproved,
    NoTrace,
    PossibleMatch,
    PreconditionFailed,
    ResendPolicy,
    SendContext,
)
from backoffice.service import Record, Service, errors
from backoffice.service import appointments as service_appointments
from backoffice.service import orders as service_orders
from backoffice.templatetags.ages import ago
from orders.commands.base import OfOrder
from orders.models import Appointment
from orders.scheduling import rules
from orders.scheduling.rules import CENTER, HOME, at
from orders.scheduling.slots import Place, Time, fresh
from orders.sync.appointments import APPOINTMENT_SUBJECTS
from orders.sync.orders import store_orders
from orders.visit_zones import visit_zone

Answer = Record[service_appointments.Appointment]
Settled = Confirmed | NoTrace | Disproved | Ambiguous

GONE: Final = "This time is no longer available. Choose another one; your notes are kept."
_SUBJECTS: Final = {
    HOME: next(one for one in APPOINTMENT_SUBJECTS if one.kind == "appointment-phlebotomy"),
    CENTER: next(one for one in APPOINTMENT_SUBJECTS if one.kind == "appointment-psc"),
}
_WHERE: Final = {HOME: "visit at home", CENTER: "appointment at a service centre"}


class _OfVisit(OfOrder, kw_only=True):
    """Something about the visit of one order."""

    known_visits: list[UUID] | None = None
    """Visits that the order had, or had had, right before the first sending."""

    @property
    def type(self) -> str:
        raise NotImplementedError

    def lock(self) -> str:
        return lock_of(self.order_id)

    def check(self) -> None:
        own = CommandRecord.objects.open().filter(lock=f"order:{self.order_id}")
        if own.filter(kind="order.cancel").exists():
            raise PreconditionFailed(
                "The order is being cancelled just now: wait until that is settled."
            )

    def current(self, service: Service) -> Answer | None:
        """The order's visit as the service has it now."""
        try:
            found: Answer = _SUBJECTS[self.type].fetch(service, str(self.order_id))
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
            self._keep(found, asked_at)

    def store(self, answer: Answer | None) -> str:
        """None: the service has no visit of the order any more."""
        self._keep(answer, datetime.now(UTC))
        # A look-up that was asked while this was sent may have brought the visit as it was before.
        kind = _SUBJECTS[self.type].kind
        sync.mark_all({"orders": [self.order_id], kind: [self.order_id]})
        return str(answer.data.id) if answer else ""

    def _keep(self, found: Answer | None, asked_at: datetime) -> None:
        subject = _SUBJECTS[self.type]
        if found is None:
            subject.absent([str(self.order_id)], asked_at)
        else:
            subject.store({str(self.order_id): found})

    def record_state_before(self) -> None:
        known = Appointment.objects.filter(order_id=self.order_id)
        self.known_visits = list(known.values_list("pk", flat=True))

    def made_since(
        self, service: Service, sending: SendContext, same: Callable[[Any], bool]
    ) -> Settled:
        """Whether the visit that stands now was made by a sending: it was not there before, and is
        as it was wished. "id | uuid | yes" tells it from any other (specification, Appointment)."""
        found = self.current(service)
        if found is None:
            return NoTrace()
        visit = found.data
        if visit.id not in self._known(sending) and same(visit):
            return Confirmed(found)
        words = f"The visit that stands now: {_when(visit)}"
        return Ambiguous([PossibleMatch(str(visit.id), words)])

    def _known(self, sending: SendContext) -> set[UUID]:
        if self.known_visits is not None:
            return set(self.known_visits)
        # Restored, or from an older release: what the mirror has had since before it was sent.
        since = sending.first_sent_at or sending.requested_at
        rows = Appointment.objects.filter(order_id=self.order_id, as_of__lt=since)
        return set(rows.values_list("pk", flat=True))


def lock_of(order_id: UUID) -> str:
    return f"appointment:{order_id}"


class _Booking(_OfVisit, kw_only=True):
    """A visit at a time that was offered."""

    time: Time
    notes: str = ""
    fields: ClassVar[dict[str, str]] = {"booking_key": "slot", "appointment_notes": "notes"}

    def form(self) -> str:
        return reverse("orders:book", args=[self.order_id])

    def place(self) -> Place:
        raise NotImplementedError

    def check(self) -> None:
        super().check()
        words = rules.why_not_book(self.order())
        if words:
            raise PreconditionFailed(words)

    def refresh(self, service: Service) -> None:
        super().refresh(service)
        self.time = renewed(service, self.place(), self.time)


def renewed(service: Service, place: Place, time: Time) -> Time:
    """The time with a key that is good now."""
    if not time.expired:
        return time
    found = fresh(service, place, time)
    if found is None:
        raise PreconditionFailed(GONE, field="slot")
    return found


class BookVisit(_Booking, kw_only=True):
    """Book a visit at home."""

    kind: ClassVar[str] = "appointment.book"

    address: service_appointments.VisitAddress

    @property
    def type(self) -> str:
        return HOME

    def place(self) -> Place:
        return Place(address=self.address)

    def title(self) -> str:
        return f"Book a visit at home: {at(self.time.start, self.time.visit_zone)}"

    def send(self, service: Service, sending: SendContext) -> Answer:
        calls = service.appointments
        return calls.book_phlebotomy(self.order_id, self.time.key, self.notes or None)

    def settle(self, service: Service, sending: SendContext) -> Settled:
        # "start_at | date-time or null | yes | UTC." The provider is chosen by the service
        # (appointments.md 4), and `address` may be written otherwise than it was sent.
        return self.made_since(service, sending, lambda visit: visit.start_at == self.time.start)


class BookCenter(_Booking, kw_only=True):
    """Book an appointment at a service center."""

    kind: ClassVar[str] = "appointment.book_center"

    lab: str
    site: str
    """Name of the center, for people."""

    @property
    def again(self) -> ResendPolicy:  # type: ignore[override]
        """The key of these bookings is a beta of the service: only where the team has it."""
        return ResendPolicy.SAME_KEY if settings.PSC_IDEMPOTENCY else ResendPolicy.NEVER

    @property
    def type(self) -> str:
        return CENTER

    def place(self) -> Place:
        return Place(lab=self.lab, sites=(self.time.site,))

    def title(self) -> str:
        return f"Book {self.site[:80]}: {at(self.time.start, self.time.visit_zone)}"

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
        # "start_at | date-time or null | yes | UTC." No field of the record is the site's code:
        # "provider_id | string | yes" is the provider's own.
        return self.made_since(service, sending, lambda visit: visit.start_at == self.time.start)


class RequestVisit(_OfVisit, kw_only=True):
    """Ask a phlebotomist to call the patient and agree a time."""

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

    def form(self) -> str:
        return reverse("orders:book", args=[self.order_id])

    def check(self) -> None:
        super().check()
        order = self.order()
        words = rules.why_not_book(order)
        if words:
            raise PreconditionFailed(words)
        if rules.other_visit(order, [self.provider]):
            raise PreconditionFailed(
                "The patient has a visit with this provider already, for another order."
            )

    def send(self, service: Service, sending: SendContext) -> Answer:
        calls = service.appointments
        return calls.request_phlebotomy(
            self.order_id, self.address, self.provider, self.notes or None
        )

    def settle(self, service: Service, sending: SendContext) -> Settled:
        # "provider | enum | yes": the slug that the request names. It "starts pending without start
        # or end time" (appointments.md 3), and `address` may be written otherwise.
        return self.made_since(service, sending, lambda visit: visit.provider == self.provider)


class _OfStandingVisit(_OfVisit, kw_only=True):
    """A change of a visit that a person saw."""

    again: ClassVar[ResendPolicy] = ResendPolicy.SAME_EFFECT

    visit_type: str
    appointment_id: UUID
    seen: datetime | None
    """Its start, as the person saw it."""

    @property
    def type(self) -> str:
        return self.visit_type

    def visit(self, *also: datetime) -> Appointment:
        """The visit, if it is as it was seen (or at one of the times `also`)."""
        found = rules.standing_visit(self.order_id)
        if found is None:
            raise PreconditionFailed(
                "There is no visit any more: it has ended or was cancelled meanwhile."
            )
        if found.pk != self.appointment_id or found.start_at not in (self.seen, *also):
            now = at(found.start_at, found.visit_zone)
            raise PreconditionFailed(
                f"The appointment has changed meanwhile: it is now {now}.{self._changed_by()}"
            )
        return found

    def _changed_by(self) -> str:
        """Who of us asked for what stands now; nothing when it was none of us."""
        rows = CommandRecord.objects.about(*self.subject()).filter(
            kind__startswith="appointment.", state=CommandRecord.State.DONE
        )
        row = rows.order_by("-finished_at").first()
        if row is None or row.finished_at is None:
            return ""
        who = row.requested_by.get_full_name()
        return f" {who} asked for that {ago(row.finished_at, timezone.now())}."


class MoveVisit(_OfStandingVisit, kw_only=True):
    """Give a visit another time; the old one stands until the service confirms."""

    kind: ClassVar[str] = "appointment.move"
    fields: ClassVar[dict[str, str]] = {"booking_key": "slot", "appointment_notes": "notes"}

    time: Time
    where: Place
    zone: str = ""
    """Of the time that was seen."""
    place_before: list[str] | None = None
    """Where the visit was right before the first sending: see `_place`."""
    notes: str = ""

    def difference(self) -> tuple[dict[str, Any], dict[str, Any]]:
        return {"start": self.seen}, {"start": self.time.start}

    def title(self) -> str:
        return f"Move the {_WHERE[self.type]} to {at(self.time.start, self.time.visit_zone)}"

    def form(self) -> str:
        return reverse("orders:move", args=[self.order_id])

    def check(self) -> None:
        super().check()
        order = self.order()
        visit = self.visit(self.time.start)
        words = rules.why_not_move(order, visit)
        if words:
            raise PreconditionFailed(words)
        if self._is_at(visit):
            raise PreconditionFailed("The appointment is at this time already.", field="slot")

    def _is_at(self, visit: Appointment) -> bool:
        """Whether it is at the wished time and place already. Two centers have the same times, and
        no field of a visit is promised to be the site's code: only at home the time is enough."""
        return visit.start_at == self.time.start and (
            self.type == HOME or visit.provider_id == self.time.site
        )

    def record_state_before(self) -> None:
        super().record_state_before()
        visit = self.visit(self.time.start)
        self.place_before = _place(
            visit.provider_id, visit.first_line, visit.zip_code, visit.lng, visit.lat
        )

    def refresh(self, service: Service) -> None:
        super().refresh(service)
        self.check()
        self.time = renewed(service, self.where, self.time)

    def send(self, service: Service, sending: SendContext) -> Answer:
        calls = service.appointments
        move = calls.reschedule_phlebotomy if self.type == HOME else calls.reschedule_psc
        return move(self.order_id, self.time.key, self.notes)

    def settle(self, service: Service, sending: SendContext) -> Settled:
        found = self.current(service)
        if found is None or found.data.id != self.appointment_id:
            # "The GET returns only the active one" (appointments.md 5): ours is not any more.
            stands = found and f"Another visit stands now: {_when(found.data)}"
            return Ambiguous(
                [PossibleMatch(str(found.data.id), stands)] if found and stands else []
            )
        # "id | uuid | yes" and "start_at | date-time or null | yes | UTC": the same visit, at the
        # wished time.
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
                    str(found.data.id), f"The visit is at another time: {_when(found.data)}"
                )
            ]
        )

    def _has_other_place(self, found: Answer) -> bool:
        """Whether a visit whose time was to stay is no longer where it was: nothing says that it
        is at the wished site, but only a move changes its "address | USAddress | yes" and
        "location | LngLat | yes"."""
        visit = found.data
        address = visit.address or service_appointments.AppointmentAddress()
        spot = visit.location or service_appointments.LngLat()
        now = _place(
            visit.provider_id or "", address.first_line, address.zip_code or "", spot.lng, spot.lat
        )
        return self.place_before is not None and now != self.place_before


def _place(
    provider_id: str, first_line: str, zip_code: str, lng: float | None, lat: float | None
) -> list[str]:
    """Where a visit is, to be compared with where it is later."""
    return [provider_id, first_line, zip_code, str(lng), str(lat)]


def _when(visit: service_appointments.Appointment) -> str:
    """The time of a visit as the service sent it."""
    state = visit.address.state if visit.address else ""
    return at(visit.start_at, visit_zone(visit.iana_timezone, state))


class CancelVisit(_OfStandingVisit, kw_only=True):
    """Cancel a visit; the order stands."""

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
    """Whoever asked wants to book anew once it is cancelled."""

    def title(self) -> str:
        return f"Cancel the {_WHERE[self.type]}"

    def form(self) -> str:
        return reverse("orders:cancel-visit", args=[self.order_id])

    def done(self, remote_id: str) -> str:
        return reverse("orders:book", args=[self.order_id]) if self.rebook else ""

    def check(self) -> None:
        super().check()
        if rules.standing_visit(self.order_id) is None:
            return  # Somebody was faster: what was wanted is so, and the service will say it.
        words = rules.why_not_cancel(self.visit())
        if words:
            raise PreconditionFailed(words)

    def send(self, service: Service, sending: SendContext) -> Answer:
        calls = service.appointments
        cancel = calls.cancel_phlebotomy if self.type == HOME else calls.cancel_psc
        return cancel(self.order_id, self.reason_id, self.notes or None)

    def settle(self, service: Service, sending: SendContext) -> Settled:
        found = self.current(service)
        if found is None or found.data.id != self.appointment_id:
            return self._ended(service, found)
        # "event_status | enum | yes": completed and cancelled are final (appointments.md 6).
        if found.data.event_status == "completed":
            return Disproved("The visit took place: it is completed.")
        return Confirmed(found) if found.data.event_status == "cancelled" else NoTrace()

    def _ended(self, service: Service, found: Answer | None) -> Settled:
        """ "The GET returns only the active one" (appointments.md 5): the visit ended, so it was
        canceled, unless the order is past its draw."""
        order = service.orders.get(self.order_id).data
        steps = {service_orders.low_level(event.status) for event in order.events}
        if steps & rules.DRAWN:
            return Ambiguous(
                [PossibleMatch(str(self.appointment_id), "The order is past its draw.")]
            )
        return Confirmed(found)
