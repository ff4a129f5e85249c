"""Roles: what each may do and who has it. They are defined in code (`access.ROLES`)."""

from __future__ import annotations

from typing import Any

from django.contrib.auth.models import Group
from django.db.models import Count, Q, QuerySet
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.decorators import method_decorator
from django.utils.translation import gettext, gettext_noop
from django.views.decorators.http import require_safe

from backoffice.accounts import role_summary
from backoffice.accounts.access import ADMINISTRATOR, PERMISSIONS, ROLES, role_label
from backoffice.accounts.models import User
from backoffice.admin import groups
from backoffice.admin.lists import BaseAdmin, display
from backoffice.admin.site import site
from backoffice.pages.paging.pages import Sort


class RoleAdmin(BaseAdmin):
    group = groups.PEOPLE
    singular, plural = gettext_noop("role"), gettext_noop("roles")
    words = gettext_noop("Permissions of each role and the staff who have it")
    needs = ("staff.change",)
    sort = Sort(("name",))
    list_display = ("title", "grants", "people")

    def get_queryset(self, request: HttpRequest) -> QuerySet[Group]:
        rows = super().get_queryset(request).filter(name__in=ROLES)
        with_counts: QuerySet[Group] = rows.annotate(
            holders=Count("user", filter=Q(user__is_active=True))
        )
        return with_counts

    @display(gettext_noop("Name"))
    def title(self, role: Group) -> str:
        return role_label(role.name)

    @display(gettext_noop("Permissions"))
    def grants(self, role: Group) -> str:
        return role_summary.summarize(ROLES[role.name])

    @display(gettext_noop("Staff"))
    def people(self, role: Any) -> int:
        return int(role.holders)

    @method_decorator(require_safe)
    def change_view(
        self,
        request: HttpRequest,
        object_id: str,
        form_url: str = "",
        extra_context: dict[str, Any] | None = None,
    ) -> HttpResponse:
        """Show the role. Nothing can be changed."""
        role = self.row_or_none(request, object_id)
        if role is None:
            raise Http404
        holders = Q(groups=role)
        if role.name == ADMINISTRATOR:
            holders |= Q(is_superuser=True)
        context = {
            "role": role,
            "label": role_label(role.name),
            "grants": [
                (permission, gettext(words), permission in ROLES[role.name])
                for permission, words in PERMISSIONS.items()
            ],
            "people": User.objects.filter(holders, is_active=True).distinct().order_by("username"),
        }
        return render(request, "administration/role.html", context)


site.register(Group, RoleAdmin)
