"""Rate limits: counters in Redis, one for each client and time window.

All windows begin at the same moment. A client may therefore send up to twice the limit around the
border of two windows. In exchange a client costs one number. Without Redis there is no limit:
staff and scripts go on working, and the System pages show that Redis is down.
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
    """The limit `API_RATE` of each account. It keeps one runaway script from starving staff."""

    _wait = 0.0

    def allow_request(self, request: Request, view: APIView) -> bool:
        self._wait = _count_request(f"user:{request.user.pk}", settings.API_RATE)
        return not self._wait

    def wait(self) -> float:
        return self._wait


def count_failure(request: HttpRequest) -> float:
    """Count a failed authentication of this address. Return the seconds to wait, 0 for none.

    A request with a valid token never counts, because several clients may share an address.
    """
    return _count_request(f"failed:{client_address(request)}", settings.API_FAILED_RATE)


def _count_request(subject: str, rate: tuple[int, int]) -> float:
    """Count one more request. Return the seconds until the next window if it exceeds `rate`."""
    max_requests, seconds = rate
    now = time.time()
    key = f"api:{subject}:{now // seconds:.0f}"
    try:
        try:
            count = cache.incr(key)
        except ValueError:  # the first of its window
            count = 1 if cache.add(key, 1, seconds) else cache.incr(key)
    except (RedisError, OSError, ValueError):
        return 0.0
    return 0.0 if count <= max_requests else seconds - now % seconds
