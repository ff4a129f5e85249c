"""Apply `SESSION_SETTINGS` of a database to each new connection.

They are not startup parameters: PgBouncer refuses those, and a PgBouncer that ignores them drops
the limits silently.
"""

from __future__ import annotations

from typing import Any

from django.db.backends.base.base import BaseDatabaseWrapper


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
