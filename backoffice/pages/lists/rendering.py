"""HTML of the parts that a list page has dozens of.

Python renders them, not templates: a template include for each part would take half of the time of
the page.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from html import escape
from typing import Any, Final

from django.http import QueryDict
from django.utils.safestring import SafeString

from backoffice.pages.form_fields import errors_of, field, tick_boxes
from backoffice.pages.icons import glyph_svg, icon_svg
from backoffice.pages.lists.context import ListContext, PagerContext
from backoffice.pages.lists.definition import Column
from backoffice.pages.lists.forms import SIZES, FilterChip, FilterForm
from backoffice.pages.query_strings import address_with, address_without

MAX_WITHOUT_SEARCH: Final = 8
"""With more checkboxes than this, a filter has a text field to search them."""


def filters(form: FilterForm, parameters: QueryDict) -> SafeString:
    """Render the filter row: one popover for each shown filter, and one for all the others."""
    first = (
        _untouched(chip, _popover) + _removal_link(chip, parameters)
        for chip in form.chips
        if chip.always_shown
    )
    html = "".join(first)
    if form.more:
        more = (_untouched(chip, _folded) for chip in form.chips if not chip.always_shown)
        html += (
            f'<details class="pop" data-pop>\n  <summary>{icon_svg("plus")}Filter</summary>\n'
            f'  <div class="panel more">\n    {"".join(more)}\n    {_APPLY}\n  </div>\n</details>'
        )
    return SafeString(html)


_APPLY: Final = (
    '<div class="acts"><button type="submit" class="btn primary small">Apply</button></div>'
)
_INACTIVE_HTML: Final[dict[Hashable, str]] = {}
MAX_CACHED: Final = 1_000
"""Size of the cache of rendered filters. A full cache is cleared."""


def _untouched(chip: FilterChip, draw: Callable[[FilterChip], str]) -> str:
    """Render a filter. Cache the HTML of an inactive one, because it is the same on all pages."""
    if chip.cache_key is None:
        return draw(chip)
    key = (draw, chip.cache_key)
    html = _INACTIVE_HTML.get(key)
    if html is None:
        if len(_INACTIVE_HTML) >= MAX_CACHED:
            _INACTIVE_HTML.clear()
        html = _INACTIVE_HTML[key] = draw(chip)
    return html


def _popover(chip: FilterChip) -> str:
    summary = f": {escape(chip.summary)}" if chip.summary else ""
    state = (" data-active" if chip.active else "") + (" open" if chip.has_errors else "")
    return (
        f'<details class="pop" data-pop{state}>\n'
        f"  <summary>{escape(chip.label)}{summary}{icon_svg('chevron-down')}</summary>\n"
        f'  <div class="panel{" days" if chip.zone else ""}">\n    {_fields(chip)}\n    {_APPLY}\n'
        "  </div>\n</details>"
    )


def _removal_link(chip: FilterChip, parameters: QueryDict) -> str:
    if chip.removal is None:
        return ""
    rest = address_without(parameters, *chip.removal)
    description = f"Remove {escape(chip.label)}: {escape(chip.summary)}"
    return (
        f'<a class="drop" href="{escape(rest)}" title="Remove this filter">{icon_svg("x-mark")}'
        f'<span class="sr">{description}</span></a>'
    )


def _folded(chip: FilterChip) -> str:
    return (
        f"<details data-more><summary>{escape(chip.label)}</summary>"
        f'<div class="stack">{_fields(chip)}</div></details>'
    )


def _fields(chip: FilterChip) -> str:
    """Render the fields of one filter."""
    html = []
    label = escape(chip.label)
    for bound in chip.fields:
        if chip.options:
            boxes = tick_boxes(bound)
            if len(boxes) > MAX_WITHOUT_SEARCH:
                html.append(
                    '<input class="js-only" type="search" data-narrow placeholder="Type to narrow"'
                    f' aria-label="Narrow the choices of {label}" autocomplete="off">\n'
                )
            html.append(_options(f'<legend class="sr">{label}</legend>', boxes))
            html += errors_of(bound)
        elif hasattr(bound.field, "vocabulary"):
            legend = f'<legend class="group">{escape(str(bound.label))}</legend>'
            html.append(_options(legend, tick_boxes(bound)))
        else:
            html.append(field(bound))
    if chip.zone:
        html.append(f'<p class="muted small">Days begin and end in {escape(chip.zone)}.</p>')
    return "\n".join(html)


def _options(legend: str, boxes: list[str]) -> str:
    return f'<fieldset class="options">{legend}\n  {"".join(boxes)}\n</fieldset>'


def heads(screen: ListContext, parameters: QueryDict) -> SafeString:
    """Render the column headers. Headers of columns that the list can sort by are links."""
    return SafeString("".join(_head(screen, column, parameters) for column in screen.columns))


def _head(screen: ListContext, column: Column, parameters: QueryDict) -> str:
    css = f' class="{column.css}"' if column.css else ""
    key, label = column.sort, escape(column.label)
    if not screen.form.can_sort_by(key):
        return f'<th scope="col"{css}>{label}</th>'
    if screen.sort != key:
        sorted_, icon = "none", "chevron-up-down"
        clicked = "desc" if key in screen.form.DESCENDING_FIRST else "asc"
    elif screen.direction == "asc":
        sorted_, icon, clicked = "ascending", "chevron-up", "desc"
    else:
        sorted_, icon, clicked = "descending", "chevron-down", "asc"
    address = escape(address_with(parameters, order_key=key, order_direction=clicked))
    link = f'<a href="{address}">{label}{icon_svg(icon)}</a>'
    return f'<th scope="col"{css} aria-sort="{sorted_}">{link}</th>'


def buckets(tabs: Iterable[Mapping[str, Any]], parameters: QueryDict) -> SafeString:
    """Render a tab for each status group, with its glyph and its count."""
    html = []
    for tab in tabs:
        current = ' aria-current="page"' if tab["current"] else ""
        count = f' <span class="count">{tab["count"]}</span>' if tab["count"] else ""
        address = escape(address_with(parameters, bucket=tab["bucket"]))
        html.append(
            f'<a href="{address}" data-st="{tab["bucket"]}"{current}>{glyph_svg(tab["glyph"])}'
            f"{escape(tab['label'])}{count}</a>"
        )
    return SafeString("".join(html))


def pager(screen: ListContext, pager_context: PagerContext, parameters: QueryDict) -> SafeString:
    """Render the pager: row numbers, total, page sizes, and links to the neighboring pages."""
    row_range, page = "", pager_context["page"]
    if page.rows:
        of = f" of {pager_context['total']}" if pager_context["total"] else ""
        row_range = f"{pager_context['first']:,}–{pager_context['last']:,}{of} {screen.noun}"
    sizes = ""
    for size in SIZES:
        current = ' aria-current="true"' if size == screen.size else ""
        address = escape(address_with(parameters, size=size))
        sizes += f'<a href="{address}"{current}>{size}<span class="sr"> rows on a page</span></a>'
    back, on = f"{icon_svg('chevron-left')}Previous", f"Next{icon_svg('chevron-right')}"
    if page.previous:
        address = address_with(parameters, before=page.previous, at=pager_context["previous_at"])
        back = f'<a class="btn" rel="prev" data-key="[" href="{escape(address)}">{back}</a>'
    else:
        back = f'<span class="btn" aria-disabled="true">{back}</span>'
    if page.next:
        address = address_with(parameters, after=page.next, at=pager_context["next_at"])
        on = f'<a class="btn" rel="next" data-key="]" href="{escape(address)}">{on}</a>'
    else:
        on = f'<span class="btn" aria-disabled="true">{on}</span>'
    return SafeString(
        '<div class="pager" hx-swap="outerHTML show:.table:top">\n'
        f"  <span>{row_range}</span>\n"
        f'  <nav class="sizes" aria-label="Rows on a page">{sizes}'
        '<span class="muted">a page</span></nav>\n'
        f'  <nav aria-label="Pages">\n    {back}\n    {on}\n  </nav>\n</div>'
    )


def state_inputs(screen: ListContext) -> SafeString:
    """Render hidden fields with the state of the list: its query, density and columns."""
    fields = [("query", screen.query), ("here", screen.current_query), ("density", screen.density)]
    fields += [("column", column.key) for column in screen.columns]
    return SafeString(
        "".join(
            f'<input type="hidden" name="{name}" value="{escape(value)}">' for name, value in fields
        )
    )


def column_choices(screen: ListContext) -> SafeString:
    """Render a checkbox for each column but the first. Shown columns also get move buttons."""
    return SafeString(
        "\n        ".join(_choice(one, screen) for one in screen.available_columns[1:])
    )


def _choice(column: Column, screen: ListContext) -> str:
    key, label = column.key, escape(column.label)
    is_shown, moves = column in screen.columns, ""
    if is_shown:
        buttons = "".join(
            f'<button class="btn quiet small square" id="{way}-{key}" name="move"'
            f' value="{way}:{key}" type="submit" title="{when.capitalize()}">'
            f'{icon_svg(f"chevron-{way}")}<span class="sr">Move {label} {when}</span></button>'
            for way, when in (("up", "earlier"), ("down", "later"))
        )
        moves = f'<span class="moves">{buttons}</span>'
    return (
        '<div class="check column"><label><input type="checkbox" name="column"'
        f' value="{key}"{" checked" if is_shown else ""}><span>{label}</span></label>{moves}</div>'
    )
