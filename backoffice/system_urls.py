"""Addresses of the system pages."""

from django.urls import path

from backoffice import unknown_values, views
from backoffice.accounts import roles_page
from backoffice.api import pages

app_name = "system"

urlpatterns = [
    path("", views.health, name="health"),
    path("runs/", views.runs, name="runs"),
    path("drift/", views.drift, name="drift"),
    path("unread/", views.unread, name="unread"),
    path("tokens/", pages.listed, name="tokens"),
    path("tokens/new/", pages.new, name="token-new"),
    path("tokens/<int:token_id>/revoke/", pages.revoke, name="token-revoke"),
    path("roles/", roles_page.roles, name="roles"),
    path("unknown/", unknown_values.unknown, name="unknown"),
    path("unknown/<int:value_id>/", unknown_values.value, name="unknown-value"),
]
