"""URLs of the list of results."""

from backoffice.pages.lists.urls import list_urls
from orders.results.result_list import RESULT_LIST

app_name = "results"

urlpatterns = list_urls(RESULT_LIST)
