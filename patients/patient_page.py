"""Context of every page of one patient: the identity and the tabs."""

from __future__ import annotations

from typing import Final, TypedDict
from uuid import UUID

from django.http import Http404, HttpRequest
from django.utils.translation import gettext, gettext_noop

from backoffice.accounts.access import may
from backoffice.core.prepared_queries import by_key
from backoffice.core.urls import record_url
from backoffice.pages.tabs import Tab
from patients.models import Demographics, Patient

TABS: Final = (
    (gettext_noop("Overview"), "patients:detail", ()),
    (gettext_noop("Orders"), "of-patient:orders", ("orders.view",)),
    (gettext_noop("Results"), "of-patient:results", ("results.view",)),
    (gettext_noop("Insurance"), "patients:insurance", ()),
    (gettext_noop("Devices"), "wearables:devices", ()),
    (gettext_noop("Activity"), "of-patient:activity", ()),
)


class PatientPageContext(TypedDict):
    """The context of every page of a patient.

    `person` is the demographics. `named` is the patient if the name is known. `patient_tabs` are
    the tabs that the user may open.
    """

    patient: Patient
    person: Demographics | None
    named: Patient | None
    patient_tabs: list[Tab]


def patient_page_context(request: HttpRequest, patient_id: UUID) -> PatientPageContext:
    """Return the context of a patient's page, or raise Http404."""
    patient = by_key(Patient, [patient_id]).get(patient_id)
    if patient is None:
        raise Http404
    person = by_key(Demographics, [patient_id]).get(patient_id)
    return {
        "patient": patient,
        "person": person,
        "named": patient if patient.full_name else None,
        "patient_tabs": _tabs(request, patient_id),
    }


def _tabs(request: HttpRequest, patient_id: UUID) -> list[Tab]:
    urls = [
        (label, record_url(route, patient_id))
        for label, route, permissions in TABS
        if may(request.user, *permissions)
    ]
    return [Tab(gettext(label), url, current=request.path == url) for label, url in urls]
