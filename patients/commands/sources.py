"""The command that disconnects a source of device data (users.md 7)."""

from __future__ import annotations

from datetime import datetime
from typing import ClassVar
from uuid import UUID

from django.urls import reverse
from django.utils.translation import gettext

from backoffice.outbox.command import (
    Command,
    Confirmed,
    NoTrace,
    PreconditionFailed,
    ResendPolicy,
    SendContext,
)
from backoffice.service import RecordPage, Service, errors
from backoffice.service.users import ConnectionPayload as ConnectionRecord
from backoffice.sync.lookups import schedule_lookups
from patients.models import Connection
from patients.sync import store_connections

Answer = RecordPage[ConnectionRecord]


class Deregister(Command, kw_only=True):
    """Disconnect a source.

    If the connection belongs to the app on the patient's device, the service accepts the request
    and changes nothing. So staff see the connections that the service shows afterwards.
    """

    kind: ClassVar[str] = "connection.end"
    resend_policy: ClassVar[ResendPolicy] = ResendPolicy.SAME_EFFECT
    task: ClassVar[str] = "patients.tasks.deliver"

    user_id: UUID
    slug: str
    name: str
    connected_on: datetime | None = None
    """When the source was connected, as read right before the first attempt."""

    def title(self) -> str:
        return f"Disconnect {self.name or self.slug}"

    def subject(self) -> tuple[str, str]:
        return "patient", str(self.user_id)

    def patient(self) -> UUID:
        return self.user_id

    def lock_key(self) -> str:
        return f"{self.kind}:{self.user_id}:{self.slug}"

    def form_url(self) -> str:
        return reverse("patients:disconnect", args=[self.user_id, self.slug])

    def check(self) -> None:
        rows = Connection.objects.filter(user_id=self.user_id, slug=self.slug, missing_since=None)
        if not rows.exists():
            raise PreconditionFailed(gettext("This device or app is no longer connected."))

    def refresh(self, service: Service) -> None:
        self.store(service.users.connections(self.user_id))

    def record_state_before(self) -> None:
        rows = Connection.objects.filter(user_id=self.user_id, slug=self.slug, missing_since=None)
        self.connected_on = rows.values_list("created_on", flat=True).first()

    def send(self, service: Service, sending: SendContext) -> Answer | None:
        service.users.deregister(self.user_id, self.slug)
        try:
            return service.users.connections(self.user_id)
        except errors.ServiceError:
            return None  # The request was accepted. A later lookup reads the connections.

    def settle(self, service: Service, sending: SendContext) -> Confirmed | NoTrace:
        # "slug | string | yes" and "created_on | date-time | yes" (users.md 7): a connection that
        # was made later is another one, and nobody requested to end it.
        answer = service.users.connections(self.user_id)
        same_slug = [record.data for record in answer.records if record.data.slug == self.slug]
        connected_on = self.connected_on
        is_connected = any(
            connected_on is None or connection.created_on in (None, connected_on)
            for connection in same_slug
        )
        return NoTrace() if is_connected else Confirmed(answer)

    def store(self, answer: Answer | None) -> str:
        """Return the slug if the source is still connected although the service accepted."""
        if answer is None:
            schedule_lookups("connections", [self.user_id])
            return ""
        store_connections({str(self.user_id): answer})
        return self.slug if self._is_connected(answer) else ""

    def _is_connected(self, answer: Answer) -> bool:
        return any(record.data.slug == self.slug for record in answer.records)
