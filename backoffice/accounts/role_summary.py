"""Summarize in one sentence what a role may do: the areas it works in, and those it only views."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from django.utils.translation import gettext, gettext_noop

from backoffice.accounts.access import PERMISSIONS
from backoffice.core.text import join_with_and

AREAS: Final[dict[str, tuple[str, ...]]] = {
    gettext_noop("orders"): ("orders.view", "orders.create", "orders.change", "orders.simulate"),
    gettext_noop("patients"): ("patients.view", "patients.change"),
    gettext_noop("appointments"): ("appointments.view", "appointments.change"),
    gettext_noop("results"): (
        "results.view",
        "results.match",
        "results.acknowledge",
        "results.sign",
    ),
    gettext_noop("uploaded reports"): ("reports.view", "reports.upload", "reports.accept"),
    gettext_noop("exceptions"): ("exceptions.work",),
    gettext_noop("notes"): ("notes.write",),
    gettext_noop("downloads and shared views"): ("lists.export", "views.share"),
    gettext_noop("the lab catalog"): ("labs.view", "lab_tests.change", "lab_accounts.change"),
    gettext_noop("requests to the service"): ("commands.view", "commands.decide"),
    gettext_noop("the system"): (
        *("system.view", "records.view", "vocabulary.change", "service.check"),
        *("events.view", "events.replay"),
    ),
    gettext_noop("the audit trail"): ("audit.view",),
    gettext_noop("the JSON API"): ("api.read", "tokens.manage"),
    gettext_noop("Administration"): ("admin.open", "staff.change"),
}
"""Permissions by area. Every permission belongs to one area."""

_READ_ONLY: Final = (".view", ".read", ".open")


def summarize(granted: Collection[str]) -> str:
    """Return `Works on orders and patients; can only view results`, or `Everything`."""
    if PERMISSIONS.keys() <= set(granted):
        return gettext("Everything")
    by_area = {area: [name for name in names if name in granted] for area, names in AREAS.items()}
    works_on = [
        gettext(area) for area, names in by_area.items() if not all(map(_is_read_only, names))
    ]
    views = [
        gettext(area) for area, names in by_area.items() if names and all(map(_is_read_only, names))
    ]
    areas = {"areas": join_with_and(works_on), "viewed": join_with_and(views)}
    if works_on and views:
        return gettext("Works on %(areas)s; can only view %(viewed)s") % areas
    if works_on:
        return gettext("Works on %(areas)s") % areas
    return gettext("Can only view %(viewed)s") % areas if views else gettext("Nothing")


def _is_read_only(permission: str) -> bool:
    return permission.endswith(_READ_ONLY)
