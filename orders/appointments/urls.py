"""Addresses of the appointment pages."""

from django.urls import path

from orders.appointments import views
from orders.appointments.export import export

app_name = "appointments"

urlpatterns = [
    path("", views.appointments, name="list"),
    path("export/", export, name="export"),
    path("week/", views.week, name="week"),
    path("sites/", views.sites, name="sites"),
    path("sheet/", views.sheet, name="sheet"),
]
