"""Protection of CSV cells from evaluation as formulas by spreadsheet programs."""

from __future__ import annotations

from typing import Final

BEGINNINGS: Final = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")
"""First characters of a formula. Spreadsheet programs read the full-width ones as the normal."""
SKIPPED: Final = " \u00a0\u1680\u2000\u200a\u200b\u2028\u202f\u205f\u3000\ufeff\v\f\t\r\n"
"""Characters before a formula that some programs skip."""


def escape_formula(text: str) -> str:
    """Prefix text with an apostrophe if a program might read it as a formula.

    Text that looks like an already prefixed formula gets another apostrophe.
    """
    bare = text.lstrip("'")
    at_risk = bare.startswith(BEGINNINGS) or bare.lstrip(SKIPPED).startswith(BEGINNINGS)
    return f"'{text}" if at_risk else text


def unescape_formula(cell: str) -> str:
    """Return the text before `escape_formula`."""
    return cell[1:] if cell.startswith("'") and escape_formula(cell[1:]) == cell else cell
