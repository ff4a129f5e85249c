"""Who viewed a patient: every page, list, search, print, and download that showed them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from django.db.models import Count, Max, Min, Q, QuerySet

from backoffice.accounts.models import User
from backoffice.audit.models import AuditEntry

VIEW_ACTIONS: Final = ("view", "list", "search", "print", "export")


@dataclass(frozen=True, slots=True)
class PatientViewer:
    """One person, and how often they viewed the patient, by kind of view."""

    user: User | None
    kind: str
    first: datetime
    last: datetime
    opened: int
    listed: int
    taken: int

    @property
    def all(self) -> int:
        return self.opened + self.listed + self.taken


def views_of_patient(patient_id: UUID) -> QuerySet[AuditEntry]:
    rows = AuditEntry.objects.filter(patient_ids__contains=[patient_id], action__in=VIEW_ACTIONS)
    return rows.select_related("actor").defer("before", "after")


def viewers_of_patient(patient_id: UUID) -> list[PatientViewer]:
    """Return everybody who viewed the patient, latest first, with two queries."""
    rows = views_of_patient(patient_id).select_related(None).order_by()
    counted = rows.values_list("actor", "actor_kind").annotate(
        first=Min("at"),
        last=Max("at"),
        opened=Count("pk", filter=Q(action="view")),
        listed=Count("pk", filter=Q(action__in=("list", "search"))),
        taken=Count("pk", filter=Q(action__in=("print", "export"))),
    )
    totals: list[tuple[Any, ...]] = list(counted)
    people = User.objects.in_bulk({actor for actor, *_ in totals if actor})
    viewers = [PatientViewer(people.get(actor), *rest) for actor, *rest in totals]
    return sorted(viewers, key=lambda viewer: viewer.last, reverse=True)
