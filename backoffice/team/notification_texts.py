"""Texts of the kinds of notifications: in the app, and in emails, which name no patient.

`notifications.py` decides who is notified, and whether by email.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from django.utils.translation import gettext_noop


@dataclass(frozen=True, slots=True)
class NotificationKind:
    choice: str
    """Label on the page where people choose which emails they get."""
    text: str
    """Text on the page of notifications, with `%(subject)s` for the label of the record."""
    mail: str


NOTIFICATION_KINDS: Final[dict[str, NotificationKind]] = {
    "critical-waits": NotificationKind(
        gettext_noop("Critical results not acknowledged after 30 minutes"),
        gettext_noop("This %(subject)s is critical and has not been acknowledged"),
        gettext_noop("A critical result has not been acknowledged"),
    ),
    "assigned": NotificationKind(
        gettext_noop("Work assigned to me"),
        gettext_noop("This %(subject)s was assigned to you"),
        gettext_noop("Work was assigned to you"),
    ),
    "taken": NotificationKind(
        gettext_noop("My work assigned to someone else or to no one"),
        gettext_noop("This %(subject)s is no longer assigned to you"),
        gettext_noop("Work is no longer assigned to you"),
    ),
    "mentioned": NotificationKind(
        gettext_noop("Notes that mention me"),
        gettext_noop("You were mentioned in a note on this %(subject)s"),
        gettext_noop("You were mentioned in a note"),
    ),
    "needs-action": NotificationKind(
        gettext_noop("My orders that need action"),
        gettext_noop("This %(subject)s is assigned to you and needs action"),
        gettext_noop("An order assigned to you needs action"),
    ),
    "result-in": NotificationKind(
        gettext_noop("Results for my orders"),
        gettext_noop("The result of this %(subject)s, assigned to you, is in"),
        gettext_noop("The result of an order assigned to you is in"),
    ),
    "visit-moved": NotificationKind(
        gettext_noop("Visits rescheduled or canceled on my orders"),
        gettext_noop("The visit of this %(subject)s, assigned to you, has changed"),
        gettext_noop("The visit of an order assigned to you has changed"),
    ),
    "refused": NotificationKind(
        gettext_noop("My requests that are refused"),
        gettext_noop("This %(subject)s of yours was refused"),
        gettext_noop("Your request was refused"),
    ),
    "undecided": NotificationKind(
        gettext_noop("My requests that need a decision"),
        gettext_noop("This %(subject)s of yours needs a decision"),
        gettext_noop("Your request needs a decision"),
    ),
    "happened-late": NotificationKind(
        gettext_noop("My requests carried out late, after they were closed"),
        gettext_noop("This %(subject)s of yours was carried out after it had been closed"),
        gettext_noop("Your request was carried out after it had been closed"),
    ),
    "repeats": NotificationKind(
        gettext_noop("My requests that repeat one carried out late"),
        gettext_noop(
            "An earlier request for the same as this %(subject)s of yours was carried out after all"
        ),
        gettext_noop("Check your request: an earlier one for the same was carried out after all"),
    ),
}
