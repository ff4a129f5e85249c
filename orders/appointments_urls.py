"""Addresses of the appointment pages."""

from django.urls import path

from orders import appointments_views as views

app_name = "appointments"

urlpatterns = [path("", views.appointments, name="list")]
