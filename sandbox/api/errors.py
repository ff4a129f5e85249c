"""Refusals and their bodies (errors-and-limits.md 1).

Refusal                any status, any `detail`
|- missing()           404 {"detail": "<text>"}
|- forbidden()         403 {"detail": "<text>"}
|- malformed()         422 {"detail": [{"loc", "msg", "type", "input", "ctx"?}]}
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field


class Refusal(Exception):
    """An answer that ends the call: a status and the `detail` of its body."""

    def __init__(
        self, status: int, detail: object, headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(status)
        self.status = status
        self.detail = detail
        self.headers = dict(headers or {})


class Invalid(Exception):
    """One value that does not fit its parameter; carries no value, only the reason."""

    def __init__(self, kind: str, msg: str, ctx: Mapping[str, object] | None = None) -> None:
        super().__init__(kind)
        self.kind = kind
        self.msg = msg
        self.ctx = dict(ctx) if ctx else None


@dataclass(slots=True)
class Problems:
    """Every invalid value of one request, so that one answer reports all of them."""

    items: list[dict[str, object]] = field(default_factory=list)

    def add(self, loc: Sequence[str | int], invalid: Invalid, given: object) -> None:
        item: dict[str, object] = {
            "loc": list(loc),
            "msg": invalid.msg,
            "type": invalid.kind,
            "input": given,
        }
        if invalid.ctx is not None:
            item["ctx"] = invalid.ctx
        self.items.append(item)

    def settle(self) -> None:
        """Raise a refusal with 422 if there is any problem."""
        if self.items:
            raise Refusal(422, self.items)


def malformed(loc: Sequence[str | int], invalid: Invalid, given: object) -> Refusal:
    """Return 422 for a single value."""
    problems = Problems()
    problems.add(loc, invalid, given)
    return Refusal(422, problems.items)


def missing(what: str) -> Refusal:
    """Return 404 for an unknown record, or for one that this team must not know of."""
    return Refusal(404, f"{what} not found")


def forbidden(what: str) -> Refusal:
    """Return 403 for an order (or a part of it) of another team."""
    return Refusal(403, f"{what} belongs to another team")
