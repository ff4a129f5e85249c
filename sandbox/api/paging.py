"""Two ways of paging: numbered pages, and opaque cursors bound to the question asked."""

from __future__ import annotations

import base64
import binascii
import hashlib
import math
from typing import Any

import orjson

from sandbox.api.errors import Refusal
from sandbox.api.params import Param, Whole

PAGE = Param("page", Whole(ge=1), 1, note="1 is the first page")
SIZE = Param("size", Whole(ge=1, le=100), 50, note="records on a page")


def page_count(total: int, size: int) -> int:
    """Pages needed for `total` records; an empty list has none."""
    return math.ceil(total / size)


def _mark(question: object) -> str:
    packed = orjson.dumps(question, option=orjson.OPT_SORT_KEYS | orjson.OPT_NON_STR_KEYS)
    return hashlib.blake2b(packed, digest_size=6).hexdigest()


def make_cursor(position: Any, question: object) -> str:
    """A cursor for the page after `position` of the list that `question` describes."""
    packed = orjson.dumps([_mark(question), position])
    return base64.urlsafe_b64encode(packed).decode().rstrip("=")


def read_cursor(cursor: str | None, question: object) -> Any:
    """The position in `cursor`, None without one; 400 when it is not of this list."""
    if cursor is None:
        return None
    try:
        padded = cursor + "=" * (-len(cursor) % 4)
        mark, position = orjson.loads(base64.b64decode(padded, altchars=b"-_", validate=True))
    except (ValueError, TypeError, binascii.Error):
        raise Refusal(400, "Invalid next_cursor") from None
    if mark != _mark(question):
        raise Refusal(400, "next_cursor belongs to another query")
    return position
