"""The groups of the first page, and its links to pages that stand elsewhere."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

PEOPLE: Final = "People and roles"
LABORATORIES: Final = "Laboratories"
MIRROR: Final = "Mirror"
WORK: Final = "Work"
VALUES: Final = "Unknown values"
GROUPS: Final = {
    PEOPLE: "",
    LABORATORIES: "",
    MIRROR: "What the service told us, as it told us. To be read, and to be fetched again.",
    WORK: "",
    VALUES: "",
}
"""In the order of the page, each with a word on all of it."""


@dataclass(frozen=True, slots=True)
class Link:
    """One line of the first page."""

    group: str
    label: str
    words: str
    route: str
    permission: str
    query: str = ""


LINKS: Final = (
    Link(PEOPLE, "What each role may do", "Roles and permissions side by side", "roles",
         "staff.change"),
    Link(WORK, "Events", "What the service sent by webhook, and what became of it", "events:list",
         "events.view"),
    Link(WORK, "Replay failed events", "All that failed for one reason, after a preview",
         "events:replay", "events.replay"),
    Link(WORK, "Requests", "What staff asked of the service", "commands:list", "commands.view"),
    Link(WORK, "Requests to decide", "Those whose outcome nobody knows", "commands:list",
         "commands.decide", "?show=decide"),
    Link(WORK, "Runs", "Walks over the lists of the service", "system:runs", "system.view"),
    Link(WORK, "Look-ups", "Records read one by one: what is due, what fails", "system:health",
         "system.view", "#lookups"),
    Link(WORK, "Differences", "Where the mirror differed from the service", "system:drift",
         "system.view"),
    Link(WORK, "Unread records", "What does not fit its columns", "system:unread", "system.view"),
    Link(VALUES, "Values we have no word for", "Say what they mean: bucket and words",
         "system:unknown", "system.view"),
)  # fmt: skip
