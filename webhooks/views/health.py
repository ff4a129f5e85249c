"""`/health/inbox` for monitors. It is public, so it has no figures."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from django.contrib.auth.decorators import login_not_required
from django.db import DatabaseError
from django.http import HttpRequest, JsonResponse
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from backoffice.accounts.access import public
from webhooks import silence
from webhooks.models import Event

MAX_WAIT: Final = timedelta(minutes=1)
"""Longest time for which a due event may wait to be applied."""


@public
@login_not_required
@never_cache
@require_safe
def inbox(request: HttpRequest) -> JsonResponse:
    """Answer 200 `{"status": "ok", "inbox": []}`, or `attention` with its reasons.

    The reasons are silent, clock, failed events, behind, bad signatures, body conflicts. Without
    PostgreSQL, answer 503.
    """
    try:
        reasons = _attention_reasons()
    except DatabaseError:
        return JsonResponse({"status": "unreachable", "inbox": []}, status=503)
    return JsonResponse({"status": "attention" if reasons else "ok", "inbox": reasons})


def _attention_reasons() -> list[str]:
    now = timezone.now()
    delivery_health = silence.read(now)
    reasons = {
        "silent": delivery_health.is_silent,
        "clock": delivery_health.clocks_differ,
        "failed events": Event.objects.failed().exists(),
        "behind": Event.objects.waiting().filter(due_at__lt=now - MAX_WAIT).exists(),
        "bad signatures": silence.is_flooded(),
        "body conflicts": silence.has_body_conflicts(now),
    }
    return [reason for reason, is_present in reasons.items() if is_present]
