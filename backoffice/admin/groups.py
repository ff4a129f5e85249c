"""The groups of the index page, and its links to pages outside the administration."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from django.utils.translation import gettext_noop

PEOPLE: Final = gettext_noop("Staff and roles")
LABORATORIES: Final = gettext_noop("Labs")
MIRROR: Final = gettext_noop("Service records")
WORK: Final = gettext_noop("Operations")
VALUES: Final = gettext_noop("Unknown values")
GROUPS: Final = {
    PEOPLE: "",
    LABORATORIES: "",
    MIRROR: gettext_noop(
        "Local copies of what the service sent, unchanged. View them or fetch them again."
    ),
    WORK: "",
    VALUES: "",
}
"""Description by group, in the order of the page."""


@dataclass(frozen=True, slots=True)
class IndexLink:
    """One link of the index page."""

    group: str
    label: str
    words: str
    route: str
    permission: str
    query: str = ""


LINKS: Final = (
    IndexLink(
        PEOPLE,
        gettext_noop("Staff list"),
        gettext_noop("All staff with roles, last sign-in and second factor"),
        "staff:list",
        "staff.change",
    ),
    IndexLink(
        PEOPLE,
        gettext_noop("Permissions by role"),
        gettext_noop("Roles and permissions side by side"),
        "roles",
        "staff.change",
    ),
    IndexLink(
        WORK,
        gettext_noop("Events"),
        gettext_noop("Webhook events from the service and their outcomes"),
        "events:list",
        "events.view",
    ),
    IndexLink(
        WORK,
        gettext_noop("Replay failed events"),
        gettext_noop("Replay all events that failed for the same reason, after a preview"),
        "events:replay",
        "events.replay",
    ),
    IndexLink(
        WORK,
        gettext_noop("Requests"),
        gettext_noop("Requests that staff sent to the service"),
        "commands:list",
        "commands.view",
    ),
    IndexLink(
        WORK,
        gettext_noop("Needs your decision"),
        gettext_noop("Requests whose outcome is unknown"),
        "commands:list",
        "commands.decide",
        "?show=decide",
    ),
    IndexLink(
        WORK,
        gettext_noop("Runs"),
        gettext_noop("Syncs of the service’s lists"),
        "runs:list",
        "system.view",
    ),
    IndexLink(
        WORK,
        gettext_noop("Lookups"),
        gettext_noop("Records fetched one at a time: due and failed"),
        "system:health",
        "system.view",
        "#lookups",
    ),
    IndexLink(
        WORK,
        gettext_noop("Differences"),
        gettext_noop("Where our copy differed from the service"),
        "drift:list",
        "system.view",
    ),
    IndexLink(
        WORK,
        gettext_noop("Unread records"),
        gettext_noop("Records that failed validation"),
        "unread:list",
        "system.view",
    ),
    IndexLink(
        VALUES,
        gettext_noop("Unknown values"),
        gettext_noop("Choose a label and a group for each value"),
        "system:unknown",
        "system.view",
    ),
)
