"""Template tags of list pages."""

from typing import Any

from django import template
from django.template import Context
from django.utils.safestring import SafeString

from backoffice.pages.lists import rendering
from backoffice.pages.lists.context import ListContext, PagerContext
from backoffice.pages.lists.definition import ListPage
from backoffice.pages.lists.forms import FilterForm
from backoffice.pages.lists.saved_views import ViewForm

register = template.Library()


@register.simple_tag
def list_url(list_page: ListPage, route: str, *args: object) -> str:
    """Return a URL of this list: `{% list_url list_page "run" run.pk %}`."""
    return list_page.url(route, *args)


@register.simple_tag(takes_context=True)
def filters(context: Context, form: FilterForm) -> SafeString:
    return rendering.filters(form, context["request"].GET)


@register.simple_tag(takes_context=True)
def heads(context: Context, screen: ListContext) -> SafeString:
    return rendering.heads(screen, context["request"].GET)


@register.simple_tag(takes_context=True)
def buckets(context: Context, tabs: list[dict[str, Any]]) -> SafeString:
    return rendering.buckets(tabs, context["request"].GET)


@register.simple_tag(takes_context=True)
def pager(context: Context, screen: ListContext, pager_context: PagerContext) -> SafeString:
    return rendering.pager(screen, pager_context, context["request"].GET)


@register.simple_tag
def rows(screen: ListContext, rows: list[Any]) -> SafeString:
    return screen.list_page.render_rows(rows, screen)


@register.simple_tag
def new_view(shares: bool) -> ViewForm:
    """Return the form of a new saved view. `shares`: the user may share views."""
    return ViewForm(shares=shares)


@register.simple_tag
def state_inputs(screen: ListContext) -> SafeString:
    return rendering.state_inputs(screen)


@register.simple_tag
def column_choices(screen: ListContext) -> SafeString:
    return rendering.column_choices(screen)
