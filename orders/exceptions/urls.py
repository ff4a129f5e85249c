"""URLs of the exception queue."""

from django.urls import path

from backoffice.pages.lists.urls import list_urls
from orders.exceptions import views
from orders.exceptions.exception_list import EXCEPTION_LIST

app_name = "exceptions"

urlpatterns = [
    *list_urls(EXCEPTION_LIST),
    path("<slug:group>/", views.group, name="group"),
    path("<slug:group>/<uuid:order_id>/", views.card, name="card"),
    path("<slug:group>/<uuid:order_id>/take/", views.assign_to_me, name="take"),
    path("<slug:group>/<uuid:order_id>/check/", views.check_order, name="check"),
    path("<slug:group>/<uuid:order_id>/back/", views.end_snooze, name="back"),
]
