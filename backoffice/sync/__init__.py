"""Keeping the mirror equal to the service.

Two kinds of work, both rows in PostgreSQL that any worker may pick up:

- a **run** walks one list of the service page by page (`runs.py`, `walks.py`);
- a **look-up** reads one record by its own call, now and again (`lookups.py`).

Each app's `sync.py` says what its lists and look-ups are and how a record becomes rows.
"""

from backoffice.sync.lookups import Subject, drain, mark, mark_all
from backoffice.sync.missing_records import InCreationOrder, InWholeList, flagging, looking_up
from backoffice.sync.pagination import Batch, WalkError, by_creation, by_cursor, by_number, once
from backoffice.sync.runs import LONGEST, SLICE, Listing, prune, request, tick, work

__all__ = [
    "LONGEST",
    "SLICE",
    "Batch",
    "InCreationOrder",
    "InWholeList",
    "Listing",
    "Subject",
    "WalkError",
    "by_creation",
    "by_cursor",
    "by_number",
    "drain",
    "flagging",
    "looking_up",
    "mark",
    "mark_all",
    "once",
    "prune",
    "request",
    "tick",
    "work",
]
