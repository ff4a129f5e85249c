"""Storage of messages for the next page: a cookie of this host only.

Messages that do not fit into the cookie are stored in the session.
"""

from __future__ import annotations

from django.conf import settings
from django.contrib.messages.storage.cookie import CookieStorage
from django.contrib.messages.storage.fallback import FallbackStorage
from django.contrib.messages.storage.session import SessionStorage


class _Cookie(CookieStorage):
    cookie_name = settings.MESSAGES_COOKIE_NAME


class Storage(FallbackStorage):
    storage_classes = (_Cookie, SessionStorage)
