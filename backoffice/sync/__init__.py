"""Keep the mirror equal to the service.

Two kinds of work, both rows in PostgreSQL that any worker may pick up:

- a **sync run** reads one list of the service page by page (`runs.py`, `pagination.py`);
- a **lookup** reads one record by its own call, on schedule or after a change (`lookups.py`).

Each app's `sync.py` defines its lists and lookups and how a record becomes rows.
"""

from backoffice.sync.lookups import (
    LookupType,
    run_due_lookups,
    schedule_lookups,
    schedule_lookups_by_kind,
)
from backoffice.sync.missing_records import (
    SortedListComparison,
    UnsortedListComparison,
    flag_suspects,
    look_up_suspects,
)
from backoffice.sync.pagination import (
    Batch,
    PaginationError,
    batches_by_creation,
    batches_by_cursor,
    batches_by_number,
    single_batch,
)
from backoffice.sync.runs import (
    MAX_TASK_SECONDS,
    TIME_SLICE_SECONDS,
    SyncedList,
    delete_old_runs,
    request_run,
    tick,
    work_on_run,
)

__all__ = [
    "MAX_TASK_SECONDS",
    "TIME_SLICE_SECONDS",
    "Batch",
    "LookupType",
    "PaginationError",
    "SortedListComparison",
    "SyncedList",
    "UnsortedListComparison",
    "batches_by_creation",
    "batches_by_cursor",
    "batches_by_number",
    "delete_old_runs",
    "flag_suspects",
    "look_up_suspects",
    "request_run",
    "run_due_lookups",
    "schedule_lookups",
    "schedule_lookups_by_kind",
    "single_batch",
    "tick",
    "work_on_run",
]
