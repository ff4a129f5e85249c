"""URL configuration of the JSON API."""

from __future__ import annotations

from django.contrib.auth.decorators import login_not_required
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.urls import path, re_path
from django.views.decorators.csrf import csrf_exempt
from drf_spectacular.renderers import OpenApiJsonRenderer2
from drf_spectacular.views import SpectacularAPIView

from backoffice.accounts.access import public, requires
from backoffice.api.base import BaseAPIView
from backoffice.api.errors import error_body
from backoffice.api.resources import routes
from backoffice.api.system import Commands, Runs
from labs.api import LabAccounts, Labs, LabTests, Markers
from labs.reports.api import Reports
from orders.api import Appointments, Orders, Results, Transactions
from patients.api import Connections, Insurances, Patients, PatientSearch, Payors
from patients.wearables.api import Pulls, Summaries
from patients.wearables.samples_api import Samples
from webhooks.api import Events


@requires("api.read")
class Schema(BaseAPIView, SpectacularAPIView):
    """OpenAPI 3 description of this API."""

    renderer_classes = [OpenApiJsonRenderer2]


@login_not_required
@csrf_exempt
@public
def nothing_here(request: HttpRequest) -> HttpResponse:
    body = error_body("not_found", "There is no such address in this API.", request)
    return JsonResponse(body, status=404)


urlpatterns = [
    path("schema/", Schema.as_view(), name="api-schema"),
    path("patients/search/", PatientSearch.as_view(), name="api-patients-search"),
    *routes("patients", Patients),
    *routes("connections", Connections),
    *routes("insurance", Insurances),
    *routes("payors", Payors),
    *routes("labs", Labs),
    *routes("markers", Markers),
    *routes("lab-tests", LabTests),
    *routes("lab-accounts", LabAccounts),
    *routes("orders", Orders),
    *routes("appointments", Appointments),
    *routes("transactions", Transactions),
    *routes("results", Results),
    *routes("pulls", Pulls),
    *routes("summaries", Summaries),
    *routes("samples", Samples),
    *routes("reports", Reports),
    *routes("events", Events),
    *routes("commands", Commands),
    *routes("runs", Runs),
    re_path(r"", nothing_here, name="api-nothing"),
]
