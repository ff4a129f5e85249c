"""Each kind of identity visits every URL, and the responses are stored."""

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
from tests.access.data_set import NO_ROLE
from tests.access.routes import Route, all_routes, sample_id

ANONYMOUS: Final = "anonymous"
TOKEN: Final = "token"
NARROW_TOKEN: Final = "token for labs alone"
NARROW: Final = ("labs.view",)
IDENTITIES: Final = (*ROLES, NO_ROLE, ANONYMOUS, TOKEN, NARROW_TOKEN)


def granted_permissions(identity: str) -> frozenset[str]:
    """Return the permissions; for a token only those of the API."""
    if identity in ROLES:
        return ROLES[identity]
    own = frozenset({"api.read"})
    return {TOKEN: own | set(tokens.SCOPES), NARROW_TOKEN: own | set(NARROW)}.get(
        identity, frozenset()
    ) & ROLES[SERVICE_ACCOUNT]


def _order_subject_query() -> str:
    found = Order.objects.exclude(user=None).order_by("pk")[0]
    return f"?about={Subject('order', str(found.pk), found.user_id).signed()}"


QUERIES: Final[dict[str, Callable[[], str]]] = {
    "live": lambda: "?since=1:1:&about=orders",
    "team:give": _order_subject_query,
    "team:changes": _order_subject_query,
}
"""Routes that show nothing without a query."""


@dataclass(frozen=True, slots=True)
class Probe:
    """One request.

    `route` is the route that its path resolves to; a malformed path may have none.
    """

    route: Route | None
    method: str
    path: str
    is_real: bool = False
    """Whether a record with this ID exists."""

    def __str__(self) -> str:
        return f"{self.method} {self.path} ({self.route.name if self.route else 'no route'})"


@dataclass(frozen=True, slots=True)
class Visit:
    probe: Probe
    status: int
    location: str
    names: str
    values: str
    """The first canary of each kind in the response; empty if there is none."""

    @property
    def is_refused(self) -> bool:
        return self.status in (401, 403) or self.location.startswith(settings.LOGIN_URL)


@cache
def probes() -> tuple[Probe, ...]:
    """Return probes of every route with an existing, an unknown and a malformed ID."""
    routes = {(one.name, one.address): one for one in all_routes()}
    by_view = {id(one.view): one for one in routes.values()}
    found = []
    for route in routes.values():
        if route.address.startswith("webhooks"):
            continue  # answers to signatures, not to people; see tests/webhooks
        existing_path = route.fill_path(_sample) + QUERIES.get(route.name, str)()
        for path in dict.fromkeys((existing_path, route.unknown_path(), route.malformed_path())):
            try:
                target = by_view[id(resolve(unquote(path.partition("?")[0])).func)]
            except Resolver404:
                target = None
            methods = ("GET", "POST") if path == existing_path else ("GET",)
            found += [Probe(target, method, path, path == existing_path) for method in methods]
    return tuple(found)


def probes_of(identity: str) -> list[Probe]:
    """Return the probes of an identity.

    Unknown and malformed IDs are probed with the needed permissions, and by the viewer and
    anonymous. The others would be refused before.
    """
    permissions, probes_all = granted_permissions(identity), identity in ("viewer", ANONYMOUS)
    return [
        probe
        for probe in probes()
        if probe.is_real
        or probes_all
        or probe.route is None
        or permissions.issuperset(probe.route.required_permissions)
    ]


def _sample(route: Route, name: str) -> str | None:
    """Return the ID of the first resource of the list."""
    if not route.is_api:
        return sample_id(route, name)
    client = Client(SERVER_NAME="127.0.0.1")
    client.force_login(User.objects.get(username=ADMINISTRATOR))
    address = f"/{route.address.partition('<')[0]}"
    listed = client.get(address, {"limit": "1"}).json()["results"]
    return quote(str(listed[0]["id"]), safe="/:") if listed else None


@dataclass
class Visitor:
    """A client of one of `IDENTITIES`."""

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
        elif self.identity != ANONYMOUS:
            self.client.force_login(User.objects.get(username=self.identity.replace(" ", "-")))
            self._session = self.client.cookies[settings.SESSION_COOKIE_NAME].value

    def visit_all(self) -> list[Visit]:
        """Visit every URL without lasting changes."""
        return [self._visit(probe) for probe in probes_of(self.identity)]

    def send(self, method: str, path: str, **given: Any) -> Any:
        if self._session:
            self.client.cookies[settings.SESSION_COOKIE_NAME] = self._session
        return self.client.generic(method, path, headers=self.headers, **given)

    def _visit(self, probe: Probe) -> Visit:
        with rolled_back():
            answer = self.send(probe.method, probe.path)
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
def rolled_back() -> Iterator[None]:
    """Roll back what happens inside."""
    block = transaction.atomic()
    # As in Django's own TestCase: the outermost transaction of a view may be inside this one.
    block._from_testcase = True  # type: ignore[attr-defined]
    with block:
        yield
        transaction.set_rollback(True)
