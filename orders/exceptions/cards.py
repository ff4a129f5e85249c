"""What stands on a call card: what to say, what to do first, and when the order comes back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from django.urls import reverse
from django.utils import timezone

from backoffice import vocabulary
from backoffice.access import may
from backoffice.models import Contact
from backoffice.templatetags.spoken import spoken
from orders.changing_views import actions_of
from orders.exceptions.queue import MOVED, QUIET, STUCK, UNKNOWN
from orders.local_time import Place
from orders.models import Order

_HELLO: Final = "Hello, this is the clinic. May I ask your name and date of birth?"
SCRIPTS: Final[dict[str, str]] = {
    "lost": "The sample cannot be tested, and we are sorry. We would like to send you a new kit or "
    "book a new draw: which address, which day suits you?",
    "sample_error": "The lab could not use your sample. That happens. May we send you a new kit, "
    "or book a new draw?",
    "date_of_collection_unspecified": "The lab needs the day and the time you took the sample. "
    "Do you remember both?",
    STUCK: "The lab needs something from you before it can go on. May I check your name, your date "
    "of birth and your address with you?",
    "delivery": "The parcel is held up. Is this address still right? If it does not move by "
    "tomorrow, we send a new one.",
    "draw": "We need a new appointment for your draw. Which days suit you, mornings or afternoons?",
    "patient": "We are waiting for your sample. Did everything arrive? Is there anything we can "
    "help you with?",
    QUIET: "We are looking into where your test is, and will call you as soon as we know more.",
    MOVED: "We are checking our records. Have you given a sample for a test lately? On which day, "
    "and where?",
    UNKNOWN: "We are looking into your test, and will call you as soon as we know more.",
}

HANDLED: Final = "handled"
SNOOZED: Final = Contact.Outcome.SNOOZED.value


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a call ended: its key, its words, and when the order comes back if nothing happens."""

    value: str
    key: str
    label: str
    days: int


OUTCOMES: Final = {
    outcome.value: outcome
    for outcome in (
        Outcome(Contact.Outcome.SPOKE.value, "1", "Spoke", 3),
        Outcome(Contact.Outcome.VOICEMAIL.value, "2", "Voicemail", 1),
        Outcome(Contact.Outcome.WRONG_NUMBER.value, "3", "Wrong number", 1),
        Outcome(Contact.Outcome.RESHIP_ASKED.value, "4", "Re-ship asked", 2),
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


def choices(place: Place, now: datetime) -> list[Choice]:
    found = []
    for outcome in OUTCOMES.values():
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


def script_of(order: Order, group: str, turn: str) -> tuple[str, str]:
    """Two lines to say."""
    if group == MOVED:
        return _HELLO, SCRIPTS[MOVED]
    for key in (order.status_detail or "", order.low_level_status, group):
        if key == QUIET and turn == vocabulary.PATIENT:
            return _HELLO, SCRIPTS["patient"]
        if key in SCRIPTS:
            return _HELLO, SCRIPTS[key]
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
