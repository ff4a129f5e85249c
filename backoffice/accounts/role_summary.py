"""What a role may do, in a sentence: the areas it works in, and those it only sees."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from backoffice.core.access import PERMISSIONS
from backoffice.core.text import join_with_and

AREAS: Final[dict[str, tuple[str, ...]]] = {
    "orders": ("orders.view", "orders.create", "orders.change", "orders.simulate"),
    "patients": ("patients.view", "patients.change"),
    "appointments": ("appointments.view", "appointments.change"),
    "results": ("results.view", "results.match", "results.acknowledge", "results.sign"),
    "uploaded reports": ("reports.view", "reports.upload", "reports.accept"),
    "exceptions": ("exceptions.work",),
    "notes": ("notes.write",),
    "downloads": ("lists.export", "views.share"),
    "the catalogue of labs": ("labs.view", "lab_tests.change", "lab_accounts.change"),
    "requests to the service": ("commands.view", "commands.decide"),
    "the system": (
        *("system.view", "records.view", "vocabulary.change", "service.check"),
        *("events.view", "events.replay"),
    ),
    "the audit trail": ("audit.view",),
    "the JSON API": ("api.read", "tokens.manage"),
    "the administration": ("admin.open", "staff.change"),
}
"""Every permission lies in one area."""

_READ_ONLY: Final = (".view", ".read", ".open")


def summarize(granted: Collection[str]) -> str:
    """`Works on orders and patients; can only view results`. Of all permissions: `Everything`."""
    if PERMISSIONS.keys() <= set(granted):
        return "Everything"
    held = {area: [one for one in names if one in granted] for area, names in AREAS.items()}
    working = [area for area, names in held.items() if not all(map(_is_read_only, names))]
    seeing = [area for area, names in held.items() if names and area not in working]
    parts = [f"works on {join_with_and(working)}"] if working else []
    parts += [f"can only view {join_with_and(seeing)}"] if seeing else []
    words = "; ".join(parts) or "nothing"
    return words[0].upper() + words[1:]


def _is_read_only(permission: str) -> bool:
    return permission.endswith(_READ_ONLY)
