"""`manage.py listtokens`: list the tokens of the JSON API, without the secret tokens themselves."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandParser
from django.utils import timezone

from backoffice.api.models import ApiToken


class Command(BaseCommand):
    help = "List the tokens of the JSON API: key id, account, state, times, scopes, purpose."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("account", nargs="?", help="only tokens of this account")
        parser.add_argument("--all", action="store_true", help="include revoked and expired tokens")

    def handle(self, *args: Any, account: str | None, all: bool, **options: Any) -> None:
        now = timezone.now()
        listed = ApiToken.objects.select_related("user").order_by("created_at", "id")
        if account is not None:
            listed = listed.filter(user__username=account)
        for token in listed:
            state = token.state(now)
            if all or state == "good":
                ends = f"{token.expires_at:until %Y-%m-%d}" if token.expires_at else "no expiration"
                used = f"{token.last_used_at:used %Y-%m-%d %H:%M}" if token.last_used_at else "new"
                self.stdout.write(
                    f"{token.key_id}  {token.user.username:20}  {state:7}  {ends:16}  {used:21}  "
                    f"{' '.join(token.scopes)}  {token.name}".rstrip()
                )
