"""Pages of orders."""

from django.urls import path

from orders import changing_views, views

app_name = "orders"

urlpatterns = [
    path("", views.order_list, name="list"),
    path("<uuid:order_id>/", views.order_detail, name="detail"),
    path("<uuid:order_id>/cancel/", changing_views.cancel, name="cancel"),
    path("<uuid:order_id>/activation/", changing_views.activation, name="activation"),
    path("<uuid:order_id>/drawn/", changing_views.drawn, name="drawn"),
    path("<uuid:order_id>/simulate/", changing_views.simulate, name="simulate"),
]
