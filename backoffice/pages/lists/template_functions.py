"""Template tags of list pages."""

from typing import Any

from django.utils.safestring import SafeString

from backoffice.pages.lists.context import ListContext
from backoffice.pages.lists.definition import ListPage
from backoffice.pages.lists.saved_views import ViewForm


def list_url(list_page: ListPage, route: str, *args: object) -> str:
    """Return a URL of this list: `{% list_url list_page "run" run.pk %}`."""
    return list_page.url(route, *args)


def rows(screen: ListContext, rows: list[Any]) -> SafeString:
    return screen.list_page.render_rows(rows, screen)


def new_view(shares: bool) -> ViewForm:
    """Return the form of a new saved view. `shares`: the user may share views."""
    return ViewForm(shares=shares)
