"""What stands in a form that was not sent yet: kept for whoever types it, and forgotten in time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any, Final

from django.db import models
from django.db.models.functions import Now
from django.utils import timezone

KEPT: Final = timedelta(days=14)
"""A draft holds personal data: one that nobody touched for so long goes."""


class Draft(models.Model):
    """A form as it was typed so far. Each kind says whose it is, seals `typed` (field names to
    values), and has an index of `saved_at` for `forget_old`, which a bell of its own rings for."""

    saved_at = models.DateTimeField(db_default=Now())

    class Meta:
        abstract = True

    @classmethod
    def keep(cls, typed: Mapping[str, Sequence[str]], **whose: Any) -> None:
        """In place of what was kept of the same form before."""
        values = {"typed": dict(typed), "saved_at": timezone.now()}
        cls._default_manager.update_or_create(**whose, defaults=values)

    @classmethod
    def forget_old(cls) -> None:
        cls._default_manager.filter(saved_at__lt=timezone.now() - KEPT).delete()
