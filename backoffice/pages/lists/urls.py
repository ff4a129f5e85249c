"""Addresses that every list has, below its own."""

from __future__ import annotations

from functools import partial

from django.urls import URLPattern, path

from backoffice.core.access import requires
from backoffice.pages.lists.definition import Listing
from backoffice.pages.lists.views import bulk, saved_views


def paths(listing: Listing) -> list[URLPattern]:
    seen = requires(*listing.needs)
    saved = requires(*listing.needs, listing.exports)
    found = [
        path("views/", seen(partial(saved_views.views, listing=listing)), name="views"),
        path(
            "views/counts/", seen(partial(saved_views.counts, listing=listing)), name="view-counts"
        ),
        path("views/<int:key>/", seen(partial(saved_views.view, listing=listing)), name="view"),
        path(
            "views/<int:key>/change/",
            seen(partial(saved_views.change_view, listing=listing)),
            name="view-change",
        ),
        path("columns/", seen(partial(saved_views.columns, listing=listing)), name="columns"),
        path("export/", saved(partial(saved_views.export, listing=listing)), name="export"),
    ]
    if listing.verbs:
        found += [
            path("bulk/", seen(partial(bulk.bulk, listing=listing)), name="bulk"),
            path("bulk/<uuid:key>/", seen(partial(bulk.run, listing=listing)), name="run"),
            path(
                "bulk/<uuid:key>/strip/",
                seen(partial(bulk.strip, listing=listing)),
                name="run-strip",
            ),
            path(
                "bulk/<uuid:key>/stop/",
                seen(partial(bulk.stop_run, listing=listing)),
                name="run-stop",
            ),
            path(
                "bulk/<uuid:key>/again/",
                seen(partial(bulk.again, listing=listing)),
                name="run-again",
            ),
        ]
    return found
