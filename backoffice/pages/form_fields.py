"""HTML of form fields, and of their errors and checkboxes."""

from __future__ import annotations

from html import escape

from django.forms import BoundField
from django.utils.html import conditional_escape
from django.utils.safestring import SafeString

from backoffice.pages.form_controls import choices_of
from backoffice.pages.icons import glyph_svg


def field(bound: BoundField, optional: bool = False) -> SafeString:
    """Render a form field: label, control, hint, errors. `optional`: mark optional fields."""
    key, marked = bound.auto_id, ""
    if optional and not bound.field.required:
        marked = ' <span class="optional">(optional)</span>'
    below = ""
    if bound.help_text:
        below = f'<p class="hint" id="{key}_helptext">{conditional_escape(bound.help_text)}</p>'
    below += "".join(errors_of(bound, f' id="{key}_error"'))
    return SafeString(
        f'<div class="field">\n  <label for="{bound.id_for_label}">'
        f"{conditional_escape(bound.label)}{marked}</label>\n  {bound}\n  {below}\n</div>"
    )


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
