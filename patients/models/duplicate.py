"""Pairs of patients that staff declared to be different people."""

from __future__ import annotations

from collections.abc import Iterable
from uuid import UUID

from django.db import models
from django.db.models import F, Q
from django.db.models.functions import Now


class DifferentPeople(models.Model):
    """Two similar patients that a staff member declared to be different people."""

    one = models.UUIDField()
    other = models.UUIDField()
    said_at = models.DateTimeField(db_default=Now())

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["one", "other"], name="different_people_once"),
            models.CheckConstraint(condition=Q(one__lt=F("other")), name="different_people_order"),
        ]
        indexes = [models.Index(fields=["other"], name="different_people_other")]

    @staticmethod
    def declare(person: UUID, others: Iterable[UUID]) -> None:
        """Store that `person` is a different person than each of `others`."""
        pairs = [sorted([person, other]) for other in others if other != person]
        rows = [DifferentPeople(one=first, other=second) for first, second in pairs]
        DifferentPeople.objects.bulk_create(rows, ignore_conflicts=True)

    @staticmethod
    def different_from(person: UUID) -> set[UUID]:
        """Return the patients that are known to be different from this one."""
        pairs = DifferentPeople.objects.filter(Q(one=person) | Q(other=person))
        return {pk for pair in pairs.values_list("one", "other") for pk in pair} - {person}
