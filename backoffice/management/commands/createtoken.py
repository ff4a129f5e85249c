"""`manage.py createtoken NAME`: a token of the JSON API for a service account."""

from __future__ import annotations

from typing import Any

from django.contrib.auth.models import Group
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import transaction

from backoffice.models import ApiToken, User

ROLE = "service account"


class Command(BaseCommand):
    help = (
        "Make a read-only service account of that name if need be and print a new token of the "
        "JSON API as the last line. The token is shown once and cannot be read again. "
        "Tokens do not expire: --revoke ends the earlier ones of the account."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("name", help="User name of the service account")
        parser.add_argument(
            "--revoke",
            action="store_true",
            help="delete all earlier tokens of the account: only the new one works from then on",
        )

    def handle(self, *args: Any, name: str, revoke: bool, **options: Any) -> None:
        with transaction.atomic(durable=True):
            account, made = User.objects.get_or_create(username=name)
            if made:
                account.set_unusable_password()
                account.save(update_fields=["password"])
                account.groups.add(Group.objects.get(name=ROLE))
            elif not account.groups.filter(name=ROLE).exists():
                raise CommandError(f"{name} is a member of staff, not a service account.")
            elif not account.is_active:
                raise CommandError(f"The service account {name} is switched off.")
            earlier = ApiToken.objects.filter(user=account)
            tokens = earlier.delete()[0] if revoke else earlier.count()
            token = ApiToken.issue(account)
        if made:
            self.stderr.write(f"Made the service account {name}.")
        elif tokens:
            count = "1 earlier token" if tokens == 1 else f"{tokens} earlier tokens"
            what = "deleted" if revoke else "still valid (--revoke deletes)"
            self.stderr.write(f"{count} of {name}: {what}.")
        self.stdout.write(token)
