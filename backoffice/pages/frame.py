"""Values of the frame around every page, for templates: navigation, theme, preferences, roles."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

from django.conf import settings
from django.http import HttpRequest
from django.urls import NoReverseMatch, reverse
from django.utils import timezone
from django.utils.translation import gettext, gettext_noop
from jinja2 import pass_context
from jinja2.runtime import Context

from backoffice.accounts import access, limits
from backoffice.accounts.models import User
from backoffice.core.time_formats import calendar_day, hour, long_zone_name
from backoffice.pages import live


@dataclass(frozen=True, slots=True)
class NavPage:
    """One page of a navigation section. The shortcut to it is `g`, then `key`.

    `group`: the name of the pages beside it in a section of many pages.
    """

    label: str
    route: str
    permission: str
    key: str = ""
    group: str = ""


@dataclass(frozen=True, slots=True)
class NavSection:
    """One of the seven navigation sections. It links to its first page that the user may open."""

    label: str
    icon: str
    key: str
    pages: tuple[NavPage, ...]
    short: str = ""


DATA: Final = gettext_noop("Data")
EXCHANGE: Final = gettext_noop("Exchange")
HEALTH: Final = gettext_noop("Health")
ACCESS: Final = gettext_noop("Access")

SECTIONS: Final = (
    NavSection(
        gettext_noop("Today"),
        "sun",
        "t",
        (NavPage(gettext_noop("Today"), "today:page", "orders.view"),),
    ),
    NavSection(
        gettext_noop("Orders"),
        "clipboard-document-list",
        "o",
        (
            NavPage(gettext_noop("All orders"), "orders:list", "orders.view"),
            NavPage(gettext_noop("Exceptions"), "exceptions:list", "exceptions.work", "e"),
        ),
    ),
    NavSection(
        gettext_noop("Appointments"),
        "calendar-days",
        "a",
        (NavPage(gettext_noop("Appointments"), "appointments:list", "appointments.view"),),
        short=gettext_noop("Visits"),
    ),
    NavSection(
        gettext_noop("Results"),
        "document-check",
        "r",
        (
            NavPage(gettext_noop("To review"), "reviewing:queue", "results.view"),
            NavPage(gettext_noop("All results"), "results:list", "results.view"),
            NavPage(gettext_noop("Unmatched"), "unmatched:list", "results.match"),
            NavPage(gettext_noop("Uploaded reports"), "reports:list", "reports.view"),
            NavPage(gettext_noop("Quality"), "reviewing:quality", "results.view"),
        ),
    ),
    NavSection(
        gettext_noop("Patients"),
        "users",
        "p",
        (NavPage(gettext_noop("Patients"), "patients:list", "patients.view"),),
    ),
    NavSection(
        gettext_noop("Catalog & accounts"),
        "beaker",
        "c",
        (NavPage(gettext_noop("Labs"), "labs:list", "labs.view"),),
        short=gettext_noop("Labs"),
    ),
    NavSection(
        gettext_noop("System"),
        "server-stack",
        "s",
        (
            NavPage(gettext_noop("Sync"), "system:health", "system.view", group=DATA),
            NavPage(gettext_noop("Runs"), "runs:list", "system.view", group=DATA),
            NavPage(gettext_noop("Differences"), "drift:list", "system.view", group=DATA),
            NavPage(gettext_noop("Unknown values"), "system:unknown", "system.view", group=DATA),
            NavPage(gettext_noop("Unread records"), "unread:list", "system.view", group=DATA),
            NavPage(
                gettext_noop("Historical pulls"), "wearables:pulls", "patients.view", group=DATA
            ),
            NavPage(gettext_noop("Events"), "events:list", "events.view", group=EXCHANGE),
            NavPage(gettext_noop("Requests"), "commands:list", "commands.view", group=EXCHANGE),
            NavPage(gettext_noop("Status"), "operations:status", "system.view", group=HEALTH),
            NavPage(
                gettext_noop("Service check"),
                "operations:service-check",
                "service.check",
                group=HEALTH,
            ),
            NavPage(gettext_noop("Audit"), "audit:list", "audit.view", group=ACCESS),
            NavPage(gettext_noop("API tokens"), "system:tokens", "tokens.manage", group=ACCESS),
            NavPage(gettext_noop("Roles"), "system:roles", "audit.view", group=ACCESS),
            NavPage(gettext_noop("Staff"), "staff:list", "staff.change", group=ACCESS),
            NavPage(gettext_noop("Administration"), "admin:index", "admin.open", group=ACCESS),
        ),
    ),
)


@dataclass(frozen=True, slots=True)
class NavLink:
    """A link of the navigation for one user on one page."""

    label: str
    url: str
    key: str
    group: str = ""
    current: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class NavEntry:
    """A navigation section for one user on one page.

    `current`: the page belongs to the section. `is_current_link`: it is one of the section's links.
    """

    section: NavSection
    url: str
    links: tuple[NavLink, ...]
    current: bool
    is_current_link: bool


def entries_for(user: Any, path: str) -> tuple[NavEntry, ...]:
    """Return the navigation sections that `user` may open. The one that has `path` is current.

    Users with the same permissions get the same objects.
    """
    permissions = frozenset(one for one in _PERMISSIONS if access.may(user, one))
    urls = (url for _, pages in _open_with(permissions) for _, url in pages)
    inside = max((url for url in urls if _is_under(path, url)), key=len, default="")
    return _entries(permissions, inside, inside == path)


_PERMISSIONS: Final = frozenset(page.permission for section in SECTIONS for page in section.pages)


@lru_cache(maxsize=64)
def _open_with(permissions: frozenset[str]) -> list[tuple[NavSection, list[tuple[NavPage, str]]]]:
    """Return the sections that these permissions allow, with their pages and URLs."""
    entries = []
    for section in SECTIONS:
        pages = [
            (page, url)
            for page in section.pages
            if page.permission in permissions and (url := _address(page.route))
        ]
        if pages:
            entries.append((section, pages))
    return entries


@lru_cache(maxsize=512)
def _entries(
    permissions: frozenset[str], inside: str, is_current_link: bool
) -> tuple[NavEntry, ...]:
    return tuple(
        NavEntry(
            section,
            pages[0][1],
            tuple(
                NavLink(page.label, url, page.key, page.group, url == inside) for page, url in pages
            ),
            current=(current := any(url == inside for _, url in pages)),
            is_current_link=current and is_current_link,
        )
        for section, pages in _open_with(permissions)
    )


def _is_under(path: str, url: str) -> bool:
    return path == url or (url != "/" and path.startswith(url))


def _address(route: str) -> str:
    """Return the URL of a route; empty if the route does not exist."""
    try:
        return reverse(route)
    except NoReverseMatch:
        return ""


@pass_context
def nav_entries(context: Context) -> tuple[NavEntry, ...]:
    """Return the navigation sections of this user."""
    request: HttpRequest = context["request"]
    return entries_for(request.user, request.path)


def environment() -> str:
    """Return `sandbox` or `production`: the service that the data of the page comes from."""
    return str(getattr(settings, "MANAGEMENT_ENV", "sandbox"))


@pass_context
def theme(context: Context) -> str:
    """Return the theme that the user chose: `light` or `dark`, empty to follow the system.

    Before sign-in it comes from a cookie.
    """
    if "request" not in context:
        return ""
    request: HttpRequest = context["request"]
    user = getattr(request, "user", None)
    cookie_theme = request.COOKIES.get(settings.THEME_COOKIE_NAME, "")
    chosen = user.theme if isinstance(user, User) else cookie_theme
    return chosen if chosen in ("light", "dark") else ""


@pass_context
def preference(context: Context, name: str) -> Any:
    """Return a preference of this user; the field's default if nobody is signed in."""
    user = getattr(context.get("request"), "user", None)
    return getattr(user if isinstance(user, User) else _NOBODY, name)


_NOBODY: Final = User()


@pass_context
def roles(context: Context) -> str:
    """Return the roles of the user as text, for the corner of the page."""
    held = access.roles_of(context["request"].user)
    names = sorted(access.role_label(role).lower() for role in held)
    return ", ".join(names) or gettext("no role")


@pass_context
def cursor(context: Context) -> str:
    """Return the cursor of this page for live updates, for `components/live.html`."""
    return live.current_snapshot(context["request"].user)


@pass_context
def session_left(context: Context) -> dict[str, int]:
    """Return the seconds until this session ends, and how long before that to show a warning."""
    seconds, _ = limits.remaining_time(context["request"])
    return {"left": seconds, "warned": limits.warning_seconds()}


@pass_context
def printed(context: Context) -> dict[str, str]:
    """Return the time zone of the page and, for print, the time and the name of the user."""
    now = timezone.localtime()
    user = getattr(context.get("request"), "user", None)
    return {
        "zone": long_zone_name(now),
        "name": user.get_full_name() if isinstance(user, User) else gettext("nobody"),
        "time": f"{calendar_day(now)}, {hour(now)}",
    }
