"""How long the statements of pages may take. Workers, commands and migrations have all the time."""

from __future__ import annotations

from django.conf import settings
from django.db import connections


def limit_statements() -> None:
    """For connections of this process that are still to be made: PostgreSQL gives up on what takes
    longer. As an option of the connection it costs no statement. With 0 that of the role holds,
    where it has one."""
    if not settings.PAGE_STATEMENT_SECONDS:
        return
    options = connections.settings["default"]["OPTIONS"]
    milliseconds = settings.PAGE_STATEMENT_SECONDS * 1000
    options["options"] = f"{options.get('options', '')} -c statement_timeout={milliseconds}".strip()
