"""Drafts: the contents of forms that were not sent yet, stored for some time."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Final

from django.db import models, transaction
from django.db.models.functions import Now
from django.utils import timezone

_PROGRESS: Final = re.compile(r"([a-z0-9]{1,20})\.([0-9]{1,9})")
"""The hidden field `written`: a random name of the page, a dot, its number of inputs so far."""
LIFETIME: Final = timedelta(days=14)
"""Retention after the last change, because a draft contains personal data."""


class Draft(models.Model):
    """The contents of a form as typed so far.

    A subclass declares the fields that identify the draft, `typed` (field names to values) as an
    encrypted field, and an index of `saved_at` for `forget_old`. A Celery task of its app calls
    `forget_old`.
    """

    saved_at = models.DateTimeField(db_default=Now())
    written = models.CharField(max_length=40, db_default="")

    class Meta:
        abstract = True

    @classmethod
    def save_inputs(
        cls, typed: Mapping[str, Sequence[str]], written: str = "", **owner: object
    ) -> None:
        """Store a draft in place of the earlier draft of the same form.

        A page sends its contents once more when it is closed, while an earlier request may still be
        on its way. If the later contents arrive first, they stay.
        """
        written = written if _PROGRESS.fullmatch(written) else ""
        values = {"typed": dict(typed), "saved_at": timezone.now(), "written": written}
        with transaction.atomic():
            drafts = cls._default_manager.select_for_update()
            draft, is_new = drafts.get_or_create(**owner, defaults=values)
            if not is_new and not draft.overtakes(written):
                for name, value in values.items():
                    setattr(draft, name, value)
                draft.save(update_fields=list(values))

    def overtakes(self, written: str) -> bool:
        """Return whether this draft is from the same page as `written`, and has more inputs."""
        incoming, stored = _PROGRESS.fullmatch(written), _PROGRESS.fullmatch(self.written)
        if incoming is None or stored is None:
            return False
        return incoming[1] == stored[1] and int(incoming[2]) < int(stored[2])

    @classmethod
    def forget_old(cls) -> None:
        cls._default_manager.filter(saved_at__lt=timezone.now() - LIFETIME).delete()
