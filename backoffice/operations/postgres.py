"""Settings of PostgreSQL on which the safety of health data hangs."""

from __future__ import annotations

from typing import Any, Final

from django.core import checks
from django.db import DatabaseError, connections

SILENT: Final = {
    "log_statement": "none",
    "log_min_error_statement": "panic",
    "log_error_verbosity": "terse",
    "log_min_duration_statement": "-1",
    "log_min_duration_sample": "-1",
    "log_parameter_max_length_on_error": "0",
}
"""An error quotes the row it failed on, and a statement holds the values it was called with: with
these settings neither reaches the server's log."""

_SETTINGS: Final = "SELECT name, setting FROM pg_settings WHERE name = ANY(%s)"


def talkative(alias: str = "default") -> list[str]:
    """The settings that differ, as `name = value` to set."""
    with connections[alias].cursor() as cursor:
        cursor.execute(_SETTINGS, [list(SILENT)])
        found = dict(cursor.fetchall())
    return [
        f"{name} = {value}" for name, value in SILENT.items() if found.get(name, value) != value
    ]


def keeps_quiet(databases: Any = None, **_: Any) -> list[checks.CheckMessage]:
    """Run by `manage.py migrate` and `manage.py check --database default`."""
    if "default" not in (databases or ()):
        return []
    try:
        found = talkative()
    except DatabaseError:
        return []  # said by whatever needs the database
    if not found:
        return []
    words = "PostgreSQL may write health data into its own log."
    return [checks.Warning(words, hint=f"Set {'; '.join(found)}.", id="backoffice.W001")]
