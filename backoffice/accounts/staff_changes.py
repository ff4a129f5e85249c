"""Roles of accounts, and snapshots of accounts for the audit trail.

Administrators and single sign-on change accounts.
"""

from __future__ import annotations

from collections.abc import Collection

from django.contrib.auth.models import Group
from django.db.models import Count, Q

from backoffice.accounts.access import ADMINISTRATOR, ROLES
from backoffice.accounts.models import User

TOPIC = "member of staff"
"""Object type of the audit entries."""


def roles_of_account(user: User) -> list[str]:
    """Return the roles of an account, whether it is open or closed, from its groups."""
    names = {group.name for group in user.groups.all()} & ROLES.keys()
    return sorted(names | {ADMINISTRATOR} if user.is_superuser else names)


def set_roles(user: User, roles: Collection[str]) -> None:
    """Give `user` these roles and no others. Groups that are not roles stay as they are."""
    if user.is_superuser and ADMINISTRATOR not in roles:
        user.is_superuser = False
        user.save(update_fields=["is_superuser"])
    others = user.groups.exclude(name__in=ROLES)
    user.groups.set([*Group.objects.filter(name__in=roles), *others])


def account_snapshot(user: User) -> dict[str, str]:
    """Return the account for the audit trail, as it is in the database now."""
    user = User.objects.get(pk=user.pk)
    return {
        "name": f"{user.first_name} {user.last_name}".strip(),
        "email": user.email,
        "username": user.username,
        "roles": ", ".join(roles_of_account(user)),
        "time zone": user.time_zone,
        "account": "open" if user.is_active else "closed",
    }


def count_people_by_role() -> dict[str, int]:
    """Return the number of open accounts per role; a superuser is an administrator."""
    active = Count("user", filter=Q(user__is_active=True, user__is_superuser=False))
    counts = dict(Group.objects.filter(name__in=ROLES).values_list("name").annotate(n=active))
    everything = Q(is_superuser=True) | Q(groups__name=ADMINISTRATOR)
    administrators = User.objects.filter(everything, is_active=True).distinct().count()
    plain = {role: counts.get(role, 0) for role in ROLES}
    return {**plain, ADMINISTRATOR: administrators}
