"""`SESSION_ENGINE`: Django's sessions in the database, found by one plain statement.

Every page and every question of `live.py` begins with it; making the statement anew each time took
longer than the statement.
"""

from __future__ import annotations

from typing import Any, Final

from django.contrib.sessions.backends import db
from django.contrib.sessions.models import Session
from django.utils import timezone

_FIND: Final = "SELECT * FROM django_session WHERE session_key = %s AND expire_date > %s"


class SessionStore(db.SessionStore):
    def _get_session_from_db(self) -> Any:
        for found in Session.objects.raw(_FIND, [self.session_key, timezone.now()]):
            return found
        self._session_key = None
        return None
