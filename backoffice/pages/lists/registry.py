"""All list pages, by name. `list_urls` registers a list when its URLs are imported."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Final

from django.conf import settings

if TYPE_CHECKING:
    from backoffice.pages.lists.definition import ListPage

_LISTS: Final[dict[str, ListPage]] = {}


def register(list_page: ListPage) -> None:
    """Add a list. Raise ValueError if another one has its name."""
    if _LISTS.setdefault(list_page.name, list_page) is not list_page:
        raise ValueError(f"two lists are called {list_page.name}")


def all_lists() -> list[ListPage]:
    """Return every list page that has URLs, in the order of the URLs."""
    import_module(settings.ROOT_URLCONF)  # It imports the URLs of all apps.
    return list(_LISTS.values())
