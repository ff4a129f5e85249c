"""Limits that a connection sets for itself when it is made: `SESSION_SETTINGS` of its database.

Not as parameters of its start: PgBouncer refuses those, and one that is told to ignore them drops
the limits in silence.
"""

from __future__ import annotations

from typing import Any

from django.db.backends.base.base import BaseDatabaseWrapper


def apply_session_settings(connection: BaseDatabaseWrapper, **_signal: Any) -> None:
    """Receiver of `connection_created`: one statement for all of them."""
    wanted: dict[str, str] = connection.settings_dict.get("SESSION_SETTINGS", {})
    if not wanted:
        return
    calls = ", ".join(["set_config(%s, %s, false)"] * len(wanted))
    values = [word for pair in wanted.items() for word in pair]
    # Of the driver: no statement of a page, and none that is counted.
    with connection.connection.cursor() as cursor:
        cursor.execute(f"SELECT {calls}", values)
