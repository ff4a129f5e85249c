"""URL configuration of the back office."""

from __future__ import annotations

from django.conf import settings
from django.urls import include, path

from backoffice.accounts.views import sign_in
from backoffice.admin import site
from backoffice.admin.staff_list import STAFF_LIST
from backoffice.operations.drift_list import DRIFT_LIST
from backoffice.operations.run_list import RUN_LIST
from backoffice.operations.unread_list import UNREAD_LIST
from backoffice.operations.views import health
from backoffice.pages import views as pages
from backoffice.pages.javascript_catalog import javascript_catalog
from backoffice.pages.lists.urls import list_urls

handler400 = "backoffice.pages.views.bad_request"
handler404 = "backoffice.pages.views.not_found"
handler500 = "backoffice.pages.views.broken"

urlpatterns = [
    # The most requested paths come first, because Django tries them in this order.
    path("", sign_in.home, name="home"),
    path("live/", pages.live, name="live"),
    path("api/", include("backoffice.api_urls")),
    path("find/", include("orders.search.urls")),
    path("today/", include("orders.today.urls")),
    path("orders/", include("orders.urls")),
    path("orders/", include("orders.documents.urls")),
    path("results/", include("orders.results.urls")),
    path("results/list/", include("orders.results.list_urls")),
    path("exceptions/", include("orders.exceptions.urls")),
    path("unmatched/", include("orders.unmatched.urls")),
    path("appointments/", include("orders.appointment_list.urls")),
    path("appointments/unbooked/", include("orders.appointment_list.unbooked_urls")),
    path("patients/", include("orders.patient_tabs.urls")),
    path("patients/", include("patients.urls")),
    path("labs/", include("labs.urls")),
    path("reports/", include("labs.reports.urls")),
    path("commands/", include("backoffice.outbox.urls")),
    path("", include("backoffice.team.urls")),
    path("", include("backoffice.operations.urls")),
    path("accounts/", include("backoffice.accounts.urls")),
    path("theme/", sign_in.theme, name="theme"),
    path("jsi18n/", javascript_catalog, name="javascript-catalog"),
    path("preferences/", pages.preferences, name="preferences"),
    path("health/live", health.live, name="health-live"),
    path("health/ready", health.ready, name="health-ready"),
    path("admin/", site.urls),
    path("system/", include("backoffice.operations.system_urls")),
    path("system/runs/", include((list_urls(RUN_LIST), RUN_LIST.name))),
    path("system/drift/", include((list_urls(DRIFT_LIST), DRIFT_LIST.name))),
    path("system/unread/", include((list_urls(UNREAD_LIST), UNREAD_LIST.name))),
    path("system/staff/", include((list_urls(STAFF_LIST), STAFF_LIST.name))),
    path("system/audit/", include("backoffice.audit.urls")),
    path("", include("patients.wearables.urls")),
    path("", include("webhooks.page_urls")),
    path("", include("webhooks.urls")),
]
if settings.DEBUG:
    urlpatterns.append(path("system/components/", pages.components, name="components"))
