"""`/health/live` and `/health/ready`: for load balancers, the launcher and people in a hurry."""

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

from backoffice.core.access import public

MIGRATED: Final = Event()
"""Set once this process has seen every migration applied: they are not taken back under it."""


@public
@login_not_required
@never_cache
@require_safe
def live(request: HttpRequest) -> JsonResponse:
    """200 while this process answers at all. Touches no server."""
    return JsonResponse({"status": "live"})


@public
@login_not_required
@never_cache
@require_safe
def ready(request: HttpRequest) -> JsonResponse:
    """200 `{"status": "ready", "database": "ok"}`, else 503.

    Without PostgreSQL, or before its migrations, there is no page to show. Redis is no part of it:
    without it work is delayed, nothing is lost, and pages are served. While `DRAIN_FILE` is there
    this instance is about to end: it still answers, and asks for no more.
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
