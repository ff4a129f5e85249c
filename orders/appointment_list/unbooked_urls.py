"""URLs of the list of orders without a visit."""

from backoffice.pages.lists.urls import list_urls
from orders.appointment_list.unbooked_list import UNBOOKED_LIST

app_name = "unbooked"

urlpatterns = list_urls(UNBOOKED_LIST)
