"""URL configuration of the JSON API."""

from __future__ import annotations

from django.urls import path, re_path

from backoffice.api.resources import routes
from backoffice.api.system import Commands, Runs
from backoffice.api.views import Schema, nothing_here
from labs.api import LabAccounts, Labs, LabTests, Markers
from labs.reports.api import Reports
from orders.api import Appointments, Orders, Results, Transactions
from patients.api import Connections, Insurances, Patients, PatientSearch, Payors
from patients.wearables.api import Pulls, Summaries
from patients.wearables.samples_api import Samples
from webhooks.api import Events

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
