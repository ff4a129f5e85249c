"""Django's `{% url %}` with cached URLs. It is a builtin of all templates.

To reverse a URL takes longer than to render the rest of a table row, and a list has hundreds of
URLs.
"""

from __future__ import annotations

from uuid import UUID

from django.template import Context, Library, Node
from django.template.base import Parser, Token
from django.template.defaulttags import URLNode
from django.template.defaulttags import url as of_django
from django.urls import NoReverseMatch
from django.utils.html import conditional_escape

from backoffice.core.urls import page_url, record_url

register = Library()


@register.tag
def url(parser: Parser, token: Token) -> Node:
    node = of_django(parser, token)
    return _Address(node.view_name, node.args, node.kwargs, node.asvar)


class _Address(URLNode):
    """A URL node that caches routes with no argument or one key. Django reverses all others."""

    def render(self, context: Context) -> str:
        url = self._fast_url(context)
        if url is None:
            return str(super().render(context))
        if self.asvar:
            context[self.asvar] = url
            return ""
        return conditional_escape(url) if context.autoescape else url

    def _fast_url(self, context: Context) -> str | None:
        if self.kwargs or len(self.args) > 1:
            return None
        route = self.view_name.resolve(context)
        keys = [each.resolve(context) for each in self.args]
        try:
            if not keys:
                return page_url(route)
            return record_url(route, keys[0]) if type(keys[0]) in (UUID, int) else None
        except NoReverseMatch:
            return None
