"""HTML of parts of form fields: errors and checkboxes."""

from __future__ import annotations

from html import escape

from django.forms import BoundField
from django.utils.html import conditional_escape

from backoffice.pages.form_controls import choices_of
from backoffice.pages.icons import glyph_svg


def errors_of(bound: BoundField, attributes: str = "") -> list[str]:
    return [
        f'<p class="error" data-st="needs-action"{attributes}>'
        f"{glyph_svg('warning')}{conditional_escape(str(error))}</p>"
        for error in bound.errors
    ]


def tick_boxes(bound: BoundField) -> list[str]:
    """Return a checkbox for each known value, and for each other value that is chosen."""
    chosen = [str(value) for value in bound.value() or ()]
    known = {str(value): str(label) for value, label in choices_of(bound.field)}
    others = {value: value for value in chosen if value not in known}
    name = escape(bound.html_name)
    return [
        f'<label class="check"><input type="checkbox" name="{name}" value="{escape(value)}"'
        f"{' checked' if value in chosen else ''}><span>{escape(label)}</span></label>"
        for value, label in {**known, **others}.items()
    ]
