"""`manage.py createtoken NAME`: create a token of the JSON API for a service account."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.core.exceptions import ValidationError
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import transaction
from django.utils import timezone

from backoffice.api import tokens
from backoffice.api.models import ApiToken
from backoffice.audit.recording import record_console_action


class Command(BaseCommand):
    help = (
        "Create a read-only service account with this name if needed, and print a new token for "
        "the JSON API as the last line. The token is shown once and cannot be read again."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("name", help="username of the service account")
        parser.add_argument("--label", default="", help="purpose of the token")
        parser.add_argument(
            "--scope",
            action="append",
            choices=tokens.SCOPES,
            metavar="SCOPE",
            help="grant only this scope; may be repeated. Default: all scopes of service accounts: "
            + ", ".join(tokens.SCOPES),
        )
        length = parser.add_mutually_exclusive_group()
        length.add_argument(
            "--days", type=int, default=tokens.DAYS, help="valid for this many days (%(default)s)"
        )
        length.add_argument("--never", action="store_true", help="valid until it is revoked")
        parser.add_argument(
            "--revoke",
            action="store_true",
            help="revoke all earlier tokens of the account, so that only the new one works",
        )

    def handle(
        self,
        *args: Any,
        name: str,
        label: str,
        scope: Sequence[str] | None,
        days: int,
        never: bool,
        revoke: bool,
        **options: Any,
    ) -> None:
        if not 1 <= days <= tokens.DAYS_MAX:
            raise CommandError(f"--days must be from 1 to {tokens.DAYS_MAX}.")
        if len(label) > 80 or not label.isprintable():
            raise CommandError("--label must be one line of at most 80 characters.")
        with transaction.atomic(durable=True):
            try:
                account, is_new_account = tokens.account_of(name)
            except ValidationError as error:
                raise CommandError(" ".join(error.messages)) from error
            now = timezone.now()
            account_tokens = ApiToken.objects.filter(user=account)
            earlier = [token for token in account_tokens if token.state(now) == "good"]
            if revoke:
                for token in earlier:
                    tokens.revoke(token)
                    record_console_action("revoke token", [token.key_id])
            token, text = tokens.issue(
                account, name=label, scopes=scope or tokens.SCOPES, days=None if never else days
            )
            record_console_action("make token", [token.key_id, account.username])
        if is_new_account:
            self.stderr.write(f"Created the service account {name}.")
        elif earlier:
            count = "1 earlier token" if len(earlier) == 1 else f"{len(earlier)} earlier tokens"
            what = "revoked" if revoke else "still valid (use --revoke to end them)"
            self.stderr.write(f"{count} of {name}: {what}.")
        good = f"until {token.expires_at:%Y-%m-%d}" if token.expires_at else "until it is revoked"
        self.stderr.write(f"Valid {good}, for {', '.join(token.scopes)}.")
        self.stdout.write(text)
