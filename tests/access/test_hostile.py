"""The running application under generated hostile requests; `./run chaos http` runs longer."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.access.canaries import ABOUT_PEOPLE
from tests.access.fuzzing import Fuzzer
from tests.access.properties import run_tester
from tests.access.served_data_set import Site, serve_small_data_set
from tests.sync.back_office import BackOffices

FUZZ_SECONDS = 20


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder = Path(tmp_path_factory.mktemp("site"))
    back_offices = BackOffices(os.environ["DATABASE_URL"], folder)
    try:
        with serve_small_data_set(back_offices) as site:
            yield site
    finally:
        back_offices.close()


def test_api_matches_its_description(site: Site, tmp_path: Path) -> None:
    options = ("--phases", "coverage,fuzzing", "--max-examples", "8", "--seed", "1")
    found = run_tester(site, tmp_path, *options, "--generation-deterministic")
    assert found.accepted, found.output
    assert found.operations == 39, found.output
    assert found.cases > 300, found.output


def test_hostile_requests_are_answered_and_reveal_nothing(site: Site) -> None:
    found = Fuzzer(site, seed=1).run(FUZZ_SECONDS)
    assert not found.problems, "\n".join(found.problems[:20])
    assert found.sent > len(site.paths) + 50
    assert not ABOUT_PEOPLE.search(site.back_office.log.read_text(errors="replace"))
