"""How often somebody may ask: counters in Redis, one for each of them and stretch of time.

A stretch begins for everybody at the same moment, so up to twice as many may come across the
border of two; in exchange it costs one number. Without Redis nobody is held back: staff and
scripts go on working, and System says that Redis is down.
"""

from __future__ import annotations

import time

from django.conf import settings
from django.core.cache import cache
from django.http import HttpRequest
from redis.exceptions import RedisError
from rest_framework.request import Request
from rest_framework.throttling import BaseThrottle
from rest_framework.views import APIView

from backoffice.core.request_ids import client_address


class ReadRate(BaseThrottle):
    """Keeps one runaway script from starving staff: `API_RATE` for each account."""

    _wait = 0.0

    def allow_request(self, request: Request, view: APIView) -> bool:
        self._wait = _over(f"user:{request.user.pk}", settings.API_RATE)
        return not self._wait

    def wait(self) -> float:
        return self._wait


def over_failures(request: HttpRequest) -> float:
    """Seconds to wait where this address has failed to say who it is too often, else 0.

    Whoever shows a good token is let in all the same: an address may be shared.
    """
    return _over(f"failed:{client_address(request)}", settings.API_FAILED_RATE)


def _over(who: str, rate: tuple[int, int]) -> float:
    """Count one more of `who`; seconds until the next stretch when that is more than `rate`."""
    most, seconds = rate
    now = time.time()
    key = f"api:{who}:{now // seconds:.0f}"
    try:
        try:
            count = cache.incr(key)
        except ValueError:  # the first of its stretch
            count = 1 if cache.add(key, 1, seconds) else cache.incr(key)
    except (RedisError, OSError, ValueError):
        return 0.0
    return 0.0 if count <= most else seconds - now % seconds
