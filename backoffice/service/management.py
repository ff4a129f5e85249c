"""The management interface, which has its own address and its own key.

Interface: catalogue, chapter 7; webhooks, chapter 1.2.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final
from uuid import UUID

from backoffice.service import errors, signing
from backoffice.service.exchange import Chapter, as_json
from backoffice.service.labs import LAB_ACCOUNT, LabAccountPayload
from backoffice.service.payload import Instant, Payload, Reader, Record, RecordPage

_WEBHOOKS = "/v1/org/{org_id}/team/{team_id}/{env}/webhook"
MAX_PAGES: Final = 20
"""The most pages read of a list of endpoints."""


class Webhook(Payload):
    """An address to which the service delivers events.

    ``filter_types`` lists the event types to deliver; None means all of them.
    """

    id: str
    url: str = ""
    created_at: Instant | None = None
    updated_at: Instant | None = None
    description: str | None = None
    rate_limit: int | None = None
    disabled: bool | None = None
    filter_types: list[str] | None = None


class WebhookSecret(Payload):
    """A secret; ``key`` signs deliveries, as ``backoffice.service.signing`` reads it."""

    key: str

    @property
    def name(self) -> str:
        """Return the name of the secret in the event log; empty for a key in an unknown form."""
        try:
            return signing.Secret.read(self.key).name
        except ValueError:
            return ""


_WEBHOOK = Reader(Webhook)
_SECRET = Reader(WebhookSecret)


class Management(Chapter):
    """Calls with the management key.

    Organization, environment, and region come from settings.
    """

    def lab_accounts(
        self,
        lab_account_id: UUID | str | None = None,
        team_id: UUID | str | None = None,
        status: str | None = None,
    ) -> RecordPage[LabAccountPayload]:
        query = {"lab_account_id": lab_account_id, "team_id": team_id, "status": status}
        path = "/v1/org/{org_id}/lab_account/{env}/{region}"
        return self._call.page(path, LAB_ACCOUNT, "data", query=query, **self._call.path_parts)

    def set_allowlist(
        self, account_id: UUID | str, team_ids: Sequence[UUID]
    ) -> Record[LabAccountPayload] | None:
        """Replace the list of teams that may use an account.

        The service may answer without the account (None). It has no conditional update, so read the
        account again to see the list in force.
        """
        return self._call.send_and_maybe(
            "PATCH",
            "/v1/org/{org_id}/lab_account/{env}/{region}/{account_id}",
            LAB_ACCOUNT,
            as_json({"team_id_allowlist": team_ids}),
            inside="lab_account",
            **self._within(account_id=account_id),
        )

    def webhooks(
        self, team_id: UUID | str, limit: int = 50, next_cursor: str | None = None
    ) -> RecordPage[Webhook]:
        """Return a page of the addresses that receive a team's events."""
        query = {"limit": limit, "next_cursor": next_cursor}
        path = self._within(team_id=team_id)
        return self._call.page(_WEBHOOKS, _WEBHOOK, "data", query=query, **path)

    def every_webhook(self, team_id: UUID | str) -> Iterator[Record[Webhook]]:
        """Yield all addresses that receive a team's events, page by page.

        Raises Malformed when the list does not end within `MAX_PAGES` pages.
        """
        cursor: str | None = None
        for _ in range(MAX_PAGES):
            page = self.webhooks(team_id, next_cursor=cursor)
            yield from page.records
            cursor = page.next_cursor
            if not cursor:
                return
        raise errors.Malformed(route=f"GET {_WEBHOOKS}", reason="a list without end")

    def webhook(self, team_id: UUID | str, webhook_id: str) -> Record[Webhook]:
        path = self._within(team_id=team_id, webhook_id=webhook_id)
        return self._call.record(f"{_WEBHOOKS}/{{webhook_id}}", _WEBHOOK, **path)

    def webhook_secret(self, team_id: UUID | str, webhook_id: str) -> Record[WebhookSecret]:
        path = self._within(team_id=team_id, webhook_id=webhook_id)
        return self._call.record(f"{_WEBHOOKS}/{{webhook_id}}/secret", _SECRET, **path)

    def create_webhook(self, team_id: UUID | str, url: str, description: str) -> Record[Webhook]:
        """Add an address that receives all events of a team.

        The service creates the secret that signs them. There is no idempotency key: the description
        identifies our endpoint among others.
        """
        body = as_json({"url": url, "description": description})
        path = self._within(team_id=team_id)
        created = self._call.send("POST", _WEBHOOKS, _WEBHOOK, body, **path)
        if not created.data.url:
            raise errors.Uncertain(route=f"POST {_WEBHOOKS}", reason="no address in the answer")
        return created

    def switch_webhook(
        self, team_id: UUID | str, webhook_id: str, *, disabled: bool
    ) -> Record[Webhook]:
        """Stop deliveries to an endpoint, or start them again.

        Raises Uncertain when the answer does not confirm the change.
        """
        path = self._within(team_id=team_id, webhook_id=webhook_id)
        body = as_json({"disabled": disabled})
        route = f"{_WEBHOOKS}/{{webhook_id}}"
        changed = self._call.send("PATCH", route, _WEBHOOK, body, **path)
        if (changed.data.id, bool(changed.data.disabled)) != (webhook_id, disabled):
            raise errors.Uncertain(route=f"PATCH {route}", reason="the answer is of another state")
        return changed

    def delete_webhook(self, team_id: UUID | str, webhook_id: str) -> None:
        """Delete an endpoint, with its undelivered events."""
        path = self._within(team_id=team_id, webhook_id=webhook_id)
        self._call.act("DELETE", f"{_WEBHOOKS}/{{webhook_id}}", **path)

    def rotate_webhook_secret(self, team_id: UUID | str, webhook_id: str) -> None:
        """Replace the secret of an endpoint with one that the service creates."""
        path = self._within(team_id=team_id, webhook_id=webhook_id)
        route = f"{_WEBHOOKS}/{{webhook_id}}/secret/rotate"
        self._call.act("POST", route, as_json({"key": None}), **path)

    def _within(self, **path: Any) -> dict[str, Any]:
        return {**self._call.path_parts, **path}
