"""URLs of the System pages."""

from django.urls import path

from backoffice.accounts.views import roles
from backoffice.api import views
from backoffice.operations.views import sync, unknown_values

app_name = "system"

urlpatterns = [
    path("", sync.health, name="health"),
    path("tokens/", views.token_list, name="tokens"),
    path("tokens/new/", views.new, name="token-new"),
    path("tokens/<int:token_id>/revoke/", views.revoke, name="token-revoke"),
    path("roles/", roles.roles, name="roles"),
    path("unknown/", unknown_values.unknown, name="unknown"),
    path("unknown/<int:value_id>/", unknown_values.value, name="unknown-value"),
]
