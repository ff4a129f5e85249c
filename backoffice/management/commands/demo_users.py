"""`manage.py demo_users`: create made-up staff, one per role, for demo and development."""

from __future__ import annotations

from functools import cache
from typing import Any, Final

from django.conf import settings
from django.contrib.auth.hashers import check_password, make_password
from django.contrib.auth.models import Group
from django.core.management.base import BaseCommand, CommandError
from django.db import transaction

from backoffice.accounts.access import ADMINISTRATOR
from backoffice.accounts.models import User

PASSWORD: Final = "made-up-people-only"  # noqa: S105 - printed on the terminal, local use only
PEOPLE: Final = {
    "viewer": ("Vera", "America/New_York"),
    "front desk": ("Frida", "America/New_York"),
    "clinician": ("Clive", "America/Chicago"),
    "lab coordinator": ("Lars", "America/Denver"),
    "lab admin": ("Lena", "America/Los_Angeles"),
    "auditor": ("Audrey", "UTC"),
    ADMINISTRATOR: ("Ada", "America/New_York"),
}

_hashed = cache(make_password)
"""All demo users have the same hash. Hashing is slow on purpose, and the password is public."""
_fits = cache(check_password)


class Command(BaseCommand):
    help = "Create one made-up staff member per role and print the sign-ins. Local use only."

    def handle(self, *args: Any, **options: Any) -> None:
        if not settings.LOCAL or settings.MANAGEMENT_ENV == "production":
            raise CommandError(
                "Demo users have a published password. This command requires LOCAL=1."
            )
        with transaction.atomic(durable=True):
            for role, (first_name, zone) in PEOPLE.items():
                self.stdout.write(
                    f"{_user(role, first_name, zone).username:16} {PASSWORD:20} {role}"
                )


def _user(role: str, first_name: str, zone: str) -> User:
    user, _ = User.objects.get_or_create(
        username=role.replace(" ", "-"),
        defaults={"first_name": first_name, "last_name": "Madeup", "time_zone": zone},
    )
    user.is_staff = user.is_superuser = role == ADMINISTRATOR
    user.is_active = True
    user.email = user.email or f"{user.username}@example.invalid"
    if not _fits(PASSWORD, user.password):
        user.password, user.first_password_until = _hashed(PASSWORD), None
    user.save()
    user.groups.set([Group.objects.get(name=role)])
    return user
