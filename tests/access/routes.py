"""Every address of the back office, by walking the URLconf, with samples for its arguments."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from django.apps import apps
from django.db import connection
from django.urls import URLPattern, URLResolver, get_resolver

from backoffice.accounts.access import SIGNED_IN, declared_permissions
from tests.browser.pages import ROUTE_SAMPLES, SAMPLES

_PARAMETER: Final = re.compile(r"<(?:(\w+):)?(\w+)>")
_STRANGE: Final = {
    "uuid": "00000000-0000-4000-8000-00000000dead",
    "int": "999999999",
    "slug": "no-such-thing",
    "path": "no/such:thing",
    "str": "no such thing",
}
"""Arguments of the right shape that nothing has."""
_BROKEN: Final = {
    "uuid": "00000000-0000-4000-8000-00000000dea",
    "int": "99999999999999999999999999",
    "slug": "%00'\"<script>",
    "path": "%00/%ED%A0%80/..%2f'",
    "str": "%00'\"<script>",
}
"""Arguments of no shape; also those that fit the route and no column."""


SEARCHES: Final = {"api-patients-search": "/api/patients/search/"}
"""Addresses of the API that read by POST, by their names."""


@dataclass(frozen=True, slots=True)
class Route:
    """`address` is the route with its parameters in angle brackets."""

    name: str
    address: str
    view: Callable[..., Any]

    @property
    def parameters(self) -> list[tuple[str, str]]:
        """Converter and name of each."""
        return [(kind or "str", name) for kind, name in _PARAMETER.findall(self.address)]

    @property
    def is_api(self) -> bool:
        return self.address.startswith("api/")

    @property
    def needs(self) -> tuple[str, ...]:
        """Permissions, for the API with the one every address of it needs."""
        declared = declared_permissions(self.view) or ()
        if declared == (SIGNED_IN,):
            return ()
        return (*declared, "api.read") if declared and self.is_api else declared

    @property
    def is_public(self) -> bool:
        return declared_permissions(self.view) == ()

    def filled(self, sample: Callable[[Route, str], str | None]) -> str:
        """A path of this route; LookupError when one of its parameters has no sample."""
        path = f"/{self.address}".removesuffix("$")
        for found in _PARAMETER.finditer(self.address):
            value = sample(self, found[2])
            if value is None:
                raise LookupError(f"{self.name} has no sample of {found[2]}: add one to SAMPLES")
            path = path.replace(found[0], value, 1)
        return path

    def strange(self) -> str:
        kinds = {name: kind for kind, name in self.parameters}
        return self.filled(lambda _, name: _STRANGE[kinds[name]])

    def broken(self) -> str:
        kinds = {name: kind for kind, name in self.parameters}
        return self.filled(lambda _, name: _BROKEN[kinds[name]])


def everything(
    resolver: URLResolver | None = None, prefix: str = "", space: str = ""
) -> Iterator[Route]:
    for entry in (resolver or get_resolver()).url_patterns:
        address = prefix + str(entry.pattern)
        if isinstance(entry, URLPattern):
            yield Route(f"{space}{entry.name or address}", address, entry.callback)
        else:
            inner = f"{space}{entry.namespace}:" if entry.namespace else space
            yield from everything(entry, address, inner)


def of_world(route: Route, name: str) -> str | None:
    """What a parameter stands for in the database of Django's connection."""
    if name == "object_id":
        return _of_administration(route)
    statement = ROUTE_SAMPLES.get((route.name, name)) or SAMPLES.get(name)
    if statement is None:
        return None
    with connection.cursor() as cursor:
        cursor.execute(statement)
        row = cursor.fetchone()
    return str(row[0]) if row else None


def _of_administration(route: Route) -> str | None:
    """The first record of the kind that is in the name of the route."""
    app, model, _ = route.name.removeprefix("admin:").split("_")
    first = apps.get_model(app, model)._default_manager.order_by("pk").first()
    return str(first.pk) if first else None
