"""The content of a call card.

It has whom to call, the address, the script, the recommended action, and when the order returns to
the queue. The script and the possible outcomes depend on how the sample is collected: only a kit
can be sent again. Without anybody to call there is no script and no outcome of a call.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from django.contrib.auth.models import AnonymousUser
from django.urls import reverse
from django.utils import timezone

from backoffice.accounts.access import may
from backoffice.accounts.models import User
from backoffice.core import vocabulary
from backoffice.core.time_formats import spoken
from backoffice.service.json_text import JsonObject
from backoffice.team.models import Contact
from orders.actions import OrderAction, order_actions
from orders.exceptions.queue import MOVED, QUIET, STUCK, UNKNOWN
from orders.local_time import LocalClock, local_clock_of, staff_clock
from orders.models import Appointment, Order
from orders.rules.appointment_rules import HOME

_GREETING: Final = "Hello, this is the clinic. May I ask your name and date of birth?"
_SAMPLE_UNUSABLE: Final = "The lab could not use your sample. That happens."
_KIT: Final = "testkit"
SCRIPTS: Final[dict[str, str]] = {
    "lost": "The sample cannot be tested, and we are sorry. We need a new one: which day suits "
    "you?",
    "sample_error": f"{_SAMPLE_UNUSABLE} We need a new one: which day suits you?",
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
"""Scripts by status detail, status, or exception group."""
_PARCEL_LOST_TO_LAB: Final = (
    "The parcel with your sample has not reached the lab. When did you send it, and where did you "
    "hand it in? If it does not turn up, we send you a new kit."
)
SCRIPTS_BY_METHOD: Final[dict[str, dict[str, str]]] = {
    _KIT: {
        "lost": "The sample cannot be tested, and we are sorry. We would like to send you a new "
        "kit or book a new draw: which address, which day suits you?",
        "sample_error": f"{_SAMPLE_UNUSABLE} May we send you a new kit, or book a new draw?",
        "problem_in_transit_lab": _PARCEL_LOST_TO_LAB,
        "failure_to_deliver_to_lab": _PARCEL_LOST_TO_LAB,
        "patient": "We are waiting for your sample. Did everything arrive? Is there anything we "
        "can help you with?",
    },
    "walk_in_test": {
        "sample_error": f"{_SAMPLE_UNUSABLE} When could you come to a center for a new one?",
        "patient": "Your test is ready: you can walk in at a center. Is there anything we can help "
        "you with?",
    },
    "at_home_phlebotomy": {
        "sample_error": f"{_SAMPLE_UNUSABLE} May somebody come for a new one? Which days suit you, "
        "mornings or afternoons?",
    },
    "on_site_collection": {
        "sample_error": f"{_SAMPLE_UNUSABLE} When could you come to us for a new one?",
    },
}
"""Scripts that replace those of `SCRIPTS`, by collection method."""

HANDLED: Final = "handled"
SNOOZED: Final = Contact.Outcome.SNOOZED.value


@dataclass(frozen=True, slots=True)
class CallOutcome:
    """How a call ended.

    `key` is its keyboard shortcut. After `days`, the order returns to the queue, unless it changes
    before. `needs_kit`: the outcome is about sending a kit again, so only orders of kits offer it.
    """

    value: str
    key: str
    label: str
    days: int
    needs_kit: bool = False


CALL_OUTCOMES: Final = {
    outcome.value: outcome
    for outcome in (
        CallOutcome(Contact.Outcome.SPOKE.value, "1", "Spoke", 3),
        CallOutcome(Contact.Outcome.VOICEMAIL.value, "2", "Voicemail", 1),
        CallOutcome(Contact.Outcome.WRONG_NUMBER.value, "3", "Wrong number", 1),
        CallOutcome(
            Contact.Outcome.RESHIP_ASKED.value, "4", "Re-ship requested", 2, needs_kit=True
        ),
    )
}

OUTCOME_LABELS: Final = {
    **{outcome.value: outcome.label for outcome in CALL_OUTCOMES.values()},
    SNOOZED: "Put off",
    HANDLED: "Handled",
}


@dataclass(frozen=True, slots=True)
class OutcomeChoice:
    """One outcome as a card offers it, with the time when the order returns to the queue."""

    outcome: CallOutcome
    until: datetime
    words: str


def has_contact(order: Order) -> bool:
    """Return whether there is anybody to call.

    For a kit that is not registered yet, neither name nor phone number is known.
    """
    named = order.patient_first_name or order.patient_last_name
    return bool(named or order.record_at("patient_details").get("phone_number"))


def patient_clock(order: Order, visit: Appointment | None) -> LocalClock:
    """Return the patient's clock; the staff member's clock if there is nobody to call."""
    return local_clock_of(order, visit) if has_contact(order) else staff_clock()


def call_address(order: Order, visit: Appointment | None) -> tuple[str, Appointment | JsonObject]:
    """Return the label and the address that a call is about: that of the visit, else of the order.

    A kit without a patient has its own shipping address.
    """
    if visit is not None and visit.type == HOME and visit.first_line:
        return "Visit at", visit
    return "Address", order.record_at("patient_address") or order.record_at("shipping_details")


def available_outcomes(order: Order) -> list[CallOutcome]:
    called, kit = has_contact(order), order.method == _KIT
    return [outcome for outcome in CALL_OUTCOMES.values() if (kit if outcome.needs_kit else called)]


def outcome_choices(order: Order, place: LocalClock, now: datetime) -> list[OutcomeChoice]:
    choices = []
    for outcome in available_outcomes(order):
        until = place.morning(now, outcome.days)
        choices.append(OutcomeChoice(outcome, until, time_text(until, place)))
    return choices


def snooze_choices(place: LocalClock, now: datetime) -> list[tuple[str, str]]:
    """Return times until which a card can be snoozed, in the patient's zone: (ISO text, label)."""
    soon = (now + timedelta(hours=2)).astimezone(place.zone).replace(second=0, microsecond=0)
    moments = [place.morning(now, days) for days in (1, 2, 4, 7, 14)]
    distinct = {moments[0]: None, soon: None, **dict.fromkeys(moments)}
    return [(moment.isoformat(), time_text(moment, place)) for moment in distinct]


