"""Pages of patients."""

from django.urls import path

from patients import views
from patients.wearables import views as wearables

app_name = "patients"

urlpatterns = [
    path("", views.patient_list, name="list"),
    path("<uuid:patient_id>/", views.patient_detail, name="detail"),
    path("<uuid:patient_id>/devices/", wearables.device_data, name="devices"),
]
