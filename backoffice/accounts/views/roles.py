"""System > Roles: permissions by role, read from `access.py`."""

from __future__ import annotations

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.translation import gettext
from django.views.decorators.http import require_safe

from backoffice.accounts.access import (
    ADMINISTRATOR,
    PERMISSIONS,
    ROLES,
    SERVICE_ACCOUNT,
    requires,
    role_label,
    roles_of,
)
from backoffice.accounts.staff_changes import count_people_by_role


@requires("audit.view")
@require_safe
def roles(request: HttpRequest) -> HttpResponse:
    """Show the roles. Administrators also see how many people have each role."""
    counts = count_people_by_role() if ADMINISTRATOR in roles_of(request.user) else {}
    demanded = settings.SECOND_FACTOR_ROLES
    columns: list[dict[str, object]] = [
        {
            "name": role,
            "label": role_label(role),
            "people": counts.get(role),
            "second_factor": role != SERVICE_ACCOUNT and bool({role, "all"} & demanded),
        }
        for role in ROLES
    ]
    rows = [
        {"name": name, "words": gettext(words), "granted": [name in ROLES[role] for role in ROLES]}
        for name, words in PERMISSIONS.items()
    ]
    context = {"columns": columns, "rows": rows, "counted": bool(counts)}
    return render(request, "system/roles.html", context)
