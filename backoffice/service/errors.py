"""What can go wrong when the service is called.

::

    ServiceError                 status, route, trace_id, request_id, message
    ├── Refused                  400, 409, 413, 422 and other 4xx: message and fields for staff
    │   └── Denied               401, 403: the key or the team may not do this
    ├── Missing                  404: unknown, or another team's
    ├── Limited                  429: come back after retry_after seconds (at most 300)
    ├── Unreachable              no usable answer, and nothing changed: connection, time, 5xx
    │   ├── Malformed            an answer came, but not one the interface describes
    │   └── Redirected           the service pointed elsewhere; the key did not follow
    └── Uncertain                a write whose outcome is unknown: look before sending again

``str(error)`` and ``repr(error)`` hold the class, status, route template and trace id only. The
service's own words are on ``.message``: for the eyes of staff, never for a log. Interface:
errors and limits, chapter 1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from backoffice.service.payload import Unreadable

RETRY_AFTER_CAP = 300.0
"""Longest wait in seconds we let the service ask for."""


class FieldError(msgspec.Struct, frozen=True):
    """One entry of a 422 body: where (``loc``), and the service's words (``msg``).

    The echoed ``input`` of the body is dropped: it may hold personal data.
    """

    loc: tuple[str, ...]
    msg: str

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
    """A write went out and its answer did not come back: it may have happened."""
