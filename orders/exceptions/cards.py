"""What stands on a call card: whom to call and about which address, what to say, what to do first,
and when the order comes back.

What is said and how it may end follow from how the sample is collected: only a kit can be sent
again. Where nobody is known to be called nothing is said, and no call can have ended.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from django.urls import reverse
from django.utils import timezone

from backoffice.core import vocabulary
from backoffice.core.access import may
from backoffice.models import Contact
from backoffice.templatetags.ages import spoken
from orders.exceptions.queue import MOVED, QUIET, STUCK, UNKNOWN
from orders.local_time import Place, here, place_of
from orders.models import Appointment, Order
from orders.scheduling.rules import HOME
from orders.views.changes import actions_of

_HELLO: Final = "Hello, this is the clinic. May I ask your name and date of birth?"
_UNUSABLE: Final = "The lab could not use your sample. That happens."
_KIT: Final = "testkit"
SCRIPTS: Final[dict[str, str]] = {
    "lost": "The sample cannot be tested, and we are sorry. We need a new one: which day suits "
    "you?",
    "sample_error": f"{_UNUSABLE} We need a new one: which day suits you?",
    "date_of_collection_unspecified": "The lab needs the day and the time you took the sample. "
    "Do you remember both?",
    STUCK: "The lab needs something from you before it can go on. May I check your name, your date "
    "of birth and your address with you?",
    "delivery": "The parcel is held up. Is this address still right? If it does not move by "
    "tomorrow, we send a new one.",
    "appointment_scheduled": "You had an appointment for your sample, and we have not heard of it "
    "since. Did it take place?",
    "draw": "We need a new appointment for your draw. Which days suit you, mornings or afternoons?",
    "patient": "We are waiting for your sample. Is there anything we can help you with?",
    QUIET: "We are looking into where your test is, and will call you as soon as we know more.",
    MOVED: "We are checking our records. Have you given a sample for a test lately? On which day, "
    "and where?",
    UNKNOWN: "We are looking into your test, and will call you as soon as we know more.",
}
"""By the reason given, the status, or the group."""
_TO_THE_LAB: Final = (
    "The parcel with your sample has not reached the lab. When did you send it, and where did you "
    "hand it in? If it does not turn up, we send you a new kit."
)
SCRIPTS_OF: Final[dict[str, dict[str, str]]] = {
    _KIT: {
        "lost": "The sample cannot be tested, and we are sorry. We would like to send you a new "
        "kit or book a new draw: which address, which day suits you?",
        "sample_error": f"{_UNUSABLE} May we send you a new kit, or book a new draw?",
        "problem_in_transit_lab": _TO_THE_LAB,
        "failure_to_deliver_to_lab": _TO_THE_LAB,
        "patient": "We are waiting for your sample. Did everything arrive? Is there anything we "
        "can help you with?",
    },
    "walk_in_test": {
        "sample_error": f"{_UNUSABLE} When could you come to a centre for a new one?",
        "patient": "Your test is ready: you can walk in at a centre. Is there anything we can help "
        "you with?",
    },
    "at_home_phlebotomy": {
        "sample_error": f"{_UNUSABLE} May somebody come for a new one? Which days suit you, "
        "mornings or afternoons?",
    },
    "on_site_collection": {
        "sample_error": f"{_UNUSABLE} When could you come to us for a new one?",
    },
}
"""What is said otherwise, by how the sample is collected."""

HANDLED: Final = "handled"
SNOOZED: Final = Contact.Outcome.SNOOZED.value


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a call ended: its key, its words, and when the order comes back if nothing happens.
    `kits`: it is about sending a kit again, whoever asked for it."""

    value: str
    key: str
    label: str
    days: int
    kits: bool = False


OUTCOMES: Final = {
    outcome.value: outcome
    for outcome in (
        Outcome(Contact.Outcome.SPOKE.value, "1", "Spoke", 3),
        Outcome(Contact.Outcome.VOICEMAIL.value, "2", "Voicemail", 1),
        Outcome(Contact.Outcome.WRONG_NUMBER.value, "3", "Wrong number", 1),
        Outcome(Contact.Outcome.RESHIP_ASKED.value, "4", "Re-ship requested", 2, kits=True),
    )
}

