"""What a user may do with a patient, as links on the patient's page."""

from __future__ import annotations

from typing import Any

from django.urls import reverse

from backoffice.accounts.access import may
from patients.models import Patient


def patient_actions(patient: Patient, user: Any) -> list[dict[str, Any]]:
    """Return the actions that this user may take on a patient, most frequent first."""
    if patient.missing_since:
        return []
    offers = (
        ("Order tests", "orders:new", "orders.create"),
        ("Edit details", "patients:edit", "patients.change"),
        ("Add insurance", "patients:insure", "patients.change"),
        ("Connect a device", "patients:connect", "patients.change"),
    )
    return [
        {"label": label, "url": reverse(page, args=[patient.pk]), "primary": page == "orders:new"}
        for label, page, permission in offers
        if may(user, permission)
    ]
