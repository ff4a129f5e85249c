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
    xmin, xmax, between = text.split(":")
    low, high = int(xmin), int(xmax)
    open_ids = [int(number) for number in between.split(",")] if between else []
    return (
        0 < low <= high < 1 << 62
        and all(low <= number < high for number in open_ids)
        and all(earlier < later for earlier, later in pairwise(open_ids))
    )