WORDS: Final = {
    **{outcome.value: outcome.label for outcome in OUTCOMES.values()},
    SNOOZED: "Put off",
    HANDLED: "Handled",
}


@dataclass(frozen=True, slots=True)
class Choice:
    """One outcome as a card offers it: with the moment it names."""

    outcome: Outcome
    until: datetime
    words: str


def somebody_to_call(order: Order) -> bool:
    """Not so for a kit that is not registered to anybody yet: neither name nor number is known."""
    named = order.patient_first_name or order.patient_last_name
    return bool(named or order.said("patient_details").get("phone_number"))


def clock_of(order: Order, visit: Appointment | None) -> Place:
    """The patient's clock; where there is nobody to call, the one of whoever looks."""
    return place_of(order, visit) if somebody_to_call(order) else here()


def address_of(order: Order, visit: Appointment | None) -> tuple[str, Any]:
    """The address a call is about, and what it is: where the visit is, else that of the order.
    A kit without patient is sent to an address of its own."""
    if visit is not None and visit.type == HOME and visit.first_line:
        return "Visit at", visit
    return "Address", order.said("patient_address") or order.said("shipping_details")


def outcomes_of(order: Order) -> list[Outcome]:
    called, kit = somebody_to_call(order), order.method == _KIT
    return [one for one in OUTCOMES.values() if (kit if one.kits else called)]


def choices(order: Order, place: Place, now: datetime) -> list[Choice]:
    found = []
    for outcome in outcomes_of(order):
        until = place.morning(now, outcome.days)
        found.append(Choice(outcome, until, told(until, place)))
    return found


def later(place: Place, now: datetime) -> list[tuple[str, str]]:
    """Moments to put a card off until, on the patient's clock: ISO, and words."""
    soon = (now + timedelta(hours=2)).astimezone(place.zone).replace(second=0, microsecond=0)
    moments = [place.morning(now, days) for days in (1, 2, 4, 7, 14)]
    found = {moments[0]: None, soon: None, **dict.fromkeys(moments)}
    return [(moment.isoformat(), told(moment, place)) for moment in found]


def told(moment: datetime, place: Place) -> str:
    local = moment.astimezone(place.zone)
    return spoken(local, timezone.now().astimezone(place.zone))


def script_of(order: Order, group: str, turn: str) -> tuple[str, ...]:
    """Two lines to say; none where there is nobody to say them to."""
    if not somebody_to_call(order):
        return ()
    if group == MOVED:
        return _HELLO, SCRIPTS[MOVED]
    scripts = SCRIPTS | SCRIPTS_OF.get(order.method, {})
    for key in (order.status_detail or "", order.low_level_status, group):
        if key == QUIET and turn == vocabulary.PATIENT:
            return _HELLO, scripts["patient"]
        if key in scripts:
            return _HELLO, scripts[key]
    return _HELLO, SCRIPTS[UNKNOWN]


def actions(
    order: Order, group: str, user: Any, *, tracking: str, turn: str, number: str
) -> Sequence[dict[str, Any]]:
    """What can be done, the recommended action first; none where it is to ask the service."""
    found: list[dict[str, Any]] = []

    def offer(label: str, page: str, *given: object, query: str = "") -> None:
        found.append({"label": label, "url": reverse(page, args=given) + query})

    may_order = may(user, "orders.create", "patients.view") and order.user_id is not None
    if group == "delivery" and tracking:
        found.append({"label": "Open the tracking", "url": tracking, "elsewhere": True})
    if group in ("lost", "delivery") and may_order:
        offer("Order again", "orders:new", order.user_id, query=f"?repeat={order.pk}")
    if group == STUCK and may(user, "patients.change") and order.user_id is not None:
        offer("Correct the patient’s details", "patients:edit", order.user_id)
    found += [one for one in actions_of(order, user) if one["label"] == "Book"]
    if group == QUIET and turn == vocabulary.PATIENT and number:
        found.insert(0, {"label": "Call the patient", "url": f"tel:{number}"})
    return found
