"""`SESSION_ENGINE`: sessions in the database, found by one plain statement, ended by the clock.

Every page and every question of `live.py` begins with that statement; making it anew each time took
longer than the statement. A session whose time is over is not found: idle and absolute limits
(`accounts/limits.py`) need no further look.
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
"""In a session: seconds since 1970 at the log-in."""
ORIGIN_KEY: Final = "origin"
"""In a session: address and browser of the log-in."""

_FIND: Final = (
    f"SELECT {columns(StaffSession)} FROM backoffice_staffsession"  # noqa: S608 - our names
    " WHERE session_key = %s AND expire_date > %s"
)


class SessionStore(db.SessionStore):
    expires_at: datetime | None = None
    """When the row says it ends, once it was read."""

    @classmethod
    def get_model_class(cls) -> type[StaffSession]:
        return StaffSession

    def _get_session_from_db(self) -> Any:
        for found in read(StaffSession, _FIND, [self.session_key, timezone.now()]):
            self.expires_at = found.expire_date
            return found
        self._session_key = None
        return None

    def get_expiry_date(self, **_: Any) -> datetime:
        """When it ends if nothing is done from now on. Before anybody has logged in a session
        holds nothing but the token of a form, which may stand open for long."""
        return self.end_after(timezone.now())

    def end_after(self, acted_at: datetime) -> datetime:
        """When it ends if nothing is done after `acted_at`."""
        longest = self.longest()
        if longest is None:
            return acted_at + timedelta(seconds=settings.SESSION_COOKIE_AGE)
        return min(acted_at + timedelta(seconds=settings.SESSION_IDLE_SECONDS), longest)

    def longest(self) -> datetime | None:
        """When it ends whatever is done; None before a log-in."""
        began = self.get(STARTED_AT_KEY)
        if began is None:
            return None
        return datetime.fromtimestamp(began + settings.SESSION_COOKIE_AGE, UTC)

    def create_model_instance(self, data: dict[str, Any]) -> StaffSession:
        known = SESSION_KEY in data
        if known:
            data.setdefault(STARTED_AT_KEY, time.time())
        row = super().create_model_instance(data)
        assert isinstance(row, StaffSession)
        self.expires_at = row.expire_date
        if known:
            row.user_id = int(data[SESSION_KEY])
            row.began_at = datetime.fromtimestamp(data[STARTED_AT_KEY], UTC)
            row.ip, row.agent = data.get(ORIGIN_KEY) or (None, "")
        row.seen_at = timezone.now()
        return row
