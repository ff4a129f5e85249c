"""The tabs of a page. `tab_nav` of macros/tables.html renders them."""

from __future__ import annotations

from dataclasses import dataclass

from backoffice.pages.paging.counts import Count


@dataclass(frozen=True, slots=True)
class Tab:
    """A link to one part of a page, or to the rows of a list in one state."""

    label: str
    url: str
    current: bool
    count: Count | None = None
    family: str = ""
    """The family of its status, which gives its glyph a color."""
    glyph: str = ""
