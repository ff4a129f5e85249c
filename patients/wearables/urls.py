"""URLs of device data: a patient's devices, and the historical pulls of all patients."""

from django.urls import path

from patients.wearables import draw_day_strip
from patients.wearables.views import devices, pulls

app_name = "wearables"

urlpatterns = [
    path("patients/<uuid:patient_id>/devices/", devices.device_data, name="devices"),
    path("patients/<uuid:patient_id>/devices/strip/", draw_day_strip.strip, name="strip"),
    path("system/pulls/", pulls.pulls, name="pulls"),
]
