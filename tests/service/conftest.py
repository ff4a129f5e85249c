from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest

from backoffice.service import Clock, Service

from .faulty import Faulty, Server, serving

TEAM_KEY = "sk_us_CANARYTEAMKEY"
MANAGEMENT_KEY = "mg_CANARYMANAGEMENTKEY"


@dataclass
class Slept:
    """A sleep that only moves the clock."""

    seconds: list[float] = field(default_factory=list)

    def clock(self) -> Clock:
        return Clock(
            monotonic=lambda: time.monotonic() + sum(self.seconds),
            sleep=self.seconds.append,
        )


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    with serving() as running:
        yield running


@pytest.fixture
def remote(server: Server) -> Faulty:
    return server.fresh()


@pytest.fixture
def slept() -> Slept:
    return Slept()


@pytest.fixture
def service(remote: Faulty, slept: Slept) -> Iterator[Service]:
    with Service(
        remote.url,
        TEAM_KEY,
        management_url=remote.url,
        management_key=MANAGEMENT_KEY,
        management_org_id="0d4f7c1e-0000-4000-8000-00000000c11c",
        clock=slept.clock(),
    ) as client:
        yield client
