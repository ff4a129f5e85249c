"""Addresses of the audit trail."""

from django.urls import path

from backoffice.audit import pages
from backoffice.audit.listing import TRAIL
from backoffice.pages.lists.urls import paths

app_name = "audit"

urlpatterns = [
    path("", pages.trail, name="list"),
    *paths(TRAIL),
    path("<int:entry_id>/", pages.entry, name="entry"),
    path("mine/", pages.mine, name="mine"),
    path("integrity/", pages.integrity, name="integrity"),
    path("integrity/check/", pages.check_now, name="check-now"),
    path("reviews/", pages.reviews, name="reviews"),
]
