"""Pages of orders."""

from django.urls import path

from orders import views

app_name = "orders"

urlpatterns = [
    path("", views.order_list, name="list"),
    path("<uuid:order_id>/", views.order_detail, name="detail"),
]
