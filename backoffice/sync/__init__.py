"""Keep the mirror equal to the service.

Two kinds of work, both rows in PostgreSQL that any worker may pick up:

- a **sync run** reads one list of the service page by page (`runs.py`, `pagination.py`);
- a **lookup** reads one record by its own call, on schedule or after a change (`lookups.py`).

Each app's `sync.py` defines its lists and lookups and how a record becomes rows.
"""
