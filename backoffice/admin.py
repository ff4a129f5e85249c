"""Django's admin: staff and their roles (see `accounts/admin_site.py` for who gets in)."""

from __future__ import annotations

from allauth.account.models import EmailAddress
from allauth.mfa.models import Authenticator
from allauth.socialaccount.models import SocialAccount, SocialApp, SocialToken
from django.contrib import admin, messages
from django.contrib.auth.admin import UserAdmin
from django.db.models import QuerySet
from django.http import HttpRequest

from backoffice import audit
from backoffice.accounts.passwords import others_of
from backoffice.models import User

for model in (Authenticator, EmailAddress, SocialAccount, SocialApp, SocialToken):
    if admin.site.is_registered(model):
        admin.site.unregister(model)


@admin.register(User)
class StaffAdmin(UserAdmin):  # type: ignore[type-arg]  # generic only in the stubs
    """Roles are the groups of a user (see `access.py`)."""

    fieldsets = (*(UserAdmin.fieldsets or ()), ("Display", {"fields": ("time_zone",)}))
    add_fieldsets = (*UserAdmin.add_fieldsets, ("Display", {"fields": ("time_zone",)}))
    actions = ("take_second_factors",)

    @admin.action(description="Take away second factors, and end sessions: the phone is lost")
    def take_second_factors(self, request: HttpRequest, people: QuerySet[User]) -> None:
        for user in people:
            Authenticator.objects.filter(user=user).delete()
            others_of(user.pk, request).delete()
            audit.record(request, "change", "second factor", ids=[user.pk], reason="taken away")
        messages.success(request, "They set up a new one at their next log-in.")
