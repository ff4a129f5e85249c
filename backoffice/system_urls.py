"""Addresses of the system pages."""

from django.urls import path

from backoffice import views

app_name = "system"

urlpatterns = [
    path("", views.health, name="health"),
    path("runs/", views.runs, name="runs"),
    path("drift/", views.drift, name="drift"),
    path("unread/", views.unread, name="unread"),
]
