"""URLs of device data: a patient's devices, and the historical pulls of all patients."""

from django.urls import path

from patients.wearables.views import devices, draw_day, pulls

app_name = "wearables"

urlpatterns = [
    path("patients/<uuid:patient_id>/devices/", devices.device_data, name="devices"),
    path("patients/<uuid:patient_id>/devices/strip/", draw_day.strip, name="strip"),
    path("system/pulls/", pulls.pulls, name="pulls"),
]
