"""Let tests see the contexts of Jinja templates, and fail on variables that do not exist."""

from __future__ import annotations

from typing import Any

import jinja2
from django.template import engines
from django.test.signals import template_rendered


class ReportedTemplate(jinja2.Template):
    """A template that says when it is rendered, and refuses a variable named like a function."""

    def render(self, *args: Any, **kwargs: Any) -> str:
        context = dict(*args, **kwargs)
        hidden = context.keys() & self.environment.globals.keys()
        assert not hidden, f"{self.name}: the context hides functions of templates: {hidden}"
        template_rendered.send(sender=self, template=self, context=context)
        return super().render(context)


def use_strict_templates() -> None:
    """Report contexts, and fail where a template uses a variable that does not exist."""
    environment = engines["jinja2"].env  # type: ignore[attr-defined]
    environment.template_class = ReportedTemplate
    environment.undefined = jinja2.StrictUndefined
    environment.finalize = _refuse_function


def _refuse_function(value: object) -> object:
    """Fail on `{{ field.value }}`, which Django's templates would call."""
    if callable(value) and not isinstance(value, jinja2.Undefined):
        raise TypeError(f"{value!r} is shown, but not called")
    return value
