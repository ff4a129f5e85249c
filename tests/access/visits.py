"""Somebody of each kind goes to every address, and what came back is kept."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Final
from urllib.parse import quote, unquote

from django.conf import settings
from django.db import transaction
from django.http import HttpResponseBase
from django.test import Client
from django.urls import Resolver404, resolve

from backoffice.accounts.access import ADMINISTRATOR, ROLES, SERVICE_ACCOUNT
from backoffice.accounts.models import User
from backoffice.api import tokens
from backoffice.team.subjects import Subject
from orders.models import Order
from tests.access.canaries import ABOUT_PEOPLE, RESULTS
from tests.access.routes import Route, everything, of_world
from tests.access.world import NO_ROLE

STRANGER: Final = "stranger"
TOKEN: Final = "token"
NARROW_TOKEN: Final = "token for labs alone"
NARROW: Final = ("labs.view",)
IDENTITIES: Final = (*ROLES, NO_ROLE, STRANGER, TOKEN, NARROW_TOKEN)


def granted(identity: str) -> frozenset[str]:
    """Permissions, for a token those of the API alone."""
    if identity in ROLES:
        return ROLES[identity]
    own = frozenset({"api.read"})
    return {TOKEN: own | set(tokens.SCOPES), NARROW_TOKEN: own | set(NARROW)}.get(
        identity, frozenset()
    ) & ROLES[SERVICE_ACCOUNT]


def _about_an_order() -> str:
    found = Order.objects.exclude(user=None).order_by("pk")[0]
    return f"?about={Subject('order', str(found.pk), found.user_id).signed()}"


QUERIES: Final[dict[str, Callable[[], str]]] = {
    "live": lambda: "?since=1:1:&about=orders",
    "team:give": _about_an_order,
    "team:changes": _about_an_order,
}
"""Routes that show nothing without being told what about."""


@dataclass(frozen=True, slots=True)
class Probe:
    """One request. `route` is the one that its path leads to, which a broken one may not."""

    route: Route | None
    method: str
    path: str
    real: bool = False
    """Whether there is something of that id."""

    def __str__(self) -> str:
        return f"{self.method} {self.path} ({self.route.name if self.route else 'no route'})"


@dataclass(frozen=True, slots=True)
class Visit:
    probe: Probe
    status: int
    location: str
    names: str
    values: str
    """The first canary of each kind in the answer; empty where there is none."""

    @property
    def refused(self) -> bool:
        return self.status in (401, 403) or self.location.startswith(settings.LOGIN_URL)


@cache
def probes() -> tuple[Probe, ...]:
    """Every route, with an id that is there, one that is not and one of no shape."""
    routes = {(one.name, one.address): one for one in everything()}
    by_view = {id(one.view): one for one in routes.values()}
    found = []
    for route in routes.values():
        if route.address.startswith("webhooks"):
            continue  # answers to signatures, not to people; tests/webhooks
        real = route.filled(_sample) + QUERIES.get(route.name, str)()
        for path in dict.fromkeys((real, route.strange(), route.broken())):
            try:
                lands = by_view[id(resolve(unquote(path.partition("?")[0])).func)]
            except Resolver404:
                lands = None
            methods = ("GET", "POST") if path == real else ("GET",)
            found += [Probe(lands, method, path, path == real) for method in methods]
    return tuple(found)


def probes_of(identity: str) -> list[Probe]:
    """Ids that are not there are tried by whoever gets as far as that, by the viewer and by
    strangers; the others stand before the same doors."""
    may, curious = granted(identity), identity in ("viewer", STRANGER)
    return [
        probe
        for probe in probes()
        if probe.real or curious or probe.route is None or may.issuperset(probe.route.needs)
    ]


def _sample(route: Route, name: str) -> str | None:
    """The id of a resource is that of the first of its list."""
    if not route.is_api:
        return of_world(route, name)
    client = Client(SERVER_NAME="127.0.0.1")
    client.force_login(User.objects.get(username=ADMINISTRATOR))
    address = f"/{route.address.partition('<')[0]}"
    listed = client.get(address, {"limit": "1"}).json()["results"]
    return quote(str(listed[0]["id"]), safe="/:") if listed else None


@dataclass
class Visitor:
    """One of `IDENTITIES`."""

    identity: str
    client: Client = field(init=False)
    headers: dict[str, str] = field(default_factory=dict)
    _session: str = ""

    def __post_init__(self) -> None:
        self.client = Client(raise_request_exception=False)
        if self.identity in (TOKEN, NARROW_TOKEN):
            account = User.objects.get(username="service-account")
            scopes = tokens.SCOPES if self.identity == TOKEN else NARROW
            self.headers = {"Authorization": f"Token {tokens.issue(account, scopes=scopes)[1]}"}
        elif self.identity != STRANGER:
            self.client.force_login(User.objects.get(username=self.identity.replace(" ", "-")))
            self._session = self.client.cookies[settings.SESSION_COOKIE_NAME].value

    def goes(self) -> list[Visit]:
        """To every address, and leaves it as it was."""
        return [self._visit(probe) for probe in probes_of(self.identity)]

    def ask(self, method: str, path: str, **given: Any) -> Any:
        if self._session:
            self.client.cookies[settings.SESSION_COOKIE_NAME] = self._session
        return self.client.generic(method, path, headers=self.headers, **given)

    def _visit(self, probe: Probe) -> Visit:
        with undone():
            answer = self.ask(probe.method, probe.path)
            body = body_of(answer)
        names, values = ABOUT_PEOPLE.search(body), RESULTS.search(body)
        return Visit(
            probe,
            answer.status_code,
            answer.headers.get("Location", ""),
            names[0] if names else "",
            values[0] if values else "",
        )


def body_of(answer: HttpResponseBase) -> str:
    content = b"".join(answer) if answer.streaming else answer.content  # type: ignore[attr-defined]
    return str(content.decode(errors="replace"))


@contextlib.contextmanager
def undone() -> Iterator[None]:
    """What happens inside has not happened."""
    block = transaction.atomic()
    # As in Django's own TestCase: the outermost transaction of a view may stand inside this one.
    block._from_testcase = True  # type: ignore[attr-defined]
    with block:
        yield
        transaction.set_rollback(True)