def time_text(moment: datetime, place: LocalClock) -> str:
    local = moment.astimezone(place.zone)
    return spoken(local, timezone.now().astimezone(place.zone))


def call_script(order: Order, group: str, turn: str) -> tuple[str, ...]:
    """Return a script of two lines; empty if there is nobody to call."""
    if not has_contact(order):
        return ()
    if group == MOVED:
        return _GREETING, SCRIPTS[MOVED]
    scripts = SCRIPTS | SCRIPTS_BY_METHOD.get(order.method, {})
    for key in (order.status_detail or "", order.low_level_status, group):
        if key == QUIET and turn == vocabulary.PATIENT:
            return _GREETING, scripts["patient"]
        if key in scripts:
            return _GREETING, scripts[key]
    return _GREETING, SCRIPTS[UNKNOWN]


def card_actions(
    order: Order,
    group: str,
    user: User | AnonymousUser,
    *,
    tracking: str,
    turn: str,
    number: str,
) -> list[OrderAction]:
    """Return the possible actions, the recommended one first.

    If there is none, the page recommends to ask the service for the current state of the order.
    """
    actions: list[OrderAction] = []

    def offer(label: str, page: str, *arguments: object, query: str = "") -> None:
        actions.append(OrderAction(label, reverse(page, args=arguments) + query))

    may_order = may(user, "orders.create", "patients.view") and order.user_id is not None
    if group == "delivery" and tracking:
        actions.append(OrderAction("Open the tracking", tracking, elsewhere=True))
    if group in ("lost", "delivery") and may_order:
        offer("Order again", "orders:new", order.user_id, query=f"?repeat={order.pk}")
    if group == STUCK and may(user, "patients.change") and order.user_id is not None:
        offer("Correct the patient’s details", "patients:edit", order.user_id)
    actions += [action for action in order_actions(order, user) if action.label == "Book"]
    if group == QUIET and turn == vocabulary.PATIENT and number:
        actions.insert(0, OrderAction("Call the patient", f"tel:{number}"))
    return actions
