"""Addresses of the catalogue pages."""

from django.urls import path

from labs import views
from labs.allowlists import views as allowlists

app_name = "labs"

urlpatterns = [
    path("", views.labs, name="list"),
    path("<int:lab_id>/", views.lab, name="detail"),
    path("tests/<uuid:lab_test_id>/", views.lab_test, name="test"),
    path("accounts/<uuid:account_id>/", allowlists.account, name="account"),
    path("accounts/<uuid:account_id>/teams/", allowlists.teams, name="account-teams"),
    path("accounts/<uuid:account_id>/effects/", allowlists.effects, name="account-effects"),
    path("markers/<int:marker_id>/", views.marker, name="marker"),
]
