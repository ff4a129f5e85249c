"""Check the PostgreSQL settings that keep health data out of its log."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from django.core import checks
from django.db import DatabaseError, connections

SAFE_LOG_SETTINGS: Final = {
    "log_statement": "none",
    "log_min_error_statement": "panic",
    "log_error_verbosity": "terse",
    "log_min_duration_statement": "-1",
    "log_min_duration_sample": "-1",
    "log_parameter_max_length_on_error": "0",
}
"""PostgreSQL errors quote the failing row, and statements contain values. With these settings the
server logs neither."""

_SETTINGS: Final = "SELECT name, setting FROM pg_settings WHERE name = ANY(%s)"


def unsafe_log_settings(alias: str = "default") -> list[str]:
    """Return the settings that differ from `SAFE_LOG_SETTINGS`, as `name = value` to set."""
    with connections[alias].cursor() as cursor:
        cursor.execute(_SETTINGS, [list(SAFE_LOG_SETTINGS)])
        values = dict(cursor.fetchall())
    return [
        f"{name} = {value}"
        for name, value in SAFE_LOG_SETTINGS.items()
        if values.get(name, value) != value
    ]


def check_log_settings(
    databases: Collection[str] | None = None, **_: object
) -> list[checks.CheckMessage]:
    """Warn about unsafe log settings.

    Django runs this check in `manage.py migrate` and `manage.py check --database default`.
    """
    if "default" not in (databases or ()):
        return []
    try:
        unsafe = unsafe_log_settings()
    except DatabaseError:
        return []  # The command that needs the database reports this error.
    if not unsafe:
        return []
    words = "PostgreSQL may write health data into its own log."
    return [checks.Warning(words, hint=f"Set {'; '.join(unsafe)}.", id="backoffice.W001")]
