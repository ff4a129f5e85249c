"""System > Roles: permissions by role, read from `access.py`."""

from __future__ import annotations

from django.conf import settings
from django.contrib.auth.models import Group
from django.db.models import Count, Q
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from backoffice.accounts.access import (
    ADMINISTRATOR,
    PERMISSIONS,
    ROLES,
    SERVICE_ACCOUNT,
    requires,
    roles_of,
)
from backoffice.accounts.models import User


@requires("audit.view")
@require_safe
def roles(request: HttpRequest) -> HttpResponse:
    """Show the roles. Administrators also see how many people have each role."""
    counts = _people_per_role() if ADMINISTRATOR in roles_of(request.user) else {}
    demanded = settings.SECOND_FACTOR_ROLES
    columns: list[dict[str, object]] = [
        {
            "name": role,
            "people": counts.get(role),
            "second_factor": role != SERVICE_ACCOUNT and bool({role, "all"} & demanded),
        }
        for role in ROLES
    ]
    rows = [
        {"name": name, "words": words, "granted": [name in ROLES[role] for role in ROLES]}
        for name, words in PERMISSIONS.items()
    ]
    context = {"columns": columns, "rows": rows, "counted": bool(counts)}
    return render(request, "system/roles.html", context)


def _people_per_role() -> dict[str, int]:
    """Return the number of open accounts per role; a superuser is an administrator."""
    active = Count("user", filter=Q(user__is_active=True, user__is_superuser=False))
    counts = dict(Group.objects.filter(name__in=ROLES).values_list("name").annotate(n=active))
    everything = Q(is_superuser=True) | Q(groups__name=ADMINISTRATOR)
    administrators = User.objects.filter(everything, is_active=True).distinct().count()
    plain = {role: counts.get(role, 0) for role in ROLES}
    return {**plain, ADMINISTRATOR: administrators}
