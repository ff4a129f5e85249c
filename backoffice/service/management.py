"""The management interface, which has its own address and its own key.

Interface: catalogue, chapter 7; webhooks, chapter 1.2.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final
from uuid import UUID

from backoffice.service import errors, signing
from backoffice.service.exchange import Calls, as_json
from backoffice.service.labs import LAB_ACCOUNT, LabAccountPayload
from backoffice.service.payload import Instant, Payload, Reader, Record, RecordPage

_WEBHOOKS = "/v1/org/{org_id}/team/{team_id}/{env}/webhook"
_ENDPOINT = f"{_WEBHOOKS}/{{webhook_id}}"
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


class Management(Calls):
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
        return self._call.page(path, LAB_ACCOUNT, "data", query=query)

    def set_allowlist(
        self, account_id: UUID | str, team_ids: Sequence[UUID]
    ) -> Record[LabAccountPayload] | None:
        """Replace the list of teams that may use an account.

        The service may answer without the account (None). It has no conditional update, so read the
        account again to see the list in force.
        """
        return self._call.send_for_optional_record(
            "PATCH",
            "/v1/org/{org_id}/lab_account/{env}/{region}/{account_id}",
            LAB_ACCOUNT,
            as_json({"team_id_allowlist": team_ids}),
            member="lab_account",
            account_id=account_id,
        )

    def webhooks(
        self, team_id: UUID | str, limit: int = 50, next_cursor: str | None = None
    ) -> RecordPage[Webhook]:
        """Return a page of the addresses that receive a team's events."""
        query = {"limit": limit, "next_cursor": next_cursor}
        return self._call.page(_WEBHOOKS, _WEBHOOK, "data", query=query, team_id=team_id)

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
        return self._call.record(_ENDPOINT, _WEBHOOK, team_id=team_id, webhook_id=webhook_id)

    def webhook_secret(self, team_id: UUID | str, webhook_id: str) -> Record[WebhookSecret]:
        return self._call.record(
            f"{_ENDPOINT}/secret", _SECRET, team_id=team_id, webhook_id=webhook_id
        )

    def create_webhook(self, team_id: UUID | str, url: str, description: str) -> Record[Webhook]:
        """Add an address that receives all events of a team.

        The service creates the secret that signs them. There is no idempotency key: the description
        identifies our endpoint among others.
        """
        body = as_json({"url": url, "description": description})
        created = self._call.send("POST", _WEBHOOKS, _WEBHOOK, body, team_id=team_id)
        if not created.data.url:
            raise errors.Uncertain(route=f"POST {_WEBHOOKS}", reason="no address in the answer")
        return created

    def switch_webhook(
        self, team_id: UUID | str, webhook_id: str, *, disabled: bool
    ) -> Record[Webhook]:
        """Stop deliveries to an endpoint, or start them again.

        Raises Uncertain when the answer does not confirm the change.
        """
        body = as_json({"disabled": disabled})
        changed = self._call.send(
            "PATCH", _ENDPOINT, _WEBHOOK, body, team_id=team_id, webhook_id=webhook_id
        )
        if (changed.data.id, bool(changed.data.disabled)) != (webhook_id, disabled):
            raise errors.Uncertain(
                route=f"PATCH {_ENDPOINT}", reason="the answer is of another state"
            )
        return changed

    def delete_webhook(self, team_id: UUID | str, webhook_id: str) -> None:
        """Delete an endpoint, with its undelivered events."""
        self._call.send_without_record("DELETE", _ENDPOINT, team_id=team_id, webhook_id=webhook_id)

    def rotate_webhook_secret(self, team_id: UUID | str, webhook_id: str) -> None:
        """Replace the secret of an endpoint with one that the service creates."""
        path = f"{_ENDPOINT}/secret/rotate"
        self._call.send_without_record(
            "POST", path, as_json({"key": None}), team_id=team_id, webhook_id=webhook_id
        )
