"""Limits of time and memory for statements of web pages.

Workers, commands and migrations have no such limits.
"""

from __future__ import annotations

from typing import Final

from django.conf import settings
from django.db import connections

WORK_MEM: Final = "16MB"
"""Memory of one sort or hash before it spills to disk. A hash over a million names still fits, and
without one such a list would never finish."""


def limit_statements() -> None:
    """Limit the statements of all connections that this process opens from now on.

    PostgreSQL cancels a statement that takes longer. With PAGE_STATEMENT_SECONDS 0 the timeout of
    the database role applies, if it has one.
    """
    limits = connections.settings["default"]["SESSION_SETTINGS"]
    limits["work_mem"] = WORK_MEM
    if settings.PAGE_STATEMENT_SECONDS:
        limits["statement_timeout"] = f"{settings.PAGE_STATEMENT_SECONDS}s"
