"""Routes: the interface itself and the loopback control path."""

from django.urls import URLPattern, URLResolver, include, path

urlpatterns: list[URLPattern | URLResolver] = [
    path("_control/", include("sandbox.control")),
    path("_control/", include("sandbox.external_changes")),
    path("", include("sandbox.api.urls")),
]
