"""Addresses of the search box. What is typed there is posted: it stands in no address."""

from django.urls import path

from orders.search import views

app_name = "find"

urlpatterns = [
    path("", views.results, name="results"),
    path("suggestions/", views.suggestions, name="suggestions"),
]
