"""Django's admin: staff and their roles."""

from __future__ import annotations

from django.contrib import admin
from django.contrib.auth.admin import UserAdmin

from backoffice.models import User


@admin.register(User)
class StaffAdmin(UserAdmin):  # type: ignore[type-arg]  # generic only in the stubs
    """Roles are the groups of a user (see `access.py`)."""

    fieldsets = (*(UserAdmin.fieldsets or ()), ("Display", {"fields": ("time_zone",)}))
    add_fieldsets = (*UserAdmin.add_fieldsets, ("Display", {"fields": ("time_zone",)}))
