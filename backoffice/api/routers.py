"""The router of the JSON API."""

from __future__ import annotations

from rest_framework.routers import DynamicRoute, Route, SimpleRouter


class ApiRouter(SimpleRouter):
    """Routes to lists, searches and items, named `api-orders`, `api-orders-search` and so on.

    The audit trail stores the names.
    """

    routes = [
        Route("{prefix}/", {"get": "list"}, "{basename}", detail=False, initkwargs={}),
        DynamicRoute("{prefix}/{url_path}/", "{basename}-{url_name}", detail=False, initkwargs={}),
        Route("{prefix}/{lookup}/", {"get": "retrieve"}, "{basename}-one", True, initkwargs={}),
    ]

    def __init__(self) -> None:
        super().__init__(use_regex_path=False)
