"""Send one message by HTTP, with its intended failures."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from datetime import datetime

import httpx
from django.conf import settings

from sandbox import clock
from sandbox.deliveries import faults, signing

TIMEOUT_SECONDS = 15
TIMEOUT = httpx.Timeout(TIMEOUT_SECONDS).as_dict()
LONGEST_ANSWER = 65_536  # bytes worth reading to keep the connection
NO_ANSWER = 0


@dataclass(frozen=True, slots=True)
class Job:
    """A claimed message. `is_copy`: it has been delivered and is sent once more."""

    number: int
    message_id: str
    endpoint_id: str
    url: str
    headers: dict[str, str]
    keys: list[bytes]
    body: bytes
    event_type: str
    attempts: int
    is_copy: bool
    forgery: str
    age: int
    give_back_at: float
    """Monotonic time: if it is not sent by then, it is given back to be leased again."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of a job; `status` None: it was not tried."""

    job: Job
    status: int | None
    at: datetime
    swallowed: int = 0

    @property
    def succeeded(self) -> bool:
        return self.status is not None and 200 <= self.status < 300


class Sender:
    """Sends jobs; every thread that calls it keeps its own connections."""

    def __init__(self) -> None:
        self._local = threading.local()

    def send(self, job: Job) -> Outcome:
        if time.monotonic() > job.give_back_at:
            return Outcome(job, None, clock.real_now())
        prefix = settings.WEBHOOK_HEADER_PREFIX
        now = int(time.time())
        swallowed = 0
        if job.forgery:
            headers, body = faults.forge_request(
                job.forgery, job.keys, job.message_id, now, job.body, prefix
            )
            swallowed += self._post(job, headers, body) // 100 == 2
        if job.age:
            headers = signing.headers(job.keys, job.message_id, now - job.age, job.body, prefix)
            swallowed += self._post(job, headers, job.body) // 100 == 2
        headers = signing.headers(job.keys, job.message_id, int(time.time()), job.body, prefix)
        status = self._post(job, headers, job.body)
        return Outcome(job, status, clock.real_now(), swallowed)

    def _post(self, job: Job, headers: dict[str, str], body: bytes) -> int:
        """The status of the answer; redirects are not followed."""
        try:
            request = httpx.Request(
                "POST",
                job.url,
                headers={
                    **job.headers,
                    "content-type": "application/json",
                    "user-agent": "sandbox-webhooks",
                    **headers,
                },
                content=body,
                extensions={"timeout": TIMEOUT},
            )
            answer = self._transport().handle_request(request)
            length = answer.headers.get("content-length", "")
            if length.isdecimal() and int(length) <= LONGEST_ANSWER:
                answer.read()
            answer.close()
        except (httpx.HTTPError, httpx.InvalidURL, ValueError):
            return NO_ANSWER
        return answer.status_code

    def _transport(self) -> httpx.HTTPTransport:
        transport = getattr(self._local, "transport", None)
        if transport is None:
            transport = self._local.transport = httpx.HTTPTransport()
        return transport
