"""One data set for all tests of a file."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.core.cache import cache
from django.db import connection

from tests.access import data_set
from tests.access.visits import probes, rolled_back


@pytest.fixture(scope="module")
def small_data_set(
    django_db_setup: None, django_db_blocker: Any, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[None]:
    folder = Path(tmp_path_factory.mktemp("reports"))
    with pytest.MonkeyPatch.context() as patch, django_db_blocker.unblock(), rolled_back():
        patch.setattr(settings, "REPORT_FOLDER", folder)
        # The test database is only used for marked tests, so check that this one is no other.
        assert str(connection.settings_dict["NAME"]).startswith("test_")
        cache.clear()
        data_set.fill()
        logging.disable(
            logging.WARNING
        )  # otherwise there is one line for each of thousands of refusals
        yield
        logging.disable(logging.NOTSET)
        probes.cache_clear()
