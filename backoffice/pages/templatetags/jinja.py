"""The tag that includes a Jinja template in a Django template that is not converted yet.

    {% load jinja %}{% jinja "lists/_pager.html" list=list pager=pager %}

The Jinja template gets the named values, the request and the CSRF token. To convert the Django
template, replace the tag by `{% include "lists/_pager.html" %}`.
"""

from __future__ import annotations

from typing import Any

from django.template import Context, Library
from django.template.loader import render_to_string
from django.utils.safestring import SafeString

register = Library()


@register.simple_tag(takes_context=True)
def jinja(context: Context, template: str, **values: Any) -> SafeString:
    request = context.get("request")
    return SafeString(render_to_string(template, values, request, using="jinja2"))
