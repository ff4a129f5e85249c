"""Pages of patients."""

from django.urls import path

from patients import registering_views as registering
from patients import views
from patients.wearables import views as wearables

app_name = "patients"

urlpatterns = [
    path("", views.patient_list, name="list"),
    path("register/", registering.register, name="register"),
    path("register/<uuid:command_id>/", registering.registering, name="registering"),
    path("duplicates/", registering.duplicates, name="duplicates"),
    path("check/", registering.check, name="check"),
    path("payors/", registering.payors, name="payors"),
    path("<uuid:patient_id>/", views.patient_detail, name="detail"),
    path("<uuid:patient_id>/details/", registering.edit, name="edit"),
    path("<uuid:patient_id>/registration/", registering.register_on, name="register-on"),
    path("<uuid:patient_id>/insurance/", registering.insure, name="insure"),
    path("<uuid:patient_id>/devices/", wearables.device_data, name="devices"),
    path(
        "<uuid:patient_id>/devices/<slug:slug>/disconnect/",
        registering.disconnect,
        name="disconnect",
    ),
]
