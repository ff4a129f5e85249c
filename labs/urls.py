"""URLs of the catalog pages."""

from django.urls import path

from labs import views
from labs.allowlists import views as allowlists
from labs.lab_tests import views as testing

app_name = "labs"

urlpatterns = [
    path("", views.labs, name="list"),
    path("<int:lab_id>/", views.lab, name="detail"),
    path("tests/<uuid:lab_test_id>/", views.lab_test, name="test"),
    path("accounts/<uuid:account_id>/", allowlists.account, name="account"),
    path("accounts/<uuid:account_id>/catalog/", views.account_catalog, name="account-catalog"),
    path("accounts/<uuid:account_id>/teams/", allowlists.teams, name="account-teams"),
    path("accounts/<uuid:account_id>/effects/", allowlists.effects, name="account-effects"),
    path("<int:lab_id>/tests/new/", testing.new, name="test-new"),
    path("<int:lab_id>/tests/new/markers/", testing.markers, name="test-new-markers"),
    path("tests/<uuid:lab_test_id>/rename/", testing.rename, name="test-rename"),
    path("tests/<uuid:lab_test_id>/archive/", testing.archive, name="test-archive"),
    path("tests/<uuid:lab_test_id>/restore/", testing.restore, name="test-restore"),
    path("markers/<int:marker_id>/", views.marker, name="marker"),
]
