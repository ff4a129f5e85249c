"""`manage.py revoketoken KEY_ID`: revoke a token of the JSON API, with immediate effect."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import transaction

from backoffice.api import tokens
from backoffice.api.models import ApiToken
from backoffice.audit.recording import record_console_action


class Command(BaseCommand):
    help = "Revoke a token of the JSON API. The key id is its second part: bo_<key id>_..."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("key_id", help="see listtokens")

    def handle(self, *args: Any, key_id: str, **options: Any) -> None:
        with transaction.atomic(durable=True):
            token = ApiToken.objects.select_for_update().filter(key_id=key_id).first()
            if token is None:
                raise CommandError("There is no token with this key id. See listtokens.")
            if token.revoked_at is not None:
                raise CommandError(f"It was revoked on {token.revoked_at:%Y-%m-%d at %H:%M} UTC.")
            tokens.revoke(token)
            record_console_action("revoke token", [token.key_id])
        self.stderr.write(f"The token {key_id} is revoked.")
