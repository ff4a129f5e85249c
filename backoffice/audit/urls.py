"""URLs of the audit trail."""

from django.urls import path

from backoffice.audit import views
from backoffice.audit.entry_list import AUDIT_LIST
from backoffice.pages.lists.urls import list_urls

app_name = "audit"

urlpatterns = [
    *list_urls(AUDIT_LIST),
    path("<int:entry_id>/", views.entry, name="entry"),
    path("mine/", views.my_entries, name="mine"),
    path("integrity/", views.integrity, name="integrity"),
    path("integrity/check/", views.check_now, name="check-now"),
    path("reviews/", views.reviews, name="reviews"),
]
