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
from django.utils.translation import gettext, gettext_noop

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

_GREETING: Final = gettext_noop(
    "Hello, this is the clinic. May I have your name and date of birth, please?"
)
_KIT: Final = "testkit"
SCRIPTS: Final[dict[str, str]] = {
    "lost": gettext_noop(
        "We’re sorry, but your sample cannot be tested. We need a new one. Which day works for you?"
    ),
    "sample_error": gettext_noop(
        "The lab could not use your sample. This sometimes happens. We need a new one. Which day "
        "works for you?"
    ),
    "date_of_collection_unspecified": gettext_noop(
        "The lab needs to know the day and time you collected your sample. Do you remember them?"
    ),
    STUCK: gettext_noop(
        "The lab needs some information before it can continue. May I confirm your name, date of "
        "birth, and address?"
    ),
    "delivery": gettext_noop(
        "Your package is delayed. Is this address still correct? If it hasn’t moved by tomorrow, "
        "we will send a new one."
    ),
    "appointment_scheduled": gettext_noop(
        "You had an appointment for your sample, and we haven’t received an update since. Did it "
        "take place?"
    ),
    "draw": gettext_noop(
        "We need to schedule a new blood draw. Which days work for you? Do you prefer mornings or "
        "afternoons?"
    ),
    "patient": gettext_noop(
        "We are waiting for your sample. Is there anything we can help you with?"
    ),
    QUIET: gettext_noop("We are checking on your test. We will call you as soon as we know more."),
    MOVED: gettext_noop(
        "We are checking our records. Have you given a sample for a test recently? On which day, "
        "and where?"
    ),
    UNKNOWN: gettext_noop(
        "We are looking into your test. We will call you as soon as we know more."
    ),
}
"""Scripts by status detail, status, or exception group."""
_PARCEL_LOST_TO_LAB: Final = gettext_noop(
    "The package with your sample has not reached the lab. When did you send it, and where did you "
    "drop it off? If it doesn’t turn up, we will send you a new kit."
)
SCRIPTS_BY_METHOD: Final[dict[str, dict[str, str]]] = {
    _KIT: {
        "lost": gettext_noop(
            "We’re sorry, but your sample cannot be tested. We can send you a new kit or book a "
            "new draw. Which address or which day works for you?"
        ),
        "sample_error": gettext_noop(
            "The lab could not use your sample. This sometimes happens. May we send you a new kit "
            "or book a new draw?"
        ),
        "problem_in_transit_lab": _PARCEL_LOST_TO_LAB,
        "failure_to_deliver_to_lab": _PARCEL_LOST_TO_LAB,
        "patient": gettext_noop(
            "We are waiting for your sample. Did everything arrive? Is there anything we can help "
            "you with?"
        ),
    },
    "walk_in_test": {
        "sample_error": gettext_noop(
            "The lab could not use your sample. This sometimes happens. When could you come to a "
            "service center for a new one?"
        ),
        "patient": gettext_noop(
            "Your test is ready. You can walk in at a service center. Is there anything we can "
            "help you with?"
        ),
    },
    "at_home_phlebotomy": {
        "sample_error": gettext_noop(
            "The lab could not use your sample. This sometimes happens. May we send someone to "
            "collect a new one? Which days work for you? Do you prefer mornings or afternoons?"
        ),
    },
    "on_site_collection": {
        "sample_error": gettext_noop(
            "The lab could not use your sample. This sometimes happens. When could you come to the "
            "clinic for a new one?"
        ),
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
        CallOutcome(Contact.Outcome.SPOKE.value, "1", gettext_noop("Spoke"), 3),
        CallOutcome(Contact.Outcome.VOICEMAIL.value, "2", gettext_noop("Voicemail"), 1),
        CallOutcome(Contact.Outcome.WRONG_NUMBER.value, "3", gettext_noop("Wrong number"), 1),
        CallOutcome(
            Contact.Outcome.RESHIP_ASKED.value,
            "4",
            gettext_noop("Re-ship requested"),
            2,
            needs_kit=True,
        ),
    )
}

OUTCOME_LABELS: Final = {
    **{outcome.value: outcome.label for outcome in CALL_OUTCOMES.values()},
    SNOOZED: gettext_noop("Snoozed"),
    HANDLED: gettext_noop("Handled"),
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
        return gettext("Visit address"), visit
    address = order.record_at("patient_address") or order.record_at("shipping_details")
    return gettext("Address"), address


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
        return gettext(_GREETING), gettext(SCRIPTS[MOVED])
    scripts = SCRIPTS | SCRIPTS_BY_METHOD.get(order.method, {})
    for key in (order.status_detail or "", order.low_level_status, group):
        if key == QUIET and turn == vocabulary.PATIENT:
            return gettext(_GREETING), gettext(scripts["patient"])
        if key in scripts:
            return gettext(_GREETING), gettext(scripts[key])
    return gettext(_GREETING), gettext(SCRIPTS[UNKNOWN])


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
        actions.append(OrderAction(gettext("Open tracking"), tracking, elsewhere=True))
    if group in ("lost", "delivery") and may_order:
        offer(gettext("Order again"), "orders:new", order.user_id, query=f"?repeat={order.pk}")
    if group == STUCK and may(user, "patients.change") and order.user_id is not None:
        offer(gettext("Correct patient details"), "patients:edit", order.user_id)
    booking = reverse("orders:book", args=[order.pk])
    actions += [action for action in order_actions(order, user) if action.url == booking]
    if group == QUIET and turn == vocabulary.PATIENT and number:
        actions.insert(0, OrderAction(gettext("Call the patient"), f"tel:{number}"))
    return actions
