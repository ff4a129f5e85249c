"""Template tags of lists."""

from typing import Any

from django import template
from django.template import Context
from django.utils.safestring import SafeString

from backoffice.pages.lists import rendering
from backoffice.pages.lists.context import Pager, Screen
from backoffice.pages.lists.definition import Listing
from backoffice.pages.lists.forms import FilterForm
from backoffice.pages.lists.saved_views import ViewForm

register = template.Library()


@register.simple_tag
def list_url(listing: Listing, route: str, *args: object) -> str:
    """`{% list_url listing "run" run.pk %}`: an address of this list."""
    return listing.address(route, *args)


@register.simple_tag(takes_context=True)
def filters(context: Context, form: FilterForm) -> SafeString:
    return rendering.filters(form, context["request"].GET)


@register.simple_tag(takes_context=True)
def heads(context: Context, screen: Screen) -> SafeString:
    return rendering.heads(screen, context["request"].GET)


@register.simple_tag(takes_context=True)
def buckets(context: Context, tabs: list[dict[str, Any]]) -> SafeString:
    return rendering.buckets(tabs, context["request"].GET)


@register.simple_tag(takes_context=True)
def pager(context: Context, screen: Screen, shown: Pager) -> SafeString:
    return rendering.pager(screen, shown, context["request"].GET)


@register.simple_tag
def rows(screen: Screen, rows: list[Any]) -> SafeString:
    return screen.listing.drawn(rows, screen)


@register.simple_tag
def new_view(shares: bool) -> ViewForm:
    """The form of a new view, for somebody who may share views or may not."""
    return ViewForm(shares=shares)


@register.simple_tag
def held(screen: Screen) -> SafeString:
    return rendering.held(screen)


@register.simple_tag
def column_choices(screen: Screen) -> SafeString:
    return rendering.column_choices(screen)
