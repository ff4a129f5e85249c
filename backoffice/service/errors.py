"""Errors of calls to the service.

::

    ServiceError                 status, route, trace_id, request_id, message
    ├── Refused                  400, 409, 413, 422 and other 4xx: message and fields for staff
    │   ├── Denied               401, 403: the key or the team may not do this
    │   ├── Duplicate            it exists already: existing_id
    │   └── NotEnabled           503 with such a message: the service must enable it
    ├── Missing                  404: unknown, or another team's, or nothing found
    ├── Limited                  429: not executed; retry after retry_after s (at most 300)
    ├── Unreachable              no usable answer, and nothing changed at the service
    │   ├── Malformed            reads only: the answer is not what the interface describes
    │   └── Redirected           reads only: a redirect; the key was not sent to its target
    └── Uncertain                a write whose outcome is unknown: read before sending it again

A write returns its record or raises one of these errors:

- Refused, Missing, or Limited: the write did not happen.
- Unreachable (the class itself, not a subclass): no connection, so the write was never sent.
- Uncertain: a timeout, a dropped connection, 5xx, an answer that cannot be read, or a redirect.
  With an idempotency key also 409: an earlier request with the key is still in progress.

This package never sends a write twice. With an idempotency key, a refusal or a 5xx may be the
stored answer of an earlier request. The service does not mark such an answer.

``str(error)`` and ``repr(error)`` contain only the class, status, reason, route template, and
trace id. ``.message`` contains the text of the service. Staff may see it, but it must never be
logged. Interface: errors and limits, chapter 1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypedDict, Unpack
from uuid import UUID

import msgspec

if TYPE_CHECKING:
    from backoffice.service.payload import Unreadable

RETRY_AFTER_CAP = 300.0
"""The longest wait, in seconds, that the client accepts from the service."""

_NOBODY = UUID(int=0)
_PLACES = ("body", "query", "path", "header")


class FieldError(msgspec.Struct, frozen=True):
    """One entry of a 422 body: the place (``loc``) and the text of the service (``msg``).

    The ``input`` that the body echoes is dropped, because it may hold personal data.
    """

    loc: tuple[str, ...]
    msg: str

    @property
    def path(self) -> str:
        """The place in the body or query, such as ``patient_address.zip``; empty for all of it."""
        start = 1 if self.loc[:1] and self.loc[0] in _PLACES else 0
        return ".".join(self.loc[start:])

    def __repr__(self) -> str:
        return "<FieldError>"

    def __rich_repr__(self) -> list[tuple[str, object]]:
        return []


class ErrorDetails(TypedDict, total=False):
    """The arguments that all errors have."""

    status: int | None
    route: str
    trace_id: str
    request_id: str
    message: str
    reason: str


class ServiceError(Exception):
    """A failed call; ``status`` is None when no answer arrived."""

    def __init__(
        self,
        *,
        status: int | None = None,
        route: str = "",
        trace_id: str = "",
        request_id: str = "",
        message: str = "",
        reason: str = "",
    ) -> None:
        # All arguments are keyword-only with defaults, and `args` is empty, so that the error can
        # be pickled and passed between processes.
        super().__init__()
        self.status = status
        self.route = route
        self.trace_id = trace_id
        self.request_id = request_id
        self.message = message
        self.reason = reason

    def __str__(self) -> str:
        parts = [type(self).__name__]
        if self.status is not None:
            parts.append(str(self.status))
        parts += [part for part in (self.reason, self.route) if part]
        if self.trace_id:
            parts.append(f"trace {self.trace_id}")
        return " ".join(parts)

    def __repr__(self) -> str:
        return f"<{self}>"


class Refused(ServiceError):
    """The service refused the request; ``fields`` is empty when no single field is wrong."""

    def __init__(
        self, *, fields: tuple[FieldError, ...] = (), **details: Unpack[ErrorDetails]
    ) -> None:
        super().__init__(**details)
        self.fields = fields


class Denied(Refused):
    """The key is wrong or lacks the permission, or another team owns the record (401, 403)."""


class Duplicate(Refused):
    """The object to create exists already, with the id ``existing_id``: use that one."""

    def __init__(self, *, existing_id: UUID = _NOBODY, **details: Unpack[ErrorDetails]) -> None:
        super().__init__(**details)
        self.existing_id = existing_id


class NotEnabled(Refused):
    """The team's plan lacks the feature (503 of scheduling at patient service centers).

    A retry does not help. The team must ask the service to enable the feature.
    """


class Missing(ServiceError):
    """The record is unknown or another team's, or nothing was found (404)."""


class Limited(ServiceError):
    """Too many calls (429); ``retry_after`` is the wait in seconds, between 0 and 300."""

    def __init__(self, *, retry_after: float = 0.0, **details: Unpack[ErrorDetails]) -> None:
        super().__init__(**details)
        self.retry_after = min(max(retry_after, 0.0), RETRY_AFTER_CAP)


class Unreachable(ServiceError):
    """No usable answer arrived, and nothing changed at the service: a later retry is safe.

    ``retry_after`` is the wait in seconds that the service asked for (at most 300), or None.
    """

    def __init__(
        self, *, retry_after: float | None = None, **details: Unpack[ErrorDetails]
    ) -> None:
        super().__init__(**details)
        self.retry_after = None if retry_after is None else min(retry_after, RETRY_AFTER_CAP)


class Malformed(Unreachable):
    """The answer is not what the interface describes: HTML, cut short, too large, wrong shape.

    ``unreadable`` holds the record when the call was for one record that does not fit its type.
    """

    def __init__(
        self, *, unreadable: Unreadable | None = None, **details: Unpack[ErrorDetails]
    ) -> None:
        super().__init__(**details)
        self.unreadable = unreadable


class Redirected(Unreachable):
    """The service answered with a redirect, which is never followed to another address."""


class Uncertain(ServiceError):
    """A write was sent and no certain answer arrived: it may have happened.

    ``status`` is None when no response headers arrived.
    """

    @property
    def failed(self) -> bool:
        """Whether the service answered that it failed (5xx); it may have done the work first.

        With an idempotency key the service may give the same answer to every retry.
        """
        return self.status is not None and self.status >= 500
