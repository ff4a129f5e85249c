"""Queries about members of staff that several pages use."""

from __future__ import annotations

from collections.abc import Collection

from allauth.mfa.models import Authenticator
from django.db.models import Exists, OuterRef, Q, QuerySet

from backoffice.accounts.access import ADMINISTRATOR
from backoffice.accounts.models import User


def has_role(roles: Collection[str]) -> Q:
    """Return the condition for accounts with one of these roles, open or closed."""
    holders = User.objects.filter(groups__name__in=roles)
    condition = Q(pk__in=holders.values("pk"))
    return condition | Q(is_superuser=True) if ADMINISTRATOR in roles else condition


def has_second_factor() -> Exists:
    return Exists(Authenticator.objects.filter(user=OuterRef("pk")))


def with_second_factor(rows: QuerySet[User]) -> QuerySet[User]:
    """Return the accounts, each with `has_second_factor`."""
    annotated: QuerySet[User] = rows.annotate(has_second_factor=has_second_factor())
    return annotated


def staff_choices() -> list[tuple[str, str]]:
    """Return id and name of each member of staff, for a filter."""
    rows = User.objects.order_by("first_name", "last_name", "username").values_list(
        "pk", "first_name", "last_name", "username"
    )[:1_000]
    return [(str(key), f"{first} {last}".strip() or name) for key, first, last, name in rows]
