"""URLs of patients."""

from django.urls import path

from backoffice.pages.lists.urls import list_urls
from patients.patient_list import PATIENTS
from patients.views import connections, duplicates, patient_list, records
from patients.views import registration as registering

app_name = "patients"

urlpatterns = [
    path("", patient_list.patient_list, name="list"),
    *list_urls(PATIENTS),
    path("register/", registering.register, name="register"),
    path("register/<uuid:command_id>/", registering.registering, name="registering"),
    path("duplicates/", duplicates.duplicates, name="duplicates"),
    path("check/", registering.check, name="check"),
    path("payors/", registering.payors, name="payors"),
    path("<uuid:patient_id>/", records.patient_detail, name="detail"),
    path("<uuid:patient_id>/details/", registering.edit, name="edit"),
    path("<uuid:patient_id>/registration/", registering.register_on, name="register-on"),
    path("<uuid:patient_id>/insurance/", registering.insure, name="insure"),
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
        registering.disconnect,
        name="disconnect",
    ),
]
