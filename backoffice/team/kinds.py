"""What people are told about, in words: on the page, and in e-mails, which name nobody."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Kind:
    choice: str
    """On the page where one chooses what to get e-mail about."""
    told: str
    """On the page of notifications, with the word for the record in its place."""
    mail: str


KINDS: Final[dict[str, Kind]] = {
    "critical-waits": Kind(
        "A critical result that nobody has acknowledged for half an hour",
        "This {subject} is critical, and nobody has acknowledged it",
        "A critical result waits for somebody to acknowledge it",
    ),
    "assigned": Kind(
        "Something is given to me",
        "This {subject} was given to you",
        "Something was given to you",
    ),
    "taken": Kind(
        "Something that was mine is taken by somebody",
        "This {subject} is no longer yours",
        "Something that was yours has been taken by somebody else",
    ),
    "mentioned": Kind(
        "I am named in a note",
        "You are named in a note on this {subject}",
        "You are named in a note",
    ),
    "needs-action": Kind(
        "An order that is mine needs action",
        "This {subject} is yours and needs action",
        "An order that is yours needs you",
    ),
    "result-in": Kind(
        "The result of an order that is mine is in",
        "The result of this {subject}, which is yours, is in",
        "The result of an order that is yours is in",
    ),
    "visit-moved": Kind(
        "The visit of an order that is mine is moved or cancelled",
        "The visit of this {subject}, which is yours, has changed",
        "The visit of an order that is yours has changed",
    ),
    "refused": Kind(
        "A request of mine is refused",
        "This {subject} of yours was refused",
        "A request of yours was refused",
    ),
    "undecided": Kind(
        "A request of mine waits for a decision",
        "This {subject} of yours waits for a decision",
        "A request of yours waits for a decision",
    ),
}
