"""The command that makes a link by which a patient connects a device (users.md 8)."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import ClassVar, Final
from uuid import UUID

from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext, gettext_noop

from backoffice.accounts.models import User
from backoffice.outbox.command import (
    Command,
    Disproved,
    NoTrace,
    PreconditionFailed,
    ResendPolicy,
    SendContext,
)
from backoffice.outbox.models import CommandRecord
from backoffice.service import Service, errors
from patients.models import ConnectLink, Patient

LINK_LIFETIME: Final = timedelta(minutes=10)
"""How long a link works: the shorter of the two times that the interface names."""
REQUEST_LIFETIME: Final = timedelta(minutes=10)
"""How long a staff member waits for a link."""
TOO_LATE: Final = gettext_noop("The lab service did not create the link in time. Create a new one.")
NOT_SECURE: Final = gettext_noop(
    "The lab service returned a link that is not secure, so it is not shown."
)


@dataclass(frozen=True, slots=True, repr=False)
class MadeLink:
    """A link as it is stored, with the id of the command that made it."""

    command_id: UUID
    url: str
    expires_at: datetime


class MakeConnectLink(Command, kw_only=True):
    """Make a link to connect a device.

    The URL is a secret, so the command has no field for it. Only the person who requested the link
    can see it, once.
    """

    kind: ClassVar[str] = "connection.link"
    resend_policy: ClassVar[ResendPolicy] = ResendPolicy.SAME_EFFECT
    task: ClassVar[str] = "patients.tasks.deliver"

    user_id: UUID
    asked_at: datetime
    provider: str = ""
    """Slug of the provider that the link opens; empty if the patient chooses."""
    provider_name: str = ""

    def title(self) -> str:
        return f"Create a link to connect {self.provider_name or 'a device'}"

    def subject(self) -> tuple[str, str]:
        return "patient", str(self.user_id)

    def patient(self) -> UUID:
        return self.user_id

    def lock_key(self) -> str:
        return f"{self.kind}:{self.user_id}"

    def form_url(self) -> str:
        return reverse("patients:connect", args=[self.user_id])

    def done_url(self, remote_id: str) -> str:
        return reverse("patients:connect-link", args=[self.user_id])

    def check(self) -> None:
        if not Patient.objects.filter(pk=self.user_id, missing_since=None).exists():
            raise PreconditionFailed(gettext("The lab service no longer has this patient."))
        if self._is_late():
            raise PreconditionFailed(gettext(TOO_LATE))

    def send(self, service: Service, sending: SendContext) -> MadeLink:
        answer = service.users.create_link(self.user_id, self.provider or None)
        if not answer.data.link_web_url.startswith("https://"):
            raise errors.Refused(message=NOT_SECURE)
        return MadeLink(sending.id, answer.data.link_web_url, answer.asked_at + LINK_LIFETIME)

    def settle(self, service: Service, sending: SendContext) -> NoTrace | Disproved:
        # "returns `link_web_url`; one use" (users.md 8): only the answer has the URL, and no other
        # call shows it. If the answer is lost, nobody knows the link and it expires. So another
        # link can safely be made while somebody still waits.
        return Disproved(TOO_LATE) if self._is_late() else NoTrace()

    def store(self, answer: MadeLink) -> str:
        """Store the first answer. Return an empty text: the outbox stores it unencrypted."""
        values = {"url": answer.url, "expires_at": answer.expires_at}
        ConnectLink.objects.get_or_create(pk=answer.command_id, defaults=values)
        return ""

    def _is_late(self) -> bool:
        return timezone.now() - self.asked_at > REQUEST_LIFETIME


def newest_link_request(user: User, patient_id: UUID) -> CommandRecord | None:
    """Return the command for the link that this user requested last for this patient."""
    rows = CommandRecord.objects.filter(
        kind=MakeConnectLink.kind, requested_by=user.pk, patient_id=patient_id
    )
    return rows.select_related("requested_by").order_by("-requested_at").first()
