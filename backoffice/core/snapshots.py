"""Validate database snapshots that pages send back: `xmin:xmax:` and the open transactions.

They come from browsers, and an invalid one makes a PostgreSQL statement fail.
"""

from __future__ import annotations

import re
from itertools import pairwise
from typing import Final

_FORM: Final = re.compile(r"[0-9]{1,19}:[0-9]{1,19}:(?:[0-9]{1,19}(?:,[0-9]{1,19}){0,1000})?")


def is_snapshot(text: str) -> bool:
    """Return whether PostgreSQL can have produced this text."""
    if not _FORM.fullmatch(text):
        return False
    first, end, between = text.split(":")
    low, high = int(first), int(end)
    still = [int(one) for one in between.split(",")] if between else []
    return (
        0 < low <= high < 1 << 62
        and all(low <= one < high for one in still)
        and all(one < after for one, after in pairwise(still))
    )
