"""The groups of the index page, and its links to pages outside the administration."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

PEOPLE: Final = "People and roles"
LABORATORIES: Final = "Laboratories"
MIRROR: Final = "Mirror"
WORK: Final = "Work"
VALUES: Final = "Vocabulary"
GROUPS: Final = {
    PEOPLE: "",
    LABORATORIES: "",
    MIRROR: "What the service sent, exactly as it sent it: to read, and to fetch again.",
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
    IndexLink(PEOPLE, "Staff list", "Who has which roles, signs in, and has a second factor",
              "staff:list", "staff.change"),
    IndexLink(PEOPLE, "What each role may do", "Roles and permissions side by side", "roles",
              "staff.change"),
    IndexLink(WORK, "Events", "What the service sent by webhook, and the outcomes", "events:list",
              "events.view"),
    IndexLink(WORK, "Replay failed events", "All that failed for the same reason, after a preview",
              "events:replay", "events.replay"),
    IndexLink(WORK, "Requests", "What staff asked of the service", "commands:list",
              "commands.view"),
    IndexLink(WORK, "Needs your decision", "Requests whose outcome is unknown", "commands:list",
              "commands.decide", "?show=decide"),
    IndexLink(WORK, "Runs", "Syncs of the service’s lists", "runs:list", "system.view"),
    IndexLink(WORK, "Look-ups", "Records read one by one: what is due, what failed",
              "system:health", "system.view", "#lookups"),
    IndexLink(WORK, "Differences", "Where our copy differed from the service", "drift:list",
              "system.view"),
    IndexLink(WORK, "Unread records", "Records that failed validation", "unread:list",
              "system.view"),
    IndexLink(VALUES, "Unknown values", "Give each a meaning: bucket and words",
              "system:unknown", "system.view"),
)  # fmt: skip
