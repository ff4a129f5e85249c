"""Pages of unmatched results."""

from django.urls import path

from orders.unmatched import views

app_name = "unmatched"

urlpatterns = [
    path("", views.results, name="list"),
    path("<uuid:result_id>/", views.result, name="detail"),
]
