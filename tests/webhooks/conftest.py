"""The inbox on real connections: deliveries are stored on one of their own, so nothing of a test
can be rolled back. Such tests have a database to themselves, emptied after each."""

from __future__ import annotations

import os
from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest
from django.db import connection, connections
from pytest_django import DjangoDbBlocker

from tests.sync.back_office import BackOffices
from tests.webhooks.rows import know_our_team
from webhooks import receiving

EMPTY = """
DO $$ DECLARE name text; BEGIN
 PERFORM set_config('session_replication_role', 'replica', true); -- records refuse to be deleted
 FOR name IN SELECT tablename FROM pg_tables WHERE schemaname = 'public' AND (
   tablename ~ '^(webhooks|orders|patients|wearables|labs)_'
   OR tablename ~ '^backoffice_(lookup|unknownvalue|unreadrecord|drift|syncrun)$')
 LOOP EXECUTE format('DELETE FROM %I', name); END LOOP;
 UPDATE core_installation SET team_id = NULL;
END $$
"""


@pytest.fixture(scope="session")
def inbox_name(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A migrated database."""
    back_offices = BackOffices(os.environ["DATABASE_URL"], tmp_path_factory.mktemp("inbox"))
    try:
        back_office = back_offices.build("http://127.0.0.1:9")
        yield urlsplit(back_office.database_url).path.lstrip("/")
    finally:
        back_offices.close()


@pytest.fixture
def inbox(inbox_name: str, django_db_blocker: DjangoDbBlocker) -> Iterator[None]:
    """A database that commits, empty but for somebody of our team."""
    before = {alias: connections[alias].settings_dict["NAME"] for alias in connections}
    with django_db_blocker.unblock():
        _use(dict.fromkeys(before, inbox_name))
        know_our_team()
        try:
            yield
        finally:
            receiving._refusal_counter.write()  # Or its timer would write into the next database.
            with connection.cursor() as cursor:
                cursor.execute(EMPTY)
            _use(before)


def _use(names: dict[str, str]) -> None:
    receiving.group_connection().close()
    for alias, name in names.items():
        connections[alias].close()
        connections[alias].settings_dict["NAME"] = name
