"""`/webhooks/`, with and without its slash: both answer, neither redirects."""

from django.urls import path

from webhooks.views import receive

urlpatterns = [
    path("webhooks/", receive.receive, name="webhooks"),
    path("webhooks", receive.receive),
]
