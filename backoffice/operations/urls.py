"""URLs for operators of the deployment."""

from django.urls import path

from backoffice.operations.service_check.views import check as service_check
from backoffice.operations.service_check.views import endpoints
from backoffice.operations.views import status

app_name = "operations"

urlpatterns = [
    path("health/status", status.health_status, name="health"),
    path("metrics", status.prometheus, name="metrics"),
    path("system/status/", status.page, name="status"),
    path("system/status/release/", status.release, name="release"),
    path("system/service-check/", service_check.page, name="service-check"),
    path("system/service-check/event/", service_check.event, name="service-check-event"),
    path("system/service-check/send/", service_check.send_event, name="service-check-send"),
    path("system/service-check/endpoints/new/", endpoints.new, name="endpoint-new"),
    path(
        "system/service-check/endpoints/<str:endpoint_id>/rotate/",
        endpoints.rotate,
        name="endpoint-rotate",
    ),
    path(
        "system/service-check/endpoints/<str:endpoint_id>/switch/",
        endpoints.switch,
        name="endpoint-switch",
    ),
    path(
        "system/service-check/endpoints/<str:endpoint_id>/delete/",
        endpoints.delete,
        name="endpoint-delete",
    ),
    path(
        "system/service-check/endpoints/<str:endpoint_id>/secret/",
        endpoints.secret,
        name="endpoint-secret",
    ),
]
