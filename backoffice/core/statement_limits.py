"""What the statements of pages may take: so long, so much memory. Workers, commands and migrations
have all the time."""

from __future__ import annotations

from typing import Final

from django.conf import settings
from django.db import connections

WORK_MEM: Final = "16MB"
"""So much a sort or a hash may take before it goes to disk. A million names still fit: told from
others by a hash, an order takes nothing; one by one, a list would never be done."""


def limit_statements() -> None:
    """For connections of this process that are still to be made: PostgreSQL gives up on what takes
    longer. With 0 that of the role holds, where it has one."""
    limits = connections.settings["default"]["SESSION_SETTINGS"]
    limits["work_mem"] = WORK_MEM
    if settings.PAGE_STATEMENT_SECONDS:
        limits["statement_timeout"] = f"{settings.PAGE_STATEMENT_SECONDS}s"
