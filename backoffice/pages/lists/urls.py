"""URLs that every list has, below its own URL."""

from __future__ import annotations

from functools import partial

from django.urls import URLPattern, path

from backoffice.accounts.access import requires
from backoffice.pages.lists.definition import ListPage
from backoffice.pages.lists.views import bulk, saved_views


def list_urls(list_page: ListPage) -> list[URLPattern]:
    seen = requires(*list_page.needs)
    saved = requires(*list_page.needs, list_page.export_permission)
    found = [
        path("views/", seen(partial(saved_views.view_list, list_page=list_page)), name="views"),
        path(
            "views/counts/",
            seen(partial(saved_views.view_counts, list_page=list_page)),
            name="view-counts",
        ),
        path(
            "views/<int:key>/",
            seen(partial(saved_views.open_view, list_page=list_page)),
            name="view",
        ),
        path(
            "views/<int:key>/change/",
            seen(partial(saved_views.change_view, list_page=list_page)),
            name="view-change",
        ),
        path("columns/", seen(partial(saved_views.columns, list_page=list_page)), name="columns"),
        path("export/", saved(partial(saved_views.export, list_page=list_page)), name="export"),
    ]
    if list_page.bulk_actions:
        found += [
            path("bulk/", seen(partial(bulk.begin, list_page=list_page)), name="bulk"),
            path("bulk/<uuid:key>/", seen(partial(bulk.run_page, list_page=list_page)), name="run"),
            path(
                "bulk/<uuid:key>/strip/",
                seen(partial(bulk.run_progress, list_page=list_page)),
                name="run-strip",
            ),
            path(
                "bulk/<uuid:key>/stop/",
                seen(partial(bulk.stop, list_page=list_page)),
                name="run-stop",
            ),
            path(
                "bulk/<uuid:key>/again/",
                seen(partial(bulk.repeat, list_page=list_page)),
                name="run-again",
            ),
        ]
    return found
