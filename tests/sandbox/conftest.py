"""A larger world for the calls of the interface: raw HTTP beside SQL on its database."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, LiteralString

import httpx
import psycopg
import pytest

from tests.sandboxes import running

TEAM_KEY = {"x-service-api-key": "sk_us_local_sandbox"}
MANAGEMENT_KEY = {"X-Management-Key": "mg_local_sandbox"}


@dataclass(frozen=True)
class Sandbox:
    """A running sandbox: HTTP with the team key, and SQL straight to its database."""

    base_url: str
    http: httpx.Client
    database: psycopg.Connection[tuple[Any, ...]] = field(repr=False)
    team_id: str = "7ea00000-0000-4000-8000-000000000001"
    org_id: str = "0d4f7c1e-0000-4000-8000-00000000c11c"

    def get(self, path: str, **params: Any) -> Any:
        """The body of a 200 answer."""
        answer = self.http.get(path, params=params)
        assert answer.status_code == 200, (path, answer.status_code, answer.text[:500])
        return answer.json()

    def rows(self, sql: LiteralString, *values: Any) -> list[tuple[Any, ...]]:
        return self.database.execute(sql, values).fetchall()

    def value(self, sql: LiteralString, *values: Any) -> Any:
        rows = self.rows(sql, *values)
        assert rows, "the made-up world holds no such row"
        return rows[0][0]

    def column(self, sql: LiteralString, *values: Any) -> list[Any]:
        return [row[0] for row in self.rows(sql, *values)]


@pytest.fixture(scope="package")
def sandbox() -> Iterator[Sandbox]:
    """A world of 260 users and 1,500 orders in which nothing moves by itself."""
    with (
        running(users=260, orders=1500, seed=11) as world,
        httpx.Client(base_url=world.url, headers=TEAM_KEY, timeout=30) as http,
        psycopg.connect(world.database_url, autocommit=True) as database,
    ):
        yield Sandbox(world.url, http, database)
