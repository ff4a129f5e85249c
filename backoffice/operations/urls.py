"""Addresses for whoever runs the deployment."""

from django.urls import path

from backoffice.operations import pages
from backoffice.operations.service_check import endpoint_pages
from backoffice.operations.service_check import pages as service_check

app_name = "operations"

urlpatterns = [
    path("health/status", pages.health_status, name="health"),
    path("metrics", pages.prometheus, name="metrics"),
    path("system/status/", pages.page, name="status"),
    path("system/status/release/", pages.release, name="release"),
    path("system/service-check/", service_check.page, name="service-check"),
    path("system/service-check/event/", service_check.event, name="service-check-event"),
    path("system/service-check/send/", service_check.send_event, name="service-check-send"),
    path("system/service-check/endpoints/new/", endpoint_pages.new, name="endpoint-new"),
    path(
        "system/service-check/endpoints/<str:endpoint_id>/rotate/",
        endpoint_pages.rotate,
        name="endpoint-rotate",
    ),
    path(
        "system/service-check/endpoints/<str:endpoint_id>/switch/",
        endpoint_pages.switch,
        name="endpoint-switch",
    ),
    path(
        "system/service-check/endpoints/<str:endpoint_id>/delete/",
        endpoint_pages.delete,
        name="endpoint-delete",
    ),
    path(
        "system/service-check/endpoints/<str:endpoint_id>/secret/",
        endpoint_pages.secret,
        name="endpoint-secret",
    ),
]
