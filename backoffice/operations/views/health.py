"""`/health/live` and `/health/ready`, for load balancers, the launcher and quick checks."""

from __future__ import annotations

from django.conf import settings
from django.contrib.auth.decorators import login_not_required
from django.http import HttpRequest, JsonResponse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from backoffice.accounts.access import public
from backoffice.operations.readiness import database_state


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
    database = database_state()
    is_ready = database == "ok"
    body = {"status": "ready" if is_ready else "not ready", "database": database}
    return JsonResponse(body, status=200 if is_ready else 503)
