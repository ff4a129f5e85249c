"""URLs of the review of results."""

from django.urls import path

from orders.results import views

app_name = "reviewing"

urlpatterns = [
    path("", views.first_of_queue, name="queue"),
    path("quality/", views.quality, name="quality"),
    path("<uuid:order_id>/", views.report, name="report"),
    path("<uuid:order_id>/read-again/", views.read_again, name="read-again"),
    path("<uuid:order_id>/sign/", views.sign, name="sign"),
    path("<uuid:order_id>/acknowledge/", views.acknowledge, name="acknowledge"),
    path("<uuid:order_id>/call/", views.call, name="call"),
    path("<uuid:order_id>/delegate/", views.delegate, name="delegate"),
    path("<uuid:order_id>/versions/<int:number>/", views.version, name="version"),
    path("signatures/<int:signature_id>/undo/", views.undo, name="undo"),
    path("delegations/<int:delegation_id>/end/", views.end_delegation, name="end-delegation"),
    path("trend/<uuid:patient_id>/<path:key>/", views.trend, name="trend"),
]
