"""What a typed text may mean to find an order: each text is parsed once.

The search box and the filter of the orders list use it. `orders.models.search_conditions` makes
conditions of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from patients.search_text import SearchText, parse_search_text

MIN_CODE_LENGTH: Final = 3
"""Shortest beginning of a sample ID or of a lab's visit number, in letters and digits."""
MIN_TRACKING_LENGTH: Final = 8
"""Shortest beginning of a tracking number: all numbers of a courier begin with the same ones."""


@dataclass(frozen=True, slots=True)
class OrderSearchText:
    """The meanings of a text: a person, an id, or a number of a sample, a parcel or a visit.

    Numbers are written as `core.identifiers` compares them.
    """

    typed: SearchText
    """What it means for patients. Users who may not see them search identifiers only."""
    whole_code: str
    """The text as a whole sample ID; empty if it can only be a name."""
    code_prefix: str
    """The text as the beginning of a sample ID or visit number."""
    tracking_prefix: str
    """The text as the beginning of a courier's number, for users who may see patients."""


def parse_order_search_text(text: str, *, by_name: bool) -> OrderSearchText:
    """Return the meanings of a text. `by_name`: whether the user may see who a patient is."""
    typed = parse_search_text(text)
    code = typed.identifier
    if not by_name:
        typed = typed.without_person()
    plain = code.replace("-", "")
    has_digit = any(mark.isdigit() for mark in code)
    is_code = has_digit and plain.isascii() and plain.isalnum()
    return OrderSearchText(
        typed,
        whole_code=code if has_digit or not typed.name else "",
        code_prefix=code if is_code and len(plain) >= MIN_CODE_LENGTH else "",
        tracking_prefix=code if by_name and is_code and len(plain) >= MIN_TRACKING_LENGTH else "",
    )
