"""What a user may do with a patient, as links on the patient's page."""

from __future__ import annotations

from typing import TypedDict

from django.urls import reverse
from django.utils.translation import gettext

from backoffice.accounts.access import may
from backoffice.accounts.models import User
from patients.models import Patient


class PatientAction(TypedDict):
    """A link to the page of an action. `primary`: whether it is the main one."""

    label: str
    url: str
    primary: bool


def patient_actions(patient: Patient, user: User) -> list[PatientAction]:
    """Return the actions that this user may take on a patient, most frequent first."""
    if patient.missing_since:
        return []
    offers = (
        (gettext("Order tests"), "orders:new", "orders.create"),
        (gettext("Edit details"), "patients:edit", "patients.change"),
        (gettext("Add insurance"), "patients:insure", "patients.change"),
        (gettext("Connect a device"), "patients:connect", "patients.change"),
    )
    return [
        {"label": label, "url": reverse(page, args=[patient.pk]), "primary": page == "orders:new"}
        for label, page, permission in offers
        if may(user, permission)
    ]
