"""Addresses of the audit trail."""

from django.urls import path

from backoffice.audit import views
from backoffice.audit.entry_list import TRAIL
from backoffice.pages.lists.urls import paths

app_name = "audit"

urlpatterns = [
    path("", views.trail, name="list"),
    *paths(TRAIL),
    path("<int:entry_id>/", views.entry, name="entry"),
    path("mine/", views.mine, name="mine"),
    path("integrity/", views.integrity, name="integrity"),
    path("integrity/check/", views.check_now, name="check-now"),
    path("reviews/", views.reviews, name="reviews"),
]
