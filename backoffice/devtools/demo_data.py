"""What a database holds: nothing, the data of a demo, or the tables of an earlier state."""

from __future__ import annotations

from typing import Final

import psycopg

from backoffice.devtools import embedded

DEMO_ENVIRONMENT: Final = "sandbox us"
"""Value of `environment` in the installation row of a demo database; it is not production."""
INSTALLATION_TABLE: Final = "core_installation"
EARLIER_INSTALLATION_TABLE: Final = "backoffice_installation"
"""Its name before migrations started anew."""


def is_empty(database_url: str) -> bool:
    """Return whether a database has no tables; also False when it cannot be reached."""
    try:
        with psycopg.connect(database_url, connect_timeout=3) as connection:
            tables = connection.execute("SELECT FROM pg_tables WHERE schemaname = 'public' LIMIT 1")
            return tables.fetchone() is None
    except psycopg.Error:
        return False


def is_demo_database(database_url: str) -> bool:
    """Return whether a database has only demo data, with its sandbox database next to it."""
    sandbox_name = f"{embedded.database_name(database_url)}_sandbox"
    with psycopg.connect(database_url, connect_timeout=3) as connection:
        databases = connection.execute("SELECT FROM pg_database WHERE datname = %s", [sandbox_name])
        if databases.fetchone() is None:
            return False
        return all(
            environment == DEMO_ENVIRONMENT
            for table in (INSTALLATION_TABLE, EARLIER_INSTALLATION_TABLE)
            if _has_table(connection, table)
            for (environment,) in connection.execute(f"SELECT environment FROM {table}")  # noqa: S608 - our names
        )


def has_earlier_tables(database_url: str) -> bool:
    """Return whether a database has tables from before migrations started anew."""
    with psycopg.connect(database_url, connect_timeout=3) as connection:
        return _has_table(connection, EARLIER_INSTALLATION_TABLE)


def _has_table(connection: psycopg.Connection, name: str) -> bool:
    return connection.execute("SELECT to_regclass(%s)", [name]).fetchone() != (None,)
