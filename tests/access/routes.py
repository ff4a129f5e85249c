"""Every URL of the back office, from the URLconf, with sample arguments."""

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
_UNKNOWN: Final = {
    "uuid": "00000000-0000-4000-8000-00000000dead",
    "int": "999999999",
    "slug": "no-such-thing",
    "path": "no/such:thing",
    "str": "no such thing",
}
"""Valid arguments for which no record exists."""
_MALFORMED: Final = {
    "uuid": "00000000-0000-4000-8000-00000000dea",
    "int": "99999999999999999999999999",
    "slug": "%00'\"<script>",
    "path": "%00/%ED%A0%80/..%2f'",
    "str": "%00'\"<script>",
}
"""Malformed arguments, including those that fit the route but no column."""


SEARCHES: Final = {"api-patients-search": "/api/patients/search/"}
"""API URLs that read by POST, by their names."""


@dataclass(frozen=True, slots=True)
class Route:
    """A route; `address` contains its parameters in angle brackets."""

    name: str
    address: str
    view: Callable[..., Any]

    @property
    def parameters(self) -> list[tuple[str, str]]:
        """Return converter and name of each parameter."""
        return [(kind or "str", name) for kind, name in _PARAMETER.findall(self.address)]

    @property
    def is_api(self) -> bool:
        return self.address.startswith("api/")

    @property
    def required_permissions(self) -> tuple[str, ...]:
        """Return the required permissions; for the API including `api.read`, which every API URL
        needs."""
        declared = declared_permissions(self.view) or ()
        if declared == (SIGNED_IN,):
            return ()
        return (*declared, "api.read") if declared and self.is_api else declared

    @property
    def is_public(self) -> bool:
        return declared_permissions(self.view) == ()

    def fill_path(self, sample: Callable[[Route, str], str | None]) -> str:
        """Return a path of this route. Raises LookupError when a parameter has no sample."""
        path = f"/{self.address}".removesuffix("$")
        for found in _PARAMETER.finditer(self.address):
            value = sample(self, found[2])
            if value is None:
                raise LookupError(f"{self.name} has no sample of {found[2]}: add one to SAMPLES")
            path = path.replace(found[0], value, 1)
        return path

    def unknown_path(self) -> str:
        kinds = {name: kind for kind, name in self.parameters}
        return self.fill_path(lambda _, name: _UNKNOWN[kinds[name]])

    def malformed_path(self) -> str:
        kinds = {name: kind for kind, name in self.parameters}
        return self.fill_path(lambda _, name: _MALFORMED[kinds[name]])


def all_routes(
    resolver: URLResolver | None = None, prefix: str = "", space: str = ""
) -> Iterator[Route]:
    for entry in (resolver or get_resolver()).url_patterns:
        address = prefix + str(entry.pattern)
        if isinstance(entry, URLPattern):
            yield Route(f"{space}{entry.name or address}", address, entry.callback)
        else:
            inner = f"{space}{entry.namespace}:" if entry.namespace else space
            yield from all_routes(entry, address, inner)


def sample_id(route: Route, name: str) -> str | None:
    """Return the sample of a parameter from the database of Django's connection."""
    if name == "object_id":
        return _admin_sample_id(route)
    statement = ROUTE_SAMPLES.get((route.name, name)) or SAMPLES.get(name)
    if statement is None:
        return None
    with connection.cursor() as cursor:
        cursor.execute(statement)
        row = cursor.fetchone()
    return str(row[0]) if row else None


def _admin_sample_id(route: Route) -> str | None:
    """Return the ID of the first record of the model that the route name contains."""
    app, model, _ = route.name.removeprefix("admin:").split("_")
    first = apps.get_model(app, model)._default_manager.order_by("pk").first()
    return str(first.pk) if first else None
