"""URLs of the appointment pages."""

from django.urls import path

from backoffice.pages.lists.urls import list_urls
from orders.appointment_list import views
from orders.appointment_list.appointment_list import APPOINTMENT_LIST

app_name = "appointments"

urlpatterns = [
    *list_urls(APPOINTMENT_LIST),
    path("week/", views.week, name="week"),
    path("sites/", views.sites, name="sites"),
    path("sheet/", views.sheet, name="sheet"),
]
