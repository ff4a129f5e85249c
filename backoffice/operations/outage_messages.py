"""Messages of a command about problems with the service, while they last.

A failed call is reported at once. A call without an answer has no error yet, so a thread watches
how long it lasts. Each kind of problem is reported once until the service answers again.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from django.conf import settings
from django.utils.translation import gettext_noop

from backoffice.core import service_client
from backoffice.service import errors

FIRST_SECONDS: Final = 0.5
"""Seconds without an answer before the first report. It is short because the person has already
waited for the start of the command, and should get the report within two seconds of it."""
LATER_SECONDS: Final = 1.5
"""The same after the service has answered once. It is longer because long lists take time."""
REPEAT_SECONDS: Final = 30.0
"""Seconds between two messages that the service does not answer."""
POLL_SECONDS: Final = 0.05

REASONS: Final = {
    "ConnectError": gettext_noop(
        "no connection (refused, unknown host, or certificate not trusted)"
    ),
    "ConnectTimeout": gettext_noop("no connection in time"),
    "ReadTimeout": gettext_noop("connected, but no answer in time"),
}

Write = Callable[[str], object]


@contextmanager
def reporting(write: Write) -> Iterator[None]:
    """Report problems with the service by `write`, inside the context."""
    silence = ServiceSilence(write)
    ended = threading.Event()
    thread = threading.Thread(target=silence.watch, args=(ended,), name="silence", daemon=True)
    thread.start()
    try:
        with service_client.observe_calls(silence):
            yield
    finally:
        ended.set()
        thread.join()


class ServiceSilence:
    """Open calls, the time since which there was no answer, and the messages already written."""

    def __init__(self, write: Write) -> None:
        self._write = write
        self._lock = threading.Lock()
        self._under_way = 0
        self._waiting_since = 0.0
        self._has_answered = False
        self._reported: set[str] = set()
        self._slow_at = float("-inf")

    def began(self, operation: str) -> None:
        with self._lock:
            if self._under_way == 0:
                self._waiting_since = time.monotonic()
            self._under_way += 1

    def failed(self, error: errors.ServiceError) -> None:
        if error.status is None:
            reason = REASONS.get(error.reason, f"the connection broke ({error.reason})")
            self._report(f"does not answer: {reason}. Trying again")
        elif isinstance(error, errors.Unreachable | errors.Limited):
            what = f"{error.status} {error.reason}".rstrip()
            self._report(f"answers with an error: {what}. Trying again")

    def ended(self, operation: str, outcome: str, seconds: float) -> None:
        has_answer = outcome.isdecimal() and int(outcome) < 500 and outcome not in ("408", "429")
        with self._lock:
            self._under_way -= 1
            self._waiting_since = time.monotonic()
            if not has_answer:
                return
            self._has_answered = True
            was_reported = bool(self._reported)
            self._reported.clear()
        if was_reported:
            self._write(f"The service answers again ({outcome}).")

    def watch(self, ended: threading.Event) -> None:
        while not ended.wait(POLL_SECONDS):
            now = time.monotonic()
            with self._lock:
                limit = LATER_SECONDS if self._has_answered else FIRST_SECONDS
                waited = now - self._waiting_since if self._under_way else 0.0
                is_new = now - self._slow_at > REPEAT_SECONDS
                if waited < limit or not is_new:
                    continue
                self._slow_at = now
            self._report(f"has not answered for {waited:.1f} s. Waiting")

    def _report(self, words: str) -> None:
        with self._lock:
            if words in self._reported:
                return
            self._reported.add(words)
        self._write(f"The service at {settings.SERVICE_BASE_URL} {words}. Press Ctrl-C to stop.")
