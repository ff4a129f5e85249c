"""`SESSION_ENGINE`: sessions in the database, found by one prepared query.

Every page and every poll of `live.py` begins with this query. Building it with the ORM each time
took longer than running it. The query skips expired sessions, so the idle and absolute limits
(`accounts/limits.py`) need no other check.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from django.conf import settings
from django.contrib.auth import SESSION_KEY
from django.contrib.sessions.backends import db
from django.utils import timezone

from backoffice.accounts.models import StaffSession
from backoffice.core.prepared_queries import columns, read

STARTED_AT_KEY: Final = "began"
"""Session key: time of signing in, in seconds since 1970."""
ORIGIN_KEY: Final = "origin"
"""Session key: IP address and browser at signing in."""

_FIND: Final = (
    f"SELECT {columns(StaffSession)} FROM accounts_staffsession"  # noqa: S608 - our names
    " WHERE session_key = %s AND expire_date > %s"
)


class SessionStore(db.SessionStore):
    expires_at: datetime | None = None
    """End of the session according to its row; None until the row was read."""

    @classmethod
    def get_model_class(cls) -> type[StaffSession]:
        return StaffSession

    def _get_session_from_db(self) -> StaffSession | None:
        for session in read(StaffSession, _FIND, [self.session_key, timezone.now()]):
            self.expires_at = session.expire_date
            return session
        self._session_key = None
        return None

    def get_expiry_date(self, **_: object) -> datetime:
        """Return when the session ends if nobody acts from now on.

        Before signing in, a session holds only the token of a form, which may stay open for long.
        """
        return self.end_after(timezone.now())

    def end_after(self, acted_at: datetime) -> datetime:
        """Return when the session ends if nobody acts after `acted_at`."""
        absolute_end = self.absolute_end()
        if absolute_end is None:
            return acted_at + timedelta(seconds=settings.SESSION_COOKIE_AGE)
        return min(acted_at + timedelta(seconds=settings.SESSION_IDLE_SECONDS), absolute_end)

    def absolute_end(self) -> datetime | None:
        """Return when the session ends in any case; None before signing in."""
        started_at = self.get(STARTED_AT_KEY)
        if started_at is None:
            return None
        return datetime.fromtimestamp(started_at + settings.SESSION_COOKIE_AGE, UTC)

    def create_model_instance(self, data: dict[str, Any]) -> StaffSession:
        is_signed_in = SESSION_KEY in data
        if is_signed_in:
            data.setdefault(STARTED_AT_KEY, time.time())
        row = super().create_model_instance(data)
        assert isinstance(row, StaffSession)
        self.expires_at = row.expire_date
        if is_signed_in:
            row.user_id = int(data[SESSION_KEY])
            row.began_at = datetime.fromtimestamp(data[STARTED_AT_KEY], UTC)
            row.ip, row.agent = data.get(ORIGIN_KEY) or (None, "")
        row.seen_at = timezone.now()
        return row
