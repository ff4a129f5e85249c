"""Pages of unmatched results."""

from django.urls import path

from backoffice.pages.lists.urls import list_urls
from orders.unmatched import views
from orders.unmatched.unmatched_list import UNMATCHED_LIST

app_name = "unmatched"

urlpatterns = [
    *list_urls(UNMATCHED_LIST),
    path("<uuid:result_id>/", views.result, name="detail"),
]
