"""URL configuration of the JSON API."""

from __future__ import annotations

from typing import cast

from django.urls import URLPattern, path, re_path

from backoffice.api.routers import ApiRouter
from backoffice.api.system import CommandViewSet, RunViewSet
from backoffice.api.views import Schema, nothing_here
from labs.api import LabAccountViewSet, LabTestViewSet, LabViewSet, MarkerViewSet
from labs.reports.api import ReportViewSet
from orders.api import AppointmentViewSet, OrderViewSet, ResultViewSet, TransactionViewSet
from patients.api import ConnectionViewSet, InsuranceViewSet, PatientViewSet, PayorViewSet
from patients.wearables.api import PullViewSet, SummaryViewSet
from patients.wearables.samples_api import SampleViewSet
from webhooks.api import EventViewSet

router = ApiRouter()
router.register("patients", PatientViewSet, "api-patients")
router.register("connections", ConnectionViewSet, "api-connections")
router.register("insurance", InsuranceViewSet, "api-insurance")
router.register("payors", PayorViewSet, "api-payors")
router.register("labs", LabViewSet, "api-labs")
router.register("markers", MarkerViewSet, "api-markers")
router.register("lab-tests", LabTestViewSet, "api-lab-tests")
router.register("lab-accounts", LabAccountViewSet, "api-lab-accounts")
router.register("orders", OrderViewSet, "api-orders")
router.register("appointments", AppointmentViewSet, "api-appointments")
router.register("transactions", TransactionViewSet, "api-transactions")
router.register("results", ResultViewSet, "api-results")
router.register("pulls", PullViewSet, "api-pulls")
router.register("summaries", SummaryViewSet, "api-summaries")
router.register("samples", SampleViewSet, "api-samples")
router.register("reports", ReportViewSet, "api-reports")
router.register("events", EventViewSet, "api-events")
router.register("commands", CommandViewSet, "api-commands")
router.register("runs", RunViewSet, "api-runs")

urlpatterns = [
    path("schema/", Schema.as_view(), name="api-schema"),
    *cast("list[URLPattern]", router.urls),
    re_path(r"", nothing_here, name="api-nothing"),
]
