"""Addresses of the catalogue pages."""

from django.urls import path

from labs import views

app_name = "labs"

urlpatterns = [
    path("", views.labs, name="list"),
    path("<int:lab_id>/", views.lab, name="detail"),
    path("tests/<uuid:lab_test_id>/", views.lab_test, name="test"),
    path("markers/<int:marker_id>/", views.marker, name="marker"),
]
