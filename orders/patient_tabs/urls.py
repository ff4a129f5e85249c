"""URLs of the tabs of a patient's page."""

from django.urls import path

from orders.patient_tabs import views

app_name = "of-patient"

urlpatterns = [
    path("<uuid:patient_id>/orders/", views.orders, name="orders"),
    path("<uuid:patient_id>/results/", views.results, name="results"),
    path("<uuid:patient_id>/activity/", views.activity, name="activity"),
]
