"""Make functions of Python usable in Jinja templates.

A function that `renders` a template returns the context of that template, and is called as
`{{ bell() }}`. The filters of Django that the templates use keep their meaning.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from functools import wraps
from typing import Any, Final

from django.template import defaultfilters
from django.utils.safestring import SafeData, SafeString, mark_safe
from django.utils.timezone import is_aware, localtime
from jinja2 import Undefined, pass_context
from jinja2.runtime import Context
from markupsafe import Markup

Function = Callable[..., Any]


def renders(template: str) -> Callable[[Function], Function]:
    """Make a function of the context render a template, with what it returns."""

    def decorate(function: Function) -> Function:
        @pass_context
        @wraps(function)
        def render(context: Context, *args: Any, **kwargs: Any) -> Markup:
            shared = {name: context[name] for name in ("request", "csrf_input") if name in context}
            values = {**shared, **function(context, *args, **kwargs)}
            return Markup(context.environment.get_template(template).render(values))  # noqa: S704

        return render

    return decorate


def undefined_as_none(function: Function) -> Function:
    """Let a function get None for a variable that the context does not have."""

    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        return function(
            *(None if isinstance(value, Undefined) else value for value in args),
            **{k: None if isinstance(v, Undefined) else v for k, v in kwargs.items()},
        )

    return call


def _django_filter(function: Function) -> Function:
    """Adapt a filter of Django: local times, safe text, escaping."""

    @wraps(function)
    def apply(value: Any, *args: Any) -> Any:
        value = "" if isinstance(value, Undefined) else value
        if isinstance(value, Markup):  # safe for Jinja, not for Django
            value = SafeString(value)
        options = {"autoescape": True} if getattr(function, "needs_autoescape", False) else {}
        if isinstance(value, datetime) and is_aware(value):
            value = localtime(value)
        result = function(value, *args, **options)
        if getattr(function, "is_safe", False) and isinstance(value, SafeData):
            return mark_safe(result)  # noqa: S308 - as Django's own engine does
        return result

    return apply


DJANGO_FILTERS: Final[Mapping[str, Function]] = {
    name: _django_filter(getattr(defaultfilters, name))
    for name in (
        *("add", "capfirst", "cut", "date", "default_if_none", "filesizeformat", "floatformat"),
        *("json_script", "linebreaksbr", "pluralize", "stringformat", "truncatechars", "yesno"),
    )
}
