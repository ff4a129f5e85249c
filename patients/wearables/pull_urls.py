"""URLs of the page of historical pulls of all patients, a page of System."""

from django.urls import path

from patients.wearables.views import pulls

app_name = "pulls"

urlpatterns = [path("system/pulls/", pulls.pulls, name="list")]
