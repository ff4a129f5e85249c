"""The switch for the service's text messages about one order (orders.md 1)."""

from __future__ import annotations

from typing import Any, ClassVar

from django.urls import reverse
from django.utils.translation import gettext_noop

from backoffice.outbox.command import Confirmed, NoTrace, ResendPolicy, SendContext
from backoffice.service import Record, Service
from backoffice.service.orders import CommunicationSettings
from orders.commands.base import OrderCommand

Answer = Record[CommunicationSettings]


class SwitchMessages(OrderCommand, kw_only=True):
    """Turn the text messages about an order on or off.

    This does not change the team's own settings and email.
    """

    kind: ClassVar[str] = "order.messages"
    resend_policy: ClassVar[ResendPolicy] = ResendPolicy.SAME_EFFECT
    fields: ClassVar[dict[str, str]] = {"sms_enabled": "sms_enabled"}

    sms_enabled: bool
    seen: bool | None = None
    """The state at the service when the person requested this; None if it did not answer."""

    def title(self) -> str:
        if self.sms_enabled:
            return gettext_noop("Turn on text messages")
        return gettext_noop("Turn off text messages")

    def lock_key(self) -> str:
        return f"{self.kind}:{self.order_id}"

    def difference(self) -> tuple[dict[str, Any], dict[str, Any]]:
        return {"sms_enabled": self.seen}, {"sms_enabled": self.sms_enabled}

    def form_url(self) -> str:
        return reverse("orders:messages", args=[self.order_id])

    def check(self) -> None:
        self.order()

    def send(self, service: Service, sending: SendContext) -> Answer:
        return service.orders.change_communication(self.order_id, self.sms_enabled)

    def settle(self, service: Service, sending: SendContext) -> Confirmed | NoTrace:
        # "Per-order SMS switch", read and set as "`sms_enabled` bool" (orders.md 1): the service
        # shows the last setting, and the same setting again changes nothing.
        answer = service.orders.communication_settings(self.order_id)
        return Confirmed(answer) if answer.data.sms_enabled == self.sms_enabled else NoTrace()

    def store(self, answer: Answer) -> str:
        """Return the id. The mirror has no such state: the page of the order asks the service."""
        return str(self.order_id)
