"""Parts of a list's page as HTML: those of which a page has dozens.

In Python and not in templates: an include for each would be half of what the page costs.
"""

from __future__ import annotations

from html import escape
from typing import Final

from django.http import QueryDict
from django.utils.safestring import SafeString

from backoffice.lists.forms import Chip
from backoffice.lists.listing import Column
from backoffice.lists.screen import Screen
from backoffice.templatetags.shapes import icon_svg
from backoffice.templatetags.ui import address_with, errors_of, field, tick_boxes

NARROWED: Final = 8
"""Tick boxes, beyond which one may type to find them."""


def filter_fields(chip: Chip) -> SafeString:
    """The inside of one filter."""
    drawn = []
    label = escape(chip.label)
    for bound in chip.fields:
        if chip.options:
            boxes = tick_boxes(bound)
            if len(boxes) > NARROWED:
                drawn.append(
                    '<input class="js-only" type="search" data-narrow placeholder="Type to narrow"'
                    f' aria-label="Narrow the choices of {label}" autocomplete="off">\n'
                )
            drawn.append(_options(f'<legend class="sr">{label}</legend>', boxes))
            drawn += errors_of(bound)
        elif hasattr(bound.field, "vocabulary"):
            legend = f'<legend class="group">{escape(str(bound.label))}</legend>'
            drawn.append(_options(legend, tick_boxes(bound)))
        else:
            drawn.append(field(bound))
    if chip.zone:
        drawn.append(f'<p class="muted small">Days begin and end in {escape(chip.zone)}.</p>')
    return SafeString("\n".join(drawn))


def _options(legend: str, boxes: list[str]) -> str:
    return f'<fieldset class="options">{legend}\n  {"".join(boxes)}\n</fieldset>'


def heads(screen: Screen, given: QueryDict) -> SafeString:
    """Heads of the columns; those by which the list sorts are links."""
    return SafeString("".join(_head(screen, column, given) for column in screen.columns))


def _head(screen: Screen, column: Column, given: QueryDict) -> str:
    css = f' class="{column.css}"' if column.css else ""
    key, label = column.sort, escape(column.label)
    if not screen.form.sorts_by(key):
        return f'<th scope="col"{css}>{label}</th>'
    if screen.sort != key:
        sorted_, icon = "none", "chevron-up-down"
        clicked = "desc" if key in screen.form.FALLING else "asc"
    elif screen.direction == "asc":
        sorted_, icon, clicked = "ascending", "chevron-up", "desc"
    else:
        sorted_, icon, clicked = "descending", "chevron-down", "asc"
    address = escape(address_with(given, order_key=key, order_direction=clicked))
    link = f'<a href="{address}">{label}{icon_svg(icon)}</a>'
    return f'<th scope="col"{css} aria-sort="{sorted_}">{link}</th>'


def held(screen: Screen) -> SafeString:
    """What a form must carry along to know what the list shows."""
    said = [("query", screen.query), ("here", screen.here), ("density", screen.density)]
    said += [("column", column.key) for column in screen.columns]
    return SafeString(
        "".join(
            f'<input type="hidden" name="{name}" value="{escape(value)}">' for name, value in said
        )
    )


def column_choices(screen: Screen) -> SafeString:
    """A tick box for each column but the first, and for those that are shown their moves."""
    return SafeString("\n        ".join(_choice(one, screen) for one in screen.offered[1:]))


def _choice(column: Column, screen: Screen) -> str:
    key, label = column.key, escape(column.label)
    shown, moves = column in screen.columns, ""
    if shown:
        buttons = "".join(
            f'<button class="btn quiet small square" id="{way}-{key}" name="move"'
            f' value="{way}:{key}" type="submit" title="{when.capitalize()}">'
            f'{icon_svg(f"chevron-{way}")}<span class="sr">Move {label} {when}</span></button>'
            for way, when in (("up", "earlier"), ("down", "later"))
        )
        moves = f'<span class="moves">{buttons}</span>'
    return (
        '<div class="check column"><label><input type="checkbox" name="column"'
        f' value="{key}"{" checked" if shown else ""}><span>{label}</span></label>{moves}</div>'
    )
