"""Lab accounts in Django's admin: to be read there, and on to the page that changes their teams."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.http import HttpRequest
from django.urls import reverse
from django.utils.html import format_html

from backoffice.access import may
from labs.models import LabAccount


@admin.register(LabAccount)
class LabAccountAdmin(admin.ModelAdmin):  # type: ignore[type-arg]  # generic only in the stubs
    """Mirrored: the service alone changes them, asked by a command."""

    list_display = ("__str__", "lab", "status", "delegated_flow", "teams")
    list_filter = ("status", "lab")
    fields = (
        *("id", "account_name", "provider_account_id", "lab", "org_id", "status"),
        *("delegated_flow", "default_clinical_notes", "business_units", "teams", "as_of"),
    )
    readonly_fields = fields

    @admin.display(description="Teams")
    def teams(self, account: LabAccount) -> str:
        count = account.teams.count()
        address = reverse("labs:account", args=[account.pk])
        words = f"{count} team{'' if count == 1 else 's'}: look or change"
        return format_html('<a href="{}">{}</a>', address, words)

    def has_module_permission(self, request: HttpRequest) -> bool:
        return may(request.user, "lab_accounts.change")

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return may(request.user, "lab_accounts.change")

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False
