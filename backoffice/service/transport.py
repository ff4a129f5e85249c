"""Sockets with a deadline: a call ends in time even when the other side sends very slowly.

An ordinary read timeout starts again with every byte. Here each timeout contains the end of the
whole call. Each connect, handshake, read, and write gets only the remaining time.
"""

from __future__ import annotations

import functools
import ssl
import time
from collections.abc import Iterable
from typing import Any

import httpcore
import httpx

CONNECT_SECONDS = 3.0
READ_SECONDS = 10.0
CONNECTIONS = 32


class DeadlineSeconds(float):
    """The seconds for one socket operation, and the monotonic end of the whole call."""

    expires: float

    @classmethod
    def of(cls, seconds: float, expires: float) -> DeadlineSeconds:
        until = cls(max(0.0, min(seconds, expires - time.monotonic())))
        until.expires = expires
        return until

    def left(self) -> float:
        return min(float(self), self.expires - time.monotonic())


def timeouts(left: float, read_seconds: float = READ_SECONDS) -> dict[str, float]:
    """Return the httpx timeouts of a request that must end in ``left`` seconds.

    The server may send nothing for up to ``read_seconds``.
    """
    expires = time.monotonic() + left
    return {
        "connect": DeadlineSeconds.of(CONNECT_SECONDS, expires),
        "read": DeadlineSeconds.of(read_seconds, expires),
        "write": DeadlineSeconds.of(READ_SECONDS, expires),
        "pool": max(0.0, left),
    }


def _remaining(timeout: float | None, late: type[Exception]) -> float | None:
    if not isinstance(timeout, DeadlineSeconds):
        return timeout
    left = timeout.left()
    if left <= 0:
        raise late("deadline of the call")
    return left


class _Stream(httpcore.NetworkStream):
    def __init__(self, inner: httpcore.NetworkStream) -> None:
        self._inner = inner

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        return self._inner.read(max_bytes, _remaining(timeout, httpcore.ReadTimeout))

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        self._inner.write(buffer, _remaining(timeout, httpcore.WriteTimeout))

    def close(self) -> None:
        self._inner.close()

    def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,
    ) -> httpcore.NetworkStream:
        left = _remaining(timeout, httpcore.ConnectTimeout)
        return _Stream(self._inner.start_tls(ssl_context, server_hostname, left))

    def get_extra_info(self, info: str) -> Any:
        return self._inner.get_extra_info(info)


class _Backend(httpcore.SyncBackend):
    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.NetworkStream:
        left = _remaining(timeout, httpcore.ConnectTimeout)
        return _Stream(super().connect_tcp(host, port, left, local_address, socket_options))


@functools.cache
def _trust() -> ssl.SSLContext:
    return httpx.create_ssl_context(verify=True, trust_env=False)


class DeadlineTransport(httpx.HTTPTransport):
    """The httpx transport over a connection pool that enforces the deadline.

    It ignores proxy settings in the environment, has no HTTP/2, and always verifies certificates.
    """

    def __init__(self, kept_alive: int = CONNECTIONS) -> None:
        """``kept_alive`` is the number of idle connections that stay open for later calls."""
        context = _trust()
        super().__init__(verify=context, trust_env=False)
        self._pool = httpcore.ConnectionPool(
            ssl_context=context,
            max_connections=CONNECTIONS,
            max_keepalive_connections=kept_alive,
            keepalive_expiry=30.0,
            network_backend=_Backend(),
        )
