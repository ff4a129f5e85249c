"""Pages of patients."""

from django.urls import path

from backoffice.pages.lists.urls import paths
from patients import connecting_views, record_views
from patients import registering_views as registering
from patients.listing import PATIENTS, patient_list
from patients.wearables import strips
from patients.wearables import views as wearables

app_name = "patients"

urlpatterns = [
    path("", patient_list, name="list"),
    *paths(PATIENTS),
    path("register/", registering.register, name="register"),
    path("register/<uuid:command_id>/", registering.registering, name="registering"),
    path("duplicates/", registering.duplicates, name="duplicates"),
    path("check/", registering.check, name="check"),
    path("payors/", registering.payors, name="payors"),
    path("<uuid:patient_id>/", record_views.patient_detail, name="detail"),
    path("<uuid:patient_id>/details/", registering.edit, name="edit"),
    path("<uuid:patient_id>/registration/", registering.register_on, name="register-on"),
    path("<uuid:patient_id>/insurance/", registering.insure, name="insure"),
    path("<uuid:patient_id>/insured/", record_views.insurance, name="insurance"),
    path("<uuid:patient_id>/viewers/", record_views.viewers, name="viewers"),
    path("<uuid:patient_id>/viewers/sheet/", record_views.viewers_sheet, name="viewers-sheet"),
    path("<uuid:patient_id>/different/", record_views.different, name="different"),
    path("<uuid:patient_id>/devices/", wearables.device_data, name="devices"),
    path("<uuid:patient_id>/devices/strip/", strips.strip, name="strip"),
    path("<uuid:patient_id>/devices/connect/", connecting_views.connect, name="connect"),
    path(
        "<uuid:patient_id>/devices/connect/link/",
        connecting_views.connect_link,
        name="connect-link",
    ),
    path(
        "<uuid:patient_id>/devices/<slug:slug>/disconnect/",
        registering.disconnect,
        name="disconnect",
    ),
]
