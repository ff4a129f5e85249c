"""Cells of tables to download, that no table program calculates."""

from __future__ import annotations

from typing import Final

BEGINNINGS: Final = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")
"""What makes a table program calculate; the wide ones are read as the narrow."""
SKIPPED: Final = " \u00a0\u1680\u2000\u200a\u200b\u2028\u202f\u205f\u3000\ufeff\v\f\t\r\n"
"""What some programs skip before it."""


def escape_formula(text: str) -> str:
    """The text, marked as text by an apostrophe where a program might take it for a formula, or for
    one that was marked already."""
    bare = text.lstrip("'")
    at_risk = bare.startswith(BEGINNINGS) or bare.lstrip(SKIPPED).startswith(BEGINNINGS)
    return f"'{text}" if at_risk else text


def unescape_formula(cell: str) -> str:
    """What `escape_formula` was given."""
    return cell[1:] if cell.startswith("'") and escape_formula(cell[1:]) == cell else cell
