"""Values of form fields, for templates."""

from __future__ import annotations

from typing import Any

from django.forms import BoundField


def choices_of(field: Any) -> tuple[tuple[Any, Any], ...]:
    """Return the choices of a field.

    Fields with `offered` return them without the work that Django does for each choice.
    """
    read = getattr(field, "offered", None)
    return tuple(read() if read else getattr(field, "choices", ()))


def checkbox_choices(bound: BoundField) -> list[tuple[str, str, bool]]:
    """Return value, label and state of the checkboxes of a multiple choice field.

    There is one for each known value, and for each other value that is chosen.
    """
    chosen = [str(value) for value in bound.value() or ()]
    known = {str(value): str(label) for value, label in choices_of(bound.field)}
    others = {value: value for value in chosen if value not in known}
    return [(value, label, value in chosen) for value, label in {**known, **others}.items()]
