"""Sessions end when nobody does anything, and after their longest time whatever is done.

Both ends stand in the row of the session (`session_store.py`). What people do moves the first one
on, at most once a minute; what open pages ask by themselves does not: they say so in a header. Two
minutes before the end a page asks how long is left, and warns (`static/backoffice/session.js`).
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

from django.conf import settings
from django.contrib.auth import SESSION_KEY
from django.db import connection
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.middleware.csrf import get_token
from django.utils import timezone
from django.utils.cache import add_never_cache_headers
from django.views.decorators.http import require_http_methods

from backoffice.accounts.session_store import SessionStore
from backoffice.core.access import public

UNATTENDED_HEADER: Final = "X-Unattended"
"""Header of requests that pages make by themselves."""

_EXTEND: Final = """
UPDATE backoffice_staffsession SET expire_date = %s, seen_at = greatest(seen_at, %s)
WHERE session_key = %s
"""


def warning_seconds() -> int:
    """How long before the end people are warned."""
    return min(120, settings.SESSION_IDLE_SECONDS // 2)


def extend_after_request(request: HttpRequest) -> None:
    """Somebody has done something: the session goes on, unless that was noted a moment ago."""
    session = request.session
    if not isinstance(session, SessionStore) or session.expires_at is None:
        return
    if session.modified or SESSION_KEY not in session or UNATTENDED_HEADER in request.headers:
        return
    often = min(60, settings.SESSION_IDLE_SECONDS // 10)
    extend(session, timezone.now(), timedelta(seconds=often))


def extend(session: SessionStore, acted_at: datetime, often: timedelta) -> None:
    """Nothing happens for less than `often`."""
    ends = session.end_after(acted_at)
    if session.expires_at is None or ends - session.expires_at <= often:
        return
    # Not `save`: what another request has put into the session meanwhile stays, and a session that
    # was ended meanwhile stays ended.
    with connection.cursor() as cursor:
        cursor.execute(_EXTEND, [ends, acted_at, session.session_key])
    session.expires_at = ends


def remaining_time(request: HttpRequest) -> tuple[int, bool]:
    """Seconds until the session ends if nothing more is done, and whether that end stands fast."""
    session = request.session
    assert isinstance(session, SessionStore)
    ends = session.expires_at or session.get_expiry_date()
    return _seconds_until(ends), _is_absolute_end(session, ends)


def _is_absolute_end(session: SessionStore, ends: datetime) -> bool:
    longest = session.longest()
    return longest is not None and longest - ends < timedelta(seconds=1)


def _seconds_until(moment: datetime) -> int:
    return max(0, int((moment - timezone.now()).total_seconds()))


def _last_action_at(request: HttpRequest) -> datetime:
    said = request.POST.get("idle", "0")
    seconds = int(said) if said.isascii() and said.isdigit() and len(said) < 7 else 0
    return timezone.now() - timedelta(seconds=seconds)


@public
@require_http_methods(["GET", "POST"])
def session_status(request: HttpRequest) -> HttpResponse:
    """How long the session lasts, asked by open pages. By POST somebody did something on the page,
    `idle` seconds ago, and it goes on from then.

    `{"left": 118, "fixed": false, "who": "7", "token": "…"}`; 401 when it has ended. The token is
    for the forms of the page, which may have been opened before the last log-in. Other sites can
    neither send the cookie (SameSite) nor read the answer.
    """
    user = request.user
    if not user.is_authenticated:
        response = JsonResponse({"left": 0}, status=401)
    else:
        if request.method == "POST" and isinstance(request.session, SessionStore):
            extend(request.session, _last_action_at(request), timedelta(0))
        seconds, fixed = remaining_time(request)
        told = {"left": seconds, "fixed": fixed, "who": str(user.pk), "token": get_token(request)}
        response = JsonResponse(told)
    add_never_cache_headers(response)
    return response
