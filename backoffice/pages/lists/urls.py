"""URLs of a list."""

from __future__ import annotations

from functools import partial

from django.urls import URLPattern, path

from backoffice.accounts.access import requires
from backoffice.pages.lists.definition import ListPage
from backoffice.pages.lists.views import bulk, saved_views
from backoffice.pages.lists.views import list_page as page_views


def list_urls(list_page: ListPage) -> list[URLPattern]:
    """Return the URL of a list and those below it: views, columns, download, bulk actions."""
    may_view = requires(*list_page.needs)
    may_export = requires(*list_page.needs, list_page.export_permission)
    patterns = [
        path("", may_view(partial(page_views.show, list_page=list_page)), name="list"),
        path("views/", may_view(partial(saved_views.view_list, list_page=list_page)), name="views"),
        path(
            "views/counts/",
            may_view(partial(saved_views.view_counts, list_page=list_page)),
            name="view-counts",
        ),
        path(
            "views/<int:key>/",
            may_view(partial(saved_views.open_view, list_page=list_page)),
            name="view",
        ),
        path(
            "views/<int:key>/change/",
            may_view(partial(saved_views.change_view, list_page=list_page)),
            name="view-change",
        ),
        path(
            "columns/", may_view(partial(saved_views.columns, list_page=list_page)), name="columns"
        ),
        path(
            "export/", may_export(partial(saved_views.export, list_page=list_page)), name="export"
        ),
    ]
    if list_page.bulk_actions:
        patterns += [
            path("bulk/", may_view(partial(bulk.begin, list_page=list_page)), name="bulk"),
            path(
                "bulk/<uuid:key>/",
                may_view(partial(bulk.run_page, list_page=list_page)),
                name="run",
            ),
            path(
                "bulk/<uuid:key>/strip/",
                may_view(partial(bulk.run_progress, list_page=list_page)),
                name="run-strip",
            ),
            path(
                "bulk/<uuid:key>/stop/",
                may_view(partial(bulk.stop, list_page=list_page)),
                name="run-stop",
            ),
            path(
                "bulk/<uuid:key>/again/",
                may_view(partial(bulk.repeat, list_page=list_page)),
                name="run-again",
            ),
        ]
    return patterns
