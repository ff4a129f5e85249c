"""The client of the configured service, with one connection pool per process."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Protocol

from django.conf import settings

from backoffice.core import duration_metrics, request_ids
from backoffice.service import Service, Watch, errors


class Observer(Protocol):
    """Receives every attempt of this process to call the service; from any thread."""

    def began(self, operation: str) -> None: ...

    def failed(self, error: errors.ServiceError) -> None: ...

    def ended(self, operation: str, outcome: str, seconds: float) -> None: ...


_observers: list[Observer] = []


@contextmanager
def observe_calls(observer: Observer) -> Iterator[None]:
    _observers.append(observer)
    try:
        yield
    finally:
        _observers.remove(observer)


def _on_began(operation: str) -> None:
    for observer in _observers:
        observer.began(operation)


def _on_failed(error: errors.ServiceError) -> None:
    for observer in _observers:
        observer.failed(error)


def _on_ended(operation: str, outcome: str, seconds: float) -> None:
    duration_metrics.record_call(operation, outcome, seconds)
    for observer in _observers:
        observer.ended(operation, outcome, seconds)


@cache
def service() -> Service:
    """Return the shared client of this process. Call it after a worker forks, never before."""
    return new_service_client()


def new_service_client(
    *,
    key_header: str | None = None,
    management_key_header: str | None = None,
    deadline: float = 20.0,
    attempts: int = 3,
) -> Service:
    """Return a new client of the configured service, with its own connections: close it.

    `key_header` and `management_key_header` take the place of the configured names. `deadline`:
    seconds of each read. `attempts`: how often a read is tried.
    """
    return Service(
        settings.SERVICE_BASE_URL,
        settings.SERVICE_API_KEY,
        key_header=key_header or settings.SERVICE_API_KEY_HEADER,
        order_create_path=settings.SERVICE_ORDER_CREATE_PATH,
        management_url=settings.MANAGEMENT_BASE_URL,
        management_key=settings.MANAGEMENT_KEY,
        management_key_header=management_key_header or settings.MANAGEMENT_KEY_HEADER,
        management_org_id=settings.MANAGEMENT_ORG_ID,
        management_env=settings.MANAGEMENT_ENV,
        management_region=settings.MANAGEMENT_REGION,
        watch=Watch(
            request_id=request_ids.current.get, began=_on_began, failed=_on_failed, ended=_on_ended
        ),
        deadline=deadline,
        attempts=attempts,
    )
