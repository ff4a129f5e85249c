"""Template tags of lists."""

from django import template

from backoffice.lists.listing import Column, Listing
from backoffice.lists.screen import Screen

register = template.Library()


@register.simple_tag
def list_url(listing: Listing, route: str, *args: object) -> str:
    """`{% list_url listing "run" run.pk %}`: an address of this list."""
    return listing.address(route, *args)


@register.simple_tag
def sortable(screen: Screen, column: Column) -> str:
    """The key by which a column sorts for this person and these filters, if it does."""
    return column.sort if screen.form.sorts_by(column.sort) else ""


@register.simple_tag
def first_click(screen: Screen, column: Column) -> str:
    return "desc" if column.sort in screen.form.FALLING else "asc"
