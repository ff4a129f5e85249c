"""`/health/live` and `/health/ready`, for load balancers, the launcher and quick checks."""

from __future__ import annotations

from threading import Event
from typing import Final

from django.conf import settings
from django.contrib.auth.decorators import login_not_required
from django.db import DatabaseError, connection
from django.db.migrations.executor import MigrationExecutor
from django.http import HttpRequest, JsonResponse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from backoffice.accounts.access import public

MIGRATED: Final = Event()
"""Set when this process has found all migrations applied. They are not checked again, because
nobody unapplies migrations while a process runs."""


@public
@login_not_required
@never_cache
@require_safe
def live(request: HttpRequest) -> JsonResponse:
    """Answer 200 if this process can answer at all. Uses neither PostgreSQL nor Redis."""
    return JsonResponse({"status": "live"})


@public
@login_not_required
@never_cache
@require_safe
def ready(request: HttpRequest) -> JsonResponse:
    """Answer 200 `{"status": "ready", "database": "ok"}`, else 503.

    Without PostgreSQL, or before its migrations, no page can be shown. Redis is not checked:
    without it pages are served, work is delayed, and nothing is lost. While `DRAIN_FILE` exists,
    this instance is about to stop. It still answers requests, but load balancers should send it no
    more.
    """
    if settings.DRAIN_FILE.exists():
        return JsonResponse({"status": "draining"}, status=503)
    database = _database()
    ok = database == "ok"
    body = {"status": "ready" if ok else "not ready", "database": database}
    return JsonResponse(body, status=200 if ok else 503)


def _database() -> str:
    try:
        if not MIGRATED.is_set():
            executor = MigrationExecutor(connection)
            if executor.migration_plan(executor.loader.graph.leaf_nodes()):
                return "migrations missing"
            MIGRATED.set()
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
    except DatabaseError:
        return "unreachable"
    return "ok"
