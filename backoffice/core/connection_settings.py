"""Settings of database connections, and `SESSION_SETTINGS`, which each new connection applies.

Session settings are not startup parameters: PgBouncer refuses those, and a PgBouncer that ignores
them drops the limits silently.
"""

from __future__ import annotations

import sys
from typing import Any

import environ
from django.db.backends.base.base import BaseDatabaseWrapper

from backoffice.core.environment import add_error


def database_settings(url: str) -> dict[str, Any]:
    """Return an entry of `DATABASES` for a PostgreSQL URL."""
    database: dict[str, Any] = dict(environ.Env.db_url_config(url))
    if not database.get("NAME"):
        add_error("DATABASE_URL must name a database.")
    options: dict[str, Any] = database.setdefault("OPTIONS", {})
    # `?host=/folder` names a socket. Django's own tools read it from HOST.
    database["HOST"] = options.pop("host", database.get("HOST", ""))
    database["PORT"] = str(options.pop("port", database.get("PORT", "")) or "")
    options.setdefault("connect_timeout", 3)
    options.setdefault("application_name", "backoffice")
    if not str(database["HOST"]).startswith("/"):
        options.setdefault("keepalives_idle", 30)
        options.setdefault("keepalives_interval", 10)
        options.setdefault("keepalives_count", 3)
    return {
        **database,
        "ENGINE": "django.db.backends.postgresql",
        "CONN_MAX_AGE": 60,
        "CONN_HEALTH_CHECKS": True,
        "SESSION_SETTINGS": {
            # A parallel worker takes longer to start than a statement of a page takes.
            "max_parallel_workers_per_gather": "0",
            # A worker that is suspended inside a transaction must not hold its locks forever.
            "idle_in_transaction_session_timeout": "120s",
        },
    }


def delivery_database_settings(database: dict[str, Any]) -> dict[str, Any]:
    """Return the database settings for deliveries, which must be answered within 3 seconds."""
    limits = {"statement_timeout": "3s", "lock_timeout": "200ms", "synchronous_commit": "on"}
    # The webhook code prepares its statements explicitly, with separate values. Automatic
    # preparation of frequent statements is therefore off.
    options = {**database["OPTIONS"], "connect_timeout": 2, "prepare_threshold": sys.maxsize}
    return {
        **database,
        "SESSION_SETTINGS": {**database["SESSION_SETTINGS"], **limits},
        "CONN_MAX_AGE": None,
        "CONN_HEALTH_CHECKS": False,
        "OPTIONS": options,
        "TEST": {"MIRROR": "default"},
    }


def apply_session_settings(connection: BaseDatabaseWrapper, **_signal: Any) -> None:
    """Set all settings in one statement; receiver of `connection_created`."""
    session_settings: dict[str, str] = connection.settings_dict.get("SESSION_SETTINGS", {})
    if not session_settings:
        return
    calls = ", ".join(["set_config(%s, %s, false)"] * len(session_settings))
    values = [word for pair in session_settings.items() for word in pair]
    # Use the cursor of the driver: this is not a statement of a page and must not be counted.
    with connection.connection.cursor() as cursor:
        cursor.execute(f"SELECT {calls}", values)
