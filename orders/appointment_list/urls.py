"""URLs of the appointment pages."""

from django.urls import path

from backoffice.pages.lists.urls import list_urls
from orders.appointment_list import views
from orders.appointment_list.definition import APPOINTMENT_LIST

app_name = "appointments"

_, *below_list = list_urls(APPOINTMENT_LIST)
urlpatterns = [
    # In place of the list's own: it redirects old addresses.
    path("", views.appointments, name="list"),
    *below_list,
    path("week/", views.week, name="week"),
    path("sites/", views.sites, name="sites"),
    path("sheet/", views.sheet, name="sheet"),
]
