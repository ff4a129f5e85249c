"""Links by which patients connect devices. They are secrets and are shown once."""

from __future__ import annotations

from datetime import timedelta
from typing import Final
from uuid import UUID

from django.db import models
from django.utils import timezone

from backoffice.core.encryption import encrypted_fields

RETENTION: Final = timedelta(days=1)
"""How long a page can show that a link was shown or has expired."""


class ConnectLink(models.Model):
    """A link that the service made.

    `id` is the id of the command, which has the patient and the requester. `url` is empty once the
    link was shown or has expired.
    """

    id = models.UUIDField(primary_key=True)
    url = encrypted_fields.EncryptedTextField(default="")
    expires_at = models.DateTimeField()
    shown_at = models.DateTimeField(null=True)

    class Meta:
        # Reader: forget_old
        indexes = [models.Index(fields=["expires_at"], name="connect_link_old")]

    def __str__(self) -> str:
        return f"link of command {self.pk}"

    @property
    def is_expired(self) -> bool:
        return self.expires_at <= timezone.now()

    @property
    def is_ready(self) -> bool:
        """Whether the link can still be shown."""
        if self.shown_at is not None or self.is_expired:
            return False
        return bool(self.url) and not encrypted_fields.is_unreadable(self, "url")

    @classmethod
    def take(cls, pk: UUID) -> str:
        """Return the link and delete its URL, in the caller's transaction.

        Returns an empty text if the link was shown before or has expired.
        """
        link = cls.objects.select_for_update().filter(pk=pk).first()
        if link is None or not link.is_ready:
            return ""
        url: str = link.url
        link.url, link.shown_at = "", timezone.now()
        link.save(update_fields=["url", "shown_at"])
        return url

    @classmethod
    def forget_old(cls) -> None:
        now = timezone.now()
        cls.objects.filter(expires_at__lt=now).exclude(url="").update(url="")
        cls.objects.filter(expires_at__lt=now - RETENTION).delete()
