"""Names of patients in pages of the floor, which knows only their ids."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any
from uuid import UUID

from django import template

from backoffice.core.access import may
from backoffice.core.prepared_queries import by_key
from patients.models import Patient

register = template.Library()


@register.simple_tag(takes_context=True)
def patient_names(context: template.Context, keys: Iterable[UUID]) -> dict[UUID, str]:
    """Names of patients by id, for who may see them: one query. Others get none."""
    wanted = list(keys)
    if not wanted or not may(context["request"].user, "patients.view"):
        return {}
    people = by_key(Patient, wanted, ("first_name", "last_name"))
    return {key: one.full_name for key, one in people.items() if one.full_name}


@register.simple_tag(takes_context=True)
def add_patient_names(context: template.Context, entries: Iterable[Any]) -> str:
    """Audit entries about one patient are told the patient's name (`named`)."""
    rows = {entry: entry.patient_ids[0] for entry in entries if len(entry.patient_ids) == 1}
    names = patient_names(context, set(rows.values()))
    for entry, key in rows.items():
        entry.named = names.get(key, "")
    return ""


@register.filter
def name_for(names: dict[UUID, str], key: UUID) -> str:
    return names.get(key, "")
