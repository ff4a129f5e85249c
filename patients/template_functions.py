"""Names of patients, for pages of lower packages, which know only ids of patients."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any
from uuid import UUID

from jinja2 import pass_context
from jinja2.runtime import Context

from backoffice.accounts.access import may
from backoffice.core.prepared_queries import by_key
from patients.models import Patient


@pass_context
def patient_names(context: Context, keys: Iterable[UUID]) -> dict[UUID, str]:
    """Return names of patients by id, by one query; empty if the user may not see them."""
    wanted = list(keys)
    if not wanted or not may(context["request"].user, "patients.view"):
        return {}
    people = by_key(Patient, wanted, ("first_name", "last_name"))
    return {key: one.full_name for key, one in people.items() if one.full_name}


@pass_context
def add_patient_names(context: Context, entries: Iterable[Any]) -> str:
    """Set `named`, the name of the patient, on audit entries about one patient."""
    rows = {entry: entry.patient_ids[0] for entry in entries if len(entry.patient_ids) == 1}
    names = patient_names(context, set(rows.values()))
    for entry, key in rows.items():
        entry.named = names.get(key, "")
    return ""


def name_for(names: dict[UUID, str], key: UUID) -> str:
    return names.get(key, "")
