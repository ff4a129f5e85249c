"""The running application under made-up and hostile requests; `./run chaos http` asks longer."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.access.canaries import ABOUT_PEOPLE
from tests.access.fuzzing import Fuzzer
from tests.access.properties import tried
from tests.access.served import Site, serving
from tests.sync.house import Houses

SECONDS = 20


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder = Path(tmp_path_factory.mktemp("site"))
    houses = Houses(os.environ["DATABASE_URL"], folder)
    try:
        with serving(houses) as site:
            yield site
    finally:
        houses.close()


def test_the_api_is_as_it_is_described(site: Site, tmp_path: Path) -> None:
    words = ("--phases", "coverage,fuzzing", "--max-examples", "8", "--seed", "1")
    found = tried(site, tmp_path, *words, "--generation-deterministic")
    assert found.accepted, found.said
    assert found.operations == 39, found.said
    assert found.cases > 300, found.said


def test_hostile_requests_are_answered_and_learn_nothing(site: Site) -> None:
    found = Fuzzer(site, seed=1).run(SECONDS)
    assert not found.wrong, "\n".join(found.wrong[:20])
    assert found.sent > len(site.paths) + 50
    assert not ABOUT_PEOPLE.search(site.house.log.read_text(errors="replace"))
