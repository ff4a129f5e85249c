"""Summarize in one sentence what a role may do: the areas it works in, and those it only views."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from backoffice.accounts.access import PERMISSIONS
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
    "the catalog of labs": ("labs.view", "lab_tests.change", "lab_accounts.change"),
    "requests to the service": ("commands.view", "commands.decide"),
    "the system": (
        *("system.view", "records.view", "vocabulary.change", "service.check"),
        *("events.view", "events.replay"),
    ),
    "the audit trail": ("audit.view",),
    "the JSON API": ("api.read", "tokens.manage"),
    "the administration": ("admin.open", "staff.change"),
}
"""Permissions by area. Every permission belongs to one area."""

_READ_ONLY: Final = (".view", ".read", ".open")


def summarize(granted: Collection[str]) -> str:
    """Return `Works on orders and patients; can only view results`, or `Everything`."""
    if PERMISSIONS.keys() <= set(granted):
        return "Everything"
    by_area = {area: [name for name in names if name in granted] for area, names in AREAS.items()}
    works_on = [area for area, names in by_area.items() if not all(map(_is_read_only, names))]
    views = [area for area, names in by_area.items() if names and area not in works_on]
    parts = [f"works on {join_with_and(works_on)}"] if works_on else []
    parts += [f"can only view {join_with_and(views)}"] if views else []
    summary = "; ".join(parts) or "nothing"
    return summary[0].upper() + summary[1:]


def _is_read_only(permission: str) -> bool:
    return permission.endswith(_READ_ONLY)
