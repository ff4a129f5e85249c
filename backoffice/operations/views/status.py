"""`/health/status` and `/metrics` for monitors; the status page and the release of a hold."""

from __future__ import annotations

import hmac

from django.conf import settings
from django.contrib import messages
from django.contrib.auth.decorators import login_not_required
from django.db import DatabaseError
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBase, JsonResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext, gettext_noop
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_POST, require_safe
from prometheus_client import CONTENT_TYPE_LATEST

from backoffice.accounts import second_factor
from backoffice.accounts.access import may, public, requires, staff_user
from backoffice.accounts.models import User
from backoffice.audit.recording import record_entry
from backoffice.core import heartbeats
from backoffice.operations import metrics, status


@public
@login_not_required
@never_cache
@require_safe
def health_status(request: HttpRequest) -> JsonResponse:
    """Return all figures, `status` (ok, degraded, failing) and its `reasons`; 503 when failing.

    For monitors that send `Authorization: Bearer HEALTH_TOKEN`, and for staff with system.view.
    """
    if not _has_bearer_token(request, settings.HEALTH_TOKEN) and not _may_see(request):
        return JsonResponse(
            {"status": "unauthorized"}, status=401, headers={"WWW-Authenticate": "Bearer"}
        )
    try:
        read = status.read()
    except DatabaseError:
        failure = {"status": "failing", "reasons": ["PostgreSQL does not answer."]}
        return JsonResponse({**failure, "version": settings.VERSION}, status=503)
    body = {
        "status": read.level,
        "reasons": [reason.words for reason in read.reasons],
        "version": settings.VERSION,
        "at": read.at.isoformat(timespec="seconds"),
        **read.figures,
    }
    return JsonResponse(body, status=503 if read.level == "failing" else 200)


def _may_see(request: HttpRequest) -> bool:
    """Return whether the user has system.view and, if one is required, a second factor."""
    user = request.user
    if not isinstance(user, User) or not may(user, "system.view"):
        return False
    return not second_factor.is_missing(request, user)


@public
@login_not_required
@never_cache
@require_safe
def prometheus(request: HttpRequest) -> HttpResponse:
    """Return the metrics to a client that sends `Authorization: Bearer METRICS_TOKEN`.

    If no METRICS_TOKEN is set, answer 404; on a development machine, answer without a token.
    """
    if not settings.METRICS_TOKEN and not settings.LOCAL:
        raise Http404
    if settings.METRICS_TOKEN and not _has_bearer_token(request, settings.METRICS_TOKEN):
        return HttpResponse(status=401, headers={"WWW-Authenticate": "Bearer"})
    return HttpResponse(metrics.text(), content_type=CONTENT_TYPE_LATEST)


def _has_bearer_token(request: HttpRequest, token: str) -> bool:
    scheme, _, sent = request.headers.get("Authorization", "").partition(" ")
    sent_token = sent.strip().encode()
    return bool(token) and scheme == "Bearer" and hmac.compare_digest(sent_token, token.encode())


@requires("system.view")
@require_safe
def page(request: HttpRequest) -> HttpResponse:
    """Show the status page."""
    read = status.read()
    context = {
        "status": read,
        "figures": _figure_groups(read.figures),
        "hold": heartbeats.active_hold(),
    }
    return render(request, "operations/status.html", context)


@requires("commands.decide")
@require_POST
def release(request: HttpRequest) -> HttpResponseBase:
    """Release the hold on sending after a restore."""
    record_entry(request, "change", "hold", ids=["released"])
    if heartbeats.release_hold(staff_user(request).pk):
        messages.success(request, gettext("Sending resumed. Waiting requests are being sent."))
    else:
        messages.info(request, gettext("Sending is no longer on hold."))
    return redirect("operations:status")


_GROUPS = {
    "inbox": gettext_noop("Lab service events"),
    "commands": gettext_noop("Requests by staff"),
    "lookups": gettext_noop("Single records"),
    "sync": gettext_noop("Lists"),
    "queues": gettext_noop("Time since the last answer of each worker queue"),
    "broker": "Redis",
    "database": "PostgreSQL",
    "disk": gettext_noop("Free disk space for reports"),
    "backup": gettext_noop("Last backup"),
}


def _figure_groups(figures: status.Figures) -> list[tuple[str, list[tuple[str, str]]]]:
    return [
        (
            gettext(title),
            [(_label(name), _figure(name, value)) for name, value in figures[group].items()],
        )
        for group, title in _GROUPS.items()
    ]


_LABELS = {
    "waiting": gettext_noop("waiting"),
    "failed": gettext_noop("failed"),
    "quarantined": gettext_noop("of another team"),
    "oldest_seconds": gettext_noop("oldest waiting for"),
    "last_event_seconds": gettext_noop("time since the last event"),
    "silent": gettext_noop("service sends no events"),
    "clock_skew_seconds": gettext_noop("clocks differ by"),
    "clocks_differ": gettext_noop("clocks differ too much"),
    "flooded": gettext_noop("flooded by unsigned deliveries"),
    "body_conflicts": gettext_noop("received again with different content"),
    "sending": gettext_noop("sending"),
    "uncertain": gettext_noop("outcome unknown"),
    "undecided": gettext_noop("needs a decision"),
    "oldest_uncertain_seconds": gettext_noop("oldest unknown outcome"),
    "oldest_undecided_seconds": gettext_noop("oldest needing a decision"),
    "on_hold": gettext_noop("on hold"),
    "sealed": gettext_noop("cannot be decrypted"),
    "due": gettext_noop("due"),
    "failing": gettext_noop("failing"),
    "lists": gettext_noop("lists"),
    "late": gettext_noop("late"),
    "another_team": gettext_noop("key of another team"),
    "data_age_seconds": gettext_noop("age of the oldest list"),
    "service_clock_offset_seconds": gettext_noop("service clock ahead by"),
    "service_clock_jump_seconds": gettext_noop("service clock jumped by"),
    "without_changes_seconds": gettext_noop("time without changes"),
    "misses_changes": gettext_noop("misses changes"),
    "unusually_quiet": gettext_noop("unusually quiet"),
    "ping_seconds": gettext_noop("response time"),
    "sessions": gettext_noop("connections"),
    "sessions_allowed": gettext_noop("connections allowed"),
    "oldest_transaction_seconds": gettext_noop("oldest transaction"),
    "clock_offset_seconds": gettext_noop("clock offset"),
    "free_bytes": gettext_noop("free"),
    "free_share": gettext_noop("free share"),
    "age_seconds": gettext_noop("age"),
}
"""Labels of the figures on the page; monitors use the names themselves."""


def _label(name: str) -> str:
    """Return the label of a figure. The name of a queue is its own label."""
    return gettext(_LABELS[name]) if name in _LABELS else name


def _figure(name: str, value: status.Figure) -> str:
    if value is None:
        return gettext("no answer") if name == "ping_seconds" else gettext("never")
    if isinstance(value, bool):
        return gettext("yes") if value else gettext("no")
    if name.endswith("_bytes"):
        return f"{value / 2**30:,.1f} GB"
    if name.endswith("_share"):
        return f"{value:.0%}"
    if isinstance(value, float):
        if name.startswith("oldest") and not value:
            return gettext("none")
        return f"{value * 1000:.1f} ms" if abs(value) < 1 else status.format_duration(value)
    return f"{value:,}"
