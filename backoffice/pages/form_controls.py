"""The most common form controls, rendered without templates: a list has a dozen filters.

The output is byte for byte that of Django's templates, which render all other controls.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from django.forms.renderers import DjangoTemplates
from django.http import HttpRequest
from django.utils.html import conditional_escape
from django.utils.safestring import SafeString

_WIDGET_FOLDER: Final = "django/forms/widgets/"
_INPUTS: Final = (
    *("text", "number", "email", "url", "password", "hidden", "date", "datetime", "checkbox"),
)


def choices_of(field: Any) -> tuple[tuple[Any, Any], ...]:
    """Return the choices of a field.

    Fields with `offered` return them without the work that Django does for each choice.
    """
    read = getattr(field, "offered", None)
    return tuple(read() if read else getattr(field, "choices", ()))


class Controls(DjangoTemplates):
    """The form renderer of the setting `FORM_RENDERER`."""

    def render(
        self, template_name: str, context: dict[str, Any], request: HttpRequest | None = None
    ) -> str:
        draw = _RENDERERS.get(template_name)
        if draw is None:
            return super().render(template_name, context, request)
        return SafeString(draw(context["widget"]))


def _input(widget: Mapping[str, Any]) -> str:
    value = widget["value"]
    value_attribute = "" if value is None else f' value="{conditional_escape(value)}"'
    name = conditional_escape(widget["name"])
    return f'<input type="{widget["type"]}" name="{name}"{value_attribute}{_attributes(widget)}>'


def _textarea(widget: Mapping[str, Any]) -> str:
    text = conditional_escape(widget["value"]) if widget["value"] else ""
    name = conditional_escape(widget["name"])
    return f'<textarea name="{name}"{_attributes(widget)}>\n{text}</textarea>'


def _option(widget: Mapping[str, Any]) -> str:
    """Render one radio button, in a label if the widget asks for one."""
    if not widget["wrap_label"]:
        return _input(widget)
    key = widget["attrs"].get("id")
    for_attribute = f' for="{conditional_escape(key)}"' if key else ""
    return f"<label{for_attribute}>{_input(widget)}\n {conditional_escape(widget['label'])}</label>"


def _select(widget: Mapping[str, Any]) -> str:
    parts = [f'<select name="{conditional_escape(widget["name"])}"{_attributes(widget)}>']
    for group, options, _ in widget["optgroups"]:
        if group:
            parts.append(f'\n  <optgroup label="{conditional_escape(group)}">')
        for option in options:
            value, label = conditional_escape(option["value"]), conditional_escape(option["label"])
            parts.append(f'\n  <option value="{value}"{_attributes(option)}>{label}</option>\n')
        if group:
            parts.append("\n  </optgroup>")
    return f"{''.join(parts)}\n</select>"


def _attributes(widget: Mapping[str, Any]) -> str:
    return "".join(
        f" {conditional_escape(name)}"
        if value is True
        else f' {conditional_escape(name)}="{conditional_escape(value)}"'
        for name, value in widget["attrs"].items()
        if value is not False
    )


_RENDERERS: Final[dict[str, Callable[[Mapping[str, Any]], str]]] = {
    f"{_WIDGET_FOLDER}select.html": _select,
    f"{_WIDGET_FOLDER}textarea.html": _textarea,
    f"{_WIDGET_FOLDER}radio_option.html": _option,
    **{f"{_WIDGET_FOLDER}{kind}.html": _input for kind in _INPUTS},
}
