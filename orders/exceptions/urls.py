"""URLs of the exception queue."""

from django.urls import path

from orders.exceptions import views

app_name = "exceptions"

urlpatterns = [
    path("", views.first_group, name="queue"),
    path("<slug:group>/", views.group, name="group"),
    path("<slug:group>/<uuid:order_id>/", views.card, name="card"),
    path("<slug:group>/<uuid:order_id>/take/", views.assign_to_me, name="take"),
    path("<slug:group>/<uuid:order_id>/check/", views.check_order, name="check"),
    path("<slug:group>/<uuid:order_id>/back/", views.end_snooze, name="back"),
]
