"""One world for all tests of a file."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.core.cache import cache
from django.db import connection

from tests.access import world
from tests.access.visits import probes, undone


@pytest.fixture(scope="module")
def small_world(
    django_db_setup: None, django_db_blocker: Any, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[None]:
    folder = Path(tmp_path_factory.mktemp("reports"))
    with pytest.MonkeyPatch.context() as patch, django_db_blocker.unblock(), undone():
        patch.setattr(settings, "REPORT_FOLDER", folder)
        # The database for tests is made for tests that are marked: this one must not be another.
        assert str(connection.settings_dict["NAME"]).startswith("test_")
        cache.clear()
        world.fill()
        logging.disable(logging.WARNING)  # a line for each of thousands of refusals
        yield
        logging.disable(logging.NOTSET)
        probes.cache_clear()
