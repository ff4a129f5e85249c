"""URLs of a list."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from django.http import HttpResponseBase
from django.urls import URLPattern, path

from backoffice.accounts.access import requires
from backoffice.accounts.recent_authentication import require_recent_authentication
from backoffice.pages.lists.definition import ListPage
from backoffice.pages.lists.registry import register
from backoffice.pages.lists.views import bulk, saved_views
from backoffice.pages.lists.views import list_page as page_views


def list_urls(list_page: ListPage) -> list[URLPattern]:
    """Return the URL of a list and those below it: views, columns, download, bulk actions."""
    register(list_page)

    def route(
        address: str, view: Callable[..., HttpResponseBase], name: str, *needs: str
    ) -> URLPattern:
        bound: Callable[..., HttpResponseBase] = partial(view, list_page=list_page)
        if list_page.needs_recent_authentication:
            bound = require_recent_authentication(bound)
        return path(address, requires(*list_page.needs, *needs)(bound), name=name)

    patterns = [
        route("", page_views.show, "list"),
        route("views/", saved_views.view_list, "views"),
        route("views/counts/", saved_views.view_counts, "view-counts"),
        route("views/<int:key>/", saved_views.open_view, "view"),
        route("views/<int:key>/change/", saved_views.change_view, "view-change"),
        route("columns/", saved_views.columns, "columns"),
        route("export/", saved_views.export, "export", list_page.export_permission),
    ]
    if list_page.bulk_actions:
        patterns += [
            route("bulk/", bulk.begin, "bulk"),
            route("bulk/<uuid:key>/", bulk.run_page, "run"),
            route("bulk/<uuid:key>/strip/", bulk.run_progress, "run-strip"),
            route("bulk/<uuid:key>/stop/", bulk.stop, "run-stop"),
            route("bulk/<uuid:key>/again/", bulk.repeat, "run-again"),
        ]
    return patterns
