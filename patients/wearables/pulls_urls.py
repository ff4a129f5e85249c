"""Historical pulls across patients: a page of System."""

from django.urls import path

from patients.wearables import pulls_views

app_name = "pulls"

urlpatterns = [path("system/pulls/", pulls_views.pulls, name="list")]
