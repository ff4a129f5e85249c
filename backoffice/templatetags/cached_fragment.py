"""Pieces of pages that depend on a few values: drawn once for each, and kept by the process.

    {% load cached_fragment %}{% kept places=entries tally=to_review %}<nav>…</nav>{% endkept %}

What stands inside sees the named values and nothing else: no request, no user, so that nothing of
one page can get into another. The values are the key; what is drawn from them is the same for as
long as the process runs. For the frame and the controls of pages, never for records.

Forms may stand inside: each page puts its own token into what was kept without one.
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

MOST: Final = 256
"""So many drawings of one piece are kept; then they are drawn anew."""
_TOKEN: Final = secrets.token_hex(16)
"""Stands where the token of a form will stand. Nobody can write it: each process has its own."""


@register.tag
def kept(parser: Parser, token: Token) -> Node:
    _, *given = token.split_contents()
    values = token_kwargs(given, parser)
    if given:
        raise TemplateSyntaxError("kept takes name=value only.")
    inside = parser.parse(("endkept",))
    parser.delete_first_token()
    if any(inside.get_nodes_by_type(kind) for kind in (NowNode, BlockNode)):
        raise TemplateSyntaxError("Times and blocks are of one page: they are not kept.")
    return _Kept(inside, values)


class _Kept(Node):
    child_nodelists = ()
    """Nobody need look inside for blocks: there are none."""

    def __init__(self, nodelist: NodeList, values: dict[str, FilterExpression]) -> None:
        self.nodelist = nodelist
        self.values = values
        self.drawn: dict[tuple[Any, ...], tuple[SafeString, bool]] = {}
        """What was drawn, and whether it has forms."""

    def render(self, context: Context) -> SafeString:
        values = {name: value.resolve(context) for name, value in self.values.items()}
        # With their types: `1` and `True`, text that is safe and text that is not are equal.
        key = tuple((type(value), value) for value in values.values())
        found = self.drawn.get(key)
        if found is None:
            if len(self.drawn) >= MOST:
                self.drawn.clear()
            assert context.template is not None
            alone = Context({**values, "csrf_token": _TOKEN})
            with alone.bind_template(context.template):
                drawn = self.nodelist.render(alone)
            found = self.drawn[key] = drawn, _TOKEN in drawn
        drawn, has_forms = found
        if not has_forms:
            return drawn
        return SafeString(drawn.replace(_TOKEN, escape(str(context.get("csrf_token", "")))))
