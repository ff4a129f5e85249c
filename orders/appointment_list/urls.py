"""URLs of the appointment pages."""

from django.urls import path

from orders.appointment_list import views

app_name = "appointments"

urlpatterns = [
    path("", views.appointments, name="list"),
    path("export/", views.export, name="export"),
    path("week/", views.week, name="week"),
    path("sites/", views.sites, name="sites"),
    path("sheet/", views.sheet, name="sheet"),
]
