"""What stands in a form that was not sent yet: kept for whoever types it, and forgotten in time."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any, Final

from django.db import models, transaction
from django.db.models.functions import Now
from django.utils import timezone

WRITTEN: Final = "written"
"""The field in which a page says how far a form was written."""
_SAID: Final = re.compile(r"([a-z0-9]{1,20})\.([0-9]{1,9})")
"""A name that the page gave itself, a dot, and how often something was typed in it so far."""
KEPT: Final = timedelta(days=14)
"""A draft holds personal data: one that nobody touched for so long goes."""


class Draft(models.Model):
    """A form as it was typed so far. Each kind says whose it is, seals `typed` (field names to
    values), and has an index of `saved_at` for `forget_old`, which a bell of its own rings for."""

    saved_at = models.DateTimeField(db_default=Now())
    written = models.CharField(max_length=40, db_default="")

    class Meta:
        abstract = True

    @classmethod
    def keep(cls, typed: Mapping[str, Sequence[str]], written: str = "", **whose: Any) -> None:
        """In place of what was kept of the same form before. A page that is left sends what stands
        in it while what it sent before is under way: the later one may come first, and stays."""
        written = written if _SAID.fullmatch(written) else ""
        values = {"typed": dict(typed), "saved_at": timezone.now(), "written": written}
        with transaction.atomic():
            drafts = cls._default_manager.select_for_update()
            draft, is_new = drafts.get_or_create(**whose, defaults=values)
            if not is_new and not draft.overtakes(written):
                for name, value in values.items():
                    setattr(draft, name, value)
                draft.save(update_fields=list(values))

    def overtakes(self, written: str) -> bool:
        """Whether the page that says `written` had written more when it sent this."""
        said, ours = _SAID.fullmatch(written), _SAID.fullmatch(self.written)
        if said is None or ours is None:
            return False
        return said[1] == ours[1] and int(said[2]) < int(ours[2])

    @classmethod
    def forget_old(cls) -> None:
        cls._default_manager.filter(saved_at__lt=timezone.now() - KEPT).delete()
