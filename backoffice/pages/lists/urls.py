"""Addresses that every list has, below its own."""

from __future__ import annotations

from functools import partial

from django.urls import URLPattern, path

from backoffice.core.access import requires
from backoffice.pages.lists import bulk_pages, pages
from backoffice.pages.lists.listing import Listing


def paths(listing: Listing) -> list[URLPattern]:
    seen = requires(*listing.needs)
    saved = requires(*listing.needs, listing.exports)
    found = [
        path("views/", seen(partial(pages.views, listing=listing)), name="views"),
        path("views/counts/", seen(partial(pages.counts, listing=listing)), name="view-counts"),
        path("views/<int:key>/", seen(partial(pages.view, listing=listing)), name="view"),
        path(
            "views/<int:key>/change/",
            seen(partial(pages.change_view, listing=listing)),
            name="view-change",
        ),
        path("columns/", seen(partial(pages.columns, listing=listing)), name="columns"),
        path("export/", saved(partial(pages.export, listing=listing)), name="export"),
    ]
    if listing.verbs:
        found += [
            path("bulk/", seen(partial(bulk_pages.bulk, listing=listing)), name="bulk"),
            path("bulk/<uuid:key>/", seen(partial(bulk_pages.run, listing=listing)), name="run"),
            path(
                "bulk/<uuid:key>/strip/",
                seen(partial(bulk_pages.strip, listing=listing)),
                name="run-strip",
            ),
            path(
                "bulk/<uuid:key>/stop/",
                seen(partial(bulk_pages.stop_run, listing=listing)),
                name="run-stop",
            ),
            path(
                "bulk/<uuid:key>/again/",
                seen(partial(bulk_pages.again, listing=listing)),
                name="run-again",
            ),
        ]
    return found
