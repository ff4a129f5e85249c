"""URL of the endpoint: `/webhooks/`, with and without the final slash. Neither redirects."""

from django.urls import path

from webhooks.views import receive

urlpatterns = [
    path("webhooks/", receive.receive, name="webhooks"),
    path("webhooks", receive.receive),
]
