"""Jinja macros for Django's admin, whose columns are methods of Python.

A template imports its macros instead.
"""

from __future__ import annotations

from typing import Any

from django.template import engines
from django.utils.safestring import SafeString


def render_macro(template: str, macro: str, *values: Any, **named: Any) -> SafeString:
    """Return the HTML of a macro: `render_macro("macros/values.html", "short_id", order.pk)`."""
    module = engines["jinja2"].env.get_template(template).module  # type: ignore[attr-defined]
    return SafeString(getattr(module, macro)(*values, **named))
