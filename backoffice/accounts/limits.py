"""Time limits of sessions: they end when idle, and after their longest time in any case.

The row of the session holds both limits (`session_store.py`). Requests of a person extend the idle
limit, at most once a minute. Requests that open pages send by themselves do not: they carry a
header. Two minutes before the end, a page asks for the remaining time and warns
(`static/backoffice/session.js`).
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

from django.conf import settings
from django.contrib.auth import SESSION_KEY
from django.db import connection
from django.http import HttpRequest
from django.utils import timezone

from backoffice.accounts.session_store import SessionStore

UNATTENDED_HEADER: Final = "X-Unattended"
"""Header of requests that pages send by themselves."""

_EXTEND: Final = """
UPDATE accounts_staffsession SET expire_date = %s, seen_at = greatest(seen_at, %s)
WHERE session_key = %s
"""


def warning_seconds() -> int:
    """Return how many seconds before the end people are warned."""
    return min(120, settings.SESSION_IDLE_SECONDS // 2)


def extend_after_request(request: HttpRequest) -> None:
    """Extend the session because somebody acted, unless it was extended a moment ago."""
    session = request.session
    if not isinstance(session, SessionStore) or session.expires_at is None:
        return
    if session.modified or SESSION_KEY not in session or UNATTENDED_HEADER in request.headers:
        return
    seconds = min(60, settings.SESSION_IDLE_SECONDS // 10)
    extend(session, timezone.now(), timedelta(seconds=seconds))


def extend(session: SessionStore, acted_at: datetime, min_gain: timedelta) -> None:
    """Extend the session, unless it would gain no more than `min_gain`."""
    ends = session.end_after(acted_at)
    if session.expires_at is None or ends - session.expires_at <= min_gain:
        return
    # Do not use `save`: it would overwrite what another request put into the session meanwhile, and
    # bring back a session that was ended meanwhile.
    with connection.cursor() as cursor:
        cursor.execute(_EXTEND, [ends, acted_at, session.session_key])
    session.expires_at = ends


def remaining_time(request: HttpRequest) -> tuple[int, bool]:
    """Return the seconds until the session ends when idle, and whether that end is absolute."""
    session = request.session
    assert isinstance(session, SessionStore)
    ends = session.expires_at or session.get_expiry_date()
    return _seconds_until(ends), _is_absolute_end(session, ends)


def _is_absolute_end(session: SessionStore, ends: datetime) -> bool:
    absolute_end = session.absolute_end()
    return absolute_end is not None and absolute_end - ends < timedelta(seconds=1)


def _seconds_until(moment: datetime) -> int:
    return max(0, int((moment - timezone.now()).total_seconds()))
