"""What can go wrong when the service is called.

::

    ServiceError                 status, route, trace_id, request_id, message
    ├── Refused                  400, 409, 413, 422 and other 4xx: message and fields for staff
    │   ├── Denied               401, 403: the key or the team may not do this
    │   ├── Duplicate            it exists already: existing_id
    │   └── NotEnabled           503 that says so: the service must switch the feature on
    ├── Missing                  404: unknown, or another team's, or nothing found
    ├── Limited                  429: not executed; come back after retry_after s (at most 300)
    ├── Unreachable              no usable answer, and nothing changed at the service
    │   ├── Malformed            of reads: an answer came, but not one the interface describes
    │   └── Redirected           of reads: pointed elsewhere; the key did not follow
    └── Uncertain                a write whose outcome is unknown: look before sending again

A write ends as its record, or as one of: Refused, Missing, Limited (none of them happened),
Unreachable (no connection: it never left; the class itself, not a subclass) or Uncertain (time,
a dropped connection, 5xx, an answer that cannot be read, a redirect; under an idempotency key
also 409: an earlier request with the key is still at work). It is never sent twice in here. A
refusal or a 5xx under a key may be the kept answer of an earlier request: it does not say.

``str(error)`` and ``repr(error)`` hold the class, status, route template and trace id only. The
service's own words are on ``.message``: for the eyes of staff, never for a log. Interface:
errors and limits, chapter 1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from uuid import UUID

import msgspec

if TYPE_CHECKING:
    from backoffice.service.payload import Unreadable

RETRY_AFTER_CAP = 300.0
"""Longest wait in seconds we let the service ask for."""

_NOBODY = UUID(int=0)
_PLACES = ("body", "query", "path", "header")


class FieldError(msgspec.Struct, frozen=True):
    """One entry of a 422 body: where (``loc``), and the service's words (``msg``).

    The echoed ``input`` of the body is dropped: it may hold personal data.
    """

    loc: tuple[str, ...]
    msg: str

    @property
    def path(self) -> str:
        """Where in the body or query: ``patient_address.zip``; empty for the whole of it."""
        start = 1 if self.loc[:1] and self.loc[0] in _PLACES else 0
        return ".".join(self.loc[start:])

    def __repr__(self) -> str:
        return "<FieldError>"

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        return []


class ServiceError(Exception):
    """Any failed call. ``status`` is None when no answer arrived."""

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
        # Keyword-only with defaults and no args: the error survives pickling between processes.
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
    """The service understood and said no. ``fields`` is empty for a form-level refusal."""

    def __init__(self, *, fields: tuple[FieldError, ...] = (), **rest: Any) -> None:
        super().__init__(**rest)
        self.fields = fields


class Denied(Refused):
    """The key is wrong or lacks the operation, or the record is another team's (401, 403)."""


class Duplicate(Refused):
    """What was to be made exists already, as ``existing_id``: adopt it."""

    def __init__(self, *, existing_id: UUID = _NOBODY, **rest: Any) -> None:
        super().__init__(**rest)
        self.existing_id = existing_id


class NotEnabled(Refused):
    """The team's plan lacks the feature (503 of scheduling at patient service centers): sending
    again does not help, the service must be asked."""


class Missing(ServiceError):
    """Unknown or foreign record, or nothing found (404)."""


class Limited(ServiceError):
    """Too many calls (429). ``retry_after``: seconds to wait, between 0 and 300."""

    def __init__(self, *, retry_after: float = 0.0, **rest: Any) -> None:
        super().__init__(**rest)
        self.retry_after = min(max(retry_after, 0.0), RETRY_AFTER_CAP)


class Unreachable(ServiceError):
    """No usable answer and nothing changed at the service: safe to ask again later.

    ``retry_after``: seconds the service asked to wait (at most 300), or None.
    """

    def __init__(self, *, retry_after: float | None = None, **rest: Any) -> None:
        super().__init__(**rest)
        self.retry_after = None if retry_after is None else min(retry_after, RETRY_AFTER_CAP)


class Malformed(Unreachable):
    """An answer that is not what the interface describes: HTML, cut short, too large, wrong shape.

    ``unreadable`` holds the record when one was asked for and its typed reading failed.
    """

    def __init__(self, *, unreadable: Unreadable | None = None, **rest: Any) -> None:
        super().__init__(**rest)
        self.unreadable = unreadable


class Redirected(Unreachable):
    """The service answered with a redirect, which is never followed to another address."""


class Uncertain(ServiceError):
    """A write went out and no certain answer came back: it may have happened.

    ``status`` is None when no head of an answer arrived.
    """

    @property
    def failed(self) -> bool:
        """The service itself answered that it failed (5xx), perhaps after doing the work. Under an
        idempotency key it may answer the same for ever."""
        return self.status is not None and self.status >= 500
