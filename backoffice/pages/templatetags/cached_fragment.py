"""A template tag that caches a fragment in the process, for each combination of its values.

    {% load cached_fragment %}{% cached places=entries tally=to_review %}<nav>…</nav>{% endcached %}

The content has access to the named values only. It has no request and no user, so nothing of one
page can get into another. The values are the cache key, and the HTML must not depend on anything
else while the process runs. Use it for the frame and the controls of pages, never for records.

The content may have forms. The fragment is cached without a CSRF token, and each page inserts its
own.
"""

from __future__ import annotations

import secrets
from typing import Any, Final

from django.template import Context, Library, Node, NodeList, TemplateSyntaxError
from django.template.base import FilterExpression, Parser, Token, token_kwargs
from django.template.defaulttags import NowNode
from django.template.loader_tags import BlockNode
from django.utils.html import escape
from django.utils.safestring import SafeString

register = Library()

MAX_CACHED: Final = 256
"""Size of the cache of one fragment. A full cache is cleared."""
_TOKEN: Final = secrets.token_hex(16)
"""Placeholder for the CSRF token. It is random for each process, so no text can contain it."""


@register.tag
def cached(parser: Parser, token: Token) -> Node:
    _, *arguments = token.split_contents()
    values = token_kwargs(arguments, parser)
    if arguments:
        raise TemplateSyntaxError("cached takes name=value only.")
    inside = parser.parse(("endcached",))
    parser.delete_first_token()
    if any(inside.get_nodes_by_type(kind) for kind in (NowNode, BlockNode)):
        raise TemplateSyntaxError("Times and blocks are of one page: they are not cached.")
    return _CachedNode(inside, values)


class _CachedNode(Node):
    child_nodelists = ()
    """Empty, because the content has no blocks that Django would have to find."""

    def __init__(self, nodelist: NodeList, values: dict[str, FilterExpression]) -> None:
        self.nodelist = nodelist
        self.values = values
        self.rendered: dict[tuple[Any, ...], tuple[SafeString, bool]] = {}
        """The cached HTML, each with whether it has forms."""

    def render(self, context: Context) -> SafeString:
        values = {name: value.resolve(context) for name, value in self.values.items()}
        # The types are part of the key: `1` and `True` are equal, and so are safe and unsafe text.
        key = tuple((type(value), value) for value in values.values())
        cached_html = self.rendered.get(key)
        if cached_html is None:
            if len(self.rendered) >= MAX_CACHED:
                self.rendered.clear()
            assert context.template is not None
            own_context = Context({**values, "csrf_token": _TOKEN})
            with own_context.bind_template(context.template):
                html = self.nodelist.render(own_context)
            cached_html = self.rendered[key] = html, _TOKEN in html
        html, has_forms = cached_html
        if not has_forms:
            return html
        return SafeString(html.replace(_TOKEN, escape(str(context.get("csrf_token", "")))))
