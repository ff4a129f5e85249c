"""URLs of patients."""

from django.urls import path

from backoffice.pages.lists.urls import list_urls
from patients.patient_list import PATIENT_LIST
from patients.views import connections, duplicates, payors, records, registration

app_name = "patients"

urlpatterns = [
    *list_urls(PATIENT_LIST),
    path("register/", registration.register, name="register"),
    path("register/<uuid:command_id>/", registration.registering, name="registering"),
    path("duplicates/", duplicates.duplicates, name="duplicates"),
    path("check/", registration.check, name="check"),
    path("payors/", payors.payors, name="payors"),
    path("<uuid:patient_id>/", records.patient_detail, name="detail"),
    path("<uuid:patient_id>/details/", registration.edit, name="edit"),
    path("<uuid:patient_id>/registration/", registration.register_on, name="register-on"),
    path("<uuid:patient_id>/insurance/", registration.insure, name="insure"),
    path("<uuid:patient_id>/insured/", records.insurance, name="insurance"),
    path("<uuid:patient_id>/viewers/", records.viewers, name="viewers"),
    path("<uuid:patient_id>/viewers/sheet/", records.viewers_sheet, name="viewers-sheet"),
    path("<uuid:patient_id>/different/", records.different, name="different"),
    path("<uuid:patient_id>/devices/connect/", connections.connect, name="connect"),
    path(
        "<uuid:patient_id>/devices/connect/link/",
        connections.connect_link,
        name="connect-link",
    ),
    path(
        "<uuid:patient_id>/devices/<slug:slug>/disconnect/",
        registration.disconnect,
        name="disconnect",
    ),
]
