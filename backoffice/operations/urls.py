"""Addresses for whoever runs the deployment."""

from django.urls import path

from backoffice.operations import pages

app_name = "operations"

urlpatterns = [
    path("health/status", pages.health_status, name="health"),
    path("metrics", pages.prometheus, name="metrics"),
    path("system/status/", pages.page, name="status"),
    path("system/status/release/", pages.release, name="release"),
]
