"""Texts of the kinds of notifications: in the app, and in emails, which name no patient.

`notifications.py` decides who is notified, and whether by email.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class NotificationKind:
    choice: str
    """Label on the page where people choose which emails they get."""
    text: str
    """Text on the page of notifications, with `{subject}` for the label of the record."""
    mail: str


NOTIFICATION_KINDS: Final[dict[str, NotificationKind]] = {
    "critical-waits": NotificationKind(
        "Critical results that nobody has acknowledged for half an hour",
        "This {subject} is critical, and nobody has acknowledged it",
        "A critical result waits for somebody to acknowledge it",
    ),
    "assigned": NotificationKind(
        "Work assigned to me",
        "This {subject} was assigned to you",
        "Something was assigned to you",
    ),
    "taken": NotificationKind(
        "Work of mine that somebody else takes",
        "This {subject} is no longer yours",
        "Something that was yours has been taken by somebody else",
    ),
    "mentioned": NotificationKind(
        "Notes that mention me",
        "You are mentioned in a note on this {subject}",
        "You are mentioned in a note",
    ),
    "needs-action": NotificationKind(
        "Orders of mine that need action",
        "This {subject} is yours and needs action",
        "An order that is yours needs you",
    ),
    "result-in": NotificationKind(
        "Results that come in for orders of mine",
        "The result of this {subject}, which is yours, is in",
        "The result of an order that is yours is in",
    ),
    "visit-moved": NotificationKind(
        "Visits moved or canceled on orders of mine",
        "The visit of this {subject}, which is yours, has changed",
        "The visit of an order that is yours has changed",
    ),
    "refused": NotificationKind(
        "Requests of mine that are refused",
        "This {subject} of yours was refused",
        "A request of yours was refused",
    ),
    "undecided": NotificationKind(
        "Requests of mine that need a decision",
        "This {subject} of yours waits for a decision",
        "A request of yours waits for a decision",
    ),
    "happened-late": NotificationKind(
        "Requests of mine that happen after they were given up",
        "This {subject} of yours was carried out after it had been given up",
        "A request of yours was carried out after it had been given up",
    ),
    "repeats": NotificationKind(
        "Requests of mine that repeat one that happened after all",
        "An earlier request for the same as this {subject} of yours was carried out after all",
        "Check a request of yours: an earlier one for the same was carried out after all",
    ),
}
