"""`/webhooks/`, with and without its slash: both answer, neither redirects."""

from django.urls import path

from webhooks import views

urlpatterns = [path("webhooks/", views.receive, name="webhooks"), path("webhooks", views.receive)]
