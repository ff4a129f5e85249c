"""Commands about webhook endpoints at the service: one class per write.

All are sent with the management key (webhooks, chapter 1.2).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar, TypeVar
from uuid import UUID

from django.conf import settings
from django.urls import reverse
from django.utils.translation import gettext, gettext_noop

from backoffice.outbox.command import (
    Command,
    Confirmed,
    NoTrace,
    PreconditionFailed,
    ResendPolicy,
    SendContext,
)
from backoffice.service import Record, Service, errors
from backoffice.service.management import Webhook, WebhookSecret

NO_KEY = gettext_noop(
    "Webhook endpoints cannot be managed here because the management key is not set "
    "(setting MANAGEMENT_KEY)."
)
KEY_REFUSED = gettext_noop("The lab service rejected our management key (setting MANAGEMENT_KEY).")
GONE = gettext_noop("The lab service no longer has this webhook endpoint.")

T = TypeVar("T")


class EndpointCommand(Command, kw_only=True):
    """Base of all commands about webhook endpoints."""

    task: ClassVar[str] = "webhooks.tasks.deliver"

    team_id: UUID

    def check(self) -> None:
        if not settings.MANAGEMENT_KEY:
            raise PreconditionFailed(gettext(NO_KEY))


class ExistingEndpointCommand(EndpointCommand, kw_only=True):
    """Base of all commands about one existing endpoint."""

    endpoint_id: str

    def subject(self) -> tuple[str, str]:
        return "webhook endpoint", self.endpoint_id

    def done_url(self, remote_id: str) -> str:
        return reverse("operations:service-check")

    def endpoint(self, service: Service) -> Record[Webhook]:
        """Return the endpoint as the service has it now.

        Raises PreconditionFailed if there is none, or if the key is refused.
        """
        return _call_management(lambda: service.management.webhook(self.team_id, self.endpoint_id))


class CreateEndpoint(EndpointCommand, kw_only=True):
    """Create an endpoint, so that the service also delivers all events of a team to this URL."""

    kind: ClassVar[str] = "webhook.create"
    resend_policy: ClassVar[ResendPolicy] = ResendPolicy.NEVER
    fields: ClassVar[dict[str, str]] = {"url": "url"}

    url: str

    def title(self) -> str:
        return f"Create a webhook endpoint for {self.url[:150]}"

    def subject(self) -> tuple[str, str]:
        return "webhook endpoint", self.url

    def form_url(self) -> str:
        return reverse("operations:endpoint-new")

    def done_url(self, remote_id: str) -> str:
        return reverse("operations:endpoint-secret", args=[remote_id])

    def refresh(self, service: Service) -> None:
        try:
            endpoints = list(service.management.every_webhook(self.team_id))
        except errors.Denied:
            raise PreconditionFailed(gettext(KEY_REFUSED)) from None
        if any(
            endpoint.data.url == self.url and not endpoint.data.disabled for endpoint in endpoints
        ):
            raise PreconditionFailed(
                gettext("The lab service already delivers to this address."), field="url"
            )

    def send(self, service: Service, sending: SendContext) -> Record[Webhook]:
        return service.management.create_webhook(self.team_id, self.url, _description(sending))

    def settle(self, service: Service, sending: SendContext) -> Confirmed | NoTrace:
        # "url required; description, rate_limit, disabled, filter_types, secret optional": the
        # description that was sent identifies this request (webhooks.md 1.2).
        description = _description(sending)
        for endpoint in service.management.every_webhook(self.team_id):
            if endpoint.data.description == description:
                return Confirmed(endpoint)
        return NoTrace()

    def store(self, answer: Record[Webhook]) -> str:
        return answer.data.id


class RotateSecret(ExistingEndpointCommand, kw_only=True):
    """Rotate the signing secret.

    The service makes the new secret and signs with both for a while, so that deliveries are
    accepted until the settings have both.
    """

    kind: ClassVar[str] = "webhook.rotate"
    resend_policy: ClassVar[ResendPolicy] = ResendPolicy.NEVER

    before: str = ""
    """Name of the secret before the first attempt. It reveals nothing of the secret."""

    def title(self) -> str:
        return f"Rotate the secret of webhook endpoint {self.endpoint_id[:60]}"

    def form_url(self) -> str:
        return reverse("operations:endpoint-rotate", args=[self.endpoint_id])

    def done_url(self, remote_id: str) -> str:
        return reverse("operations:endpoint-secret", args=[self.endpoint_id])

    def refresh(self, service: Service) -> None:
        secret = _call_management(
            lambda: service.management.webhook_secret(self.team_id, self.endpoint_id)
        )
        self.before = self.before or secret_name(secret)

    def send(self, service: Service, sending: SendContext) -> Record[WebhookSecret]:
        service.management.rotate_webhook_secret(self.team_id, self.endpoint_id)
        return service.management.webhook_secret(self.team_id, self.endpoint_id)

    def settle(self, service: Service, sending: SendContext) -> Confirmed | NoTrace:
        # "GET /{webhook_id}/secret" shows the secret that signs; a rotation makes another
        # (webhooks.md 1.2).
        answer = service.management.webhook_secret(self.team_id, self.endpoint_id)
        return NoTrace() if secret_name(answer) == self.before else Confirmed(answer)

    def store(self, answer: Record[WebhookSecret]) -> str:
        """Return the endpoint id. The secret is not stored: a page shows it to staff."""
        return self.endpoint_id


class SwitchEndpoint(ExistingEndpointCommand, kw_only=True):
    """Disable or enable an endpoint."""

    kind: ClassVar[str] = "webhook.switch"
    resend_policy: ClassVar[ResendPolicy] = ResendPolicy.SAME_EFFECT

    disabled: bool

    def title(self) -> str:
        return f"Turn {'off' if self.disabled else 'on'} webhook endpoint {self.endpoint_id[:60]}"

    def form_url(self) -> str:
        return reverse("operations:endpoint-switch", args=[self.endpoint_id])

    def refresh(self, service: Service) -> None:
        if bool(self.endpoint(service).data.disabled) is self.disabled:
            raise PreconditionFailed(
                gettext("The endpoint is already off.")
                if self.disabled
                else gettext("The endpoint is already on.")
            )

    def send(self, service: Service, sending: SendContext) -> Record[Webhook]:
        return service.management.switch_webhook(
            self.team_id, self.endpoint_id, disabled=self.disabled
        )

    def settle(self, service: Service, sending: SendContext) -> Confirmed | NoTrace:
        # "PATCH: any of url, description, rate_limit, disabled, filter_types" and the answer is the
        # Webhook, which shows `disabled` (webhooks.md 1.2).
        answer = service.management.webhook(self.team_id, self.endpoint_id)
        return Confirmed(answer) if bool(answer.data.disabled) is self.disabled else NoTrace()

    def store(self, answer: Record[Webhook]) -> str:
        return self.endpoint_id


class DeleteEndpoint(ExistingEndpointCommand, kw_only=True):
    """Delete an endpoint, including the events not yet delivered to it."""

    kind: ClassVar[str] = "webhook.delete"
    resend_policy: ClassVar[ResendPolicy] = ResendPolicy.SAME_EFFECT

    def title(self) -> str:
        return f"Delete webhook endpoint {self.endpoint_id[:60]}"

    def form_url(self) -> str:
        return reverse("operations:endpoint-delete", args=[self.endpoint_id])

    def refresh(self, service: Service) -> None:
        self.endpoint(service)

    def send(self, service: Service, sending: SendContext) -> None:
        service.management.delete_webhook(self.team_id, self.endpoint_id)

    def settle(self, service: Service, sending: SendContext) -> Confirmed | NoTrace:
        # "GET, PATCH, DELETE /{webhook_id}": a deleted endpoint is no longer in the list of all
        # endpoints, "data[] Webhook" (webhooks.md 1.2).
        endpoints = service.management.every_webhook(self.team_id)
        if any(endpoint.data.id == self.endpoint_id for endpoint in endpoints):
            return NoTrace()
        return Confirmed(None)

    def store(self, answer: None) -> str:
        return self.endpoint_id


COMMANDS: tuple[type[Command], ...] = (
    CreateEndpoint,
    RotateSecret,
    SwitchEndpoint,
    DeleteEndpoint,
)
"""Delivered by `webhooks.tasks.deliver`."""


def secret_name(secret: Record[WebhookSecret]) -> str:
    """Return the name of a secret. Raises Malformed if it has none."""
    if not secret.data.name:
        raise errors.Malformed(reason="a webhook secret of an unknown form")
    return secret.data.name


def _description(sending: SendContext) -> str:
    return f"Back office, request {sending.id}"


def _call_management(call: Callable[[], T]) -> T:
    """Return the answer of a call.

    Raises PreconditionFailed if the key is refused or the endpoint is gone.
    """
    try:
        return call()
    except errors.Denied:
        raise PreconditionFailed(gettext(KEY_REFUSED)) from None
    except errors.Missing:
        raise PreconditionFailed(gettext(GONE)) from None
