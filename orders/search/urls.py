"""URLs of the search box. The search text is posted and is not part of any URL."""

from django.urls import path

from orders.search import views

app_name = "find"

urlpatterns = [
    path("", views.results, name="results"),
    path("suggestions/", views.suggestions, name="suggestions"),
]
