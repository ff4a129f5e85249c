"""The inbox on real connections: deliveries are stored on one of their own, so nothing of a test
can be rolled back. What was written is deleted instead."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from django.db import connection, connections
from pytest_django import DjangoDbBlocker

EMPTY = """
DO $$ DECLARE name text; BEGIN
 FOR name IN SELECT tablename FROM pg_tables WHERE schemaname = 'public' AND (
   tablename ~ '^(webhooks|orders|patients|wearables|labs)_'
   OR tablename ~ '^backoffice_(lookup|unknownvalue|unreadrecord|drift|syncrun)$')
 LOOP EXECUTE format('DELETE FROM %I', name); END LOOP;
END $$
"""


@pytest.fixture
def inbox(django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> Iterator[None]:
    """An empty database that commits."""
    with django_db_blocker.unblock():
        try:
            yield
        finally:
            with connection.cursor() as cursor:
                cursor.execute(EMPTY)
            for door in connections.all():
                door.close()
