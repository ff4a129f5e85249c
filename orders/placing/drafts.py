"""Drafts of orders until they are placed, and the initial values of a new order."""

from __future__ import annotations

import hashlib
import json

from backoffice.accounts.models import User
from backoffice.core import vocabulary
from labs.models import LabAccount, LabTest, Marker, Physician
from orders.models import Order, OrderDraft
from orders.placing.order_request import TYPED_PHYSICIAN, FormValues
from patients.models import Demographics, Patient


def find_draft(user: User, patient: Patient, importing: bool) -> OrderDraft | None:
    rows = OrderDraft.objects.filter(user=user, patient_id=patient.pk, importing=importing)
    return rows.first()


def save_draft(
    user: User, patient: Patient, importing: bool, typed: FormValues, written: str = ""
) -> None:
    OrderDraft.save_inputs(typed, written, user=user, patient_id=patient.pk, importing=importing)


def delete_draft(user: User, patient: Patient, importing: bool) -> None:
    OrderDraft.objects.filter(user=user, patient_id=patient.pk, importing=importing).delete()


def digest(typed: FormValues) -> str:
    """Return a digest of the contents that does not depend on their order in the database."""
    return hashlib.sha256(json.dumps(dict(typed), sort_keys=True).encode()).hexdigest()


def person_values(patient: Patient, person: Demographics | None) -> dict[str, list[str]]:
    """Return what the mirror has about the patient. Only demographics have the address."""
    values = {
        "first_name": [patient.first_name],
        "last_name": [patient.last_name],
        "dob": [patient.dob.isoformat() if patient.dob else ""],
        "gender": [vocabulary.canonical("person.gender", patient.gender).lower()],
        "phone_number": [patient.phone_number],
        "email": [patient.email],
    }
    if person is None:
        return values if patient.name_key else {}
    return {
        **values,
        "first_line": [person.first_line],
        "second_line": [person.second_line or ""],
        "city": [person.city],
        "state": [person.state],
        "zip": [person.zip],
    }


def values_like(order: Order) -> dict[str, list[str]]:
    """Return the values of an earlier order, to order the same again, without its account."""
    record = order.record_at()
    catalog_tests = LabTest.objects.filter(auto_generated=False)
    is_catalog_test = (
        order.lab_test_id is not None and catalog_tests.filter(pk=order.lab_test_id).exists()
    )
    typed: dict[str, list[str]] = {
        "billing_type": [order.billing_type or "client_bill"],
        "icd_codes": [" ".join(map(str, record.get("icd_codes") or []))],
        "clinical_notes": [_own_note(str(record.get("clinical_notes") or ""), order.lab_slug)],
        **_physician_of(order),
    }
    if order.priority:
        typed["priority"] = ["on"]
    if is_catalog_test:
        typed["tests"] = [str(order.lab_test_id)]
        return typed
    # The service generated this test for single markers. Order the markers themselves.
    sent_markers = order.record_at("lab_test").get("markers")
    ids = [
        marker["id"]
        for marker in (sent_markers if isinstance(sent_markers, list) else ())
        if "id" in marker
    ]
    markers = Marker.objects.filter(pk__in=ids, a_la_carte_enabled=True)
    typed["markers"] = [str(marker.pk) for marker in markers]
    typed["collection_method"] = [order.method]
    return typed


def _physician_of(order: Order) -> dict[str, list[str]]:
    """Return the physician of the order, as a choice among the known ones or as typed text."""
    physician = order.record_at("physician")
    npi = str(physician.get("npi") or "")
    if not npi or Physician.objects.filter(npi=npi, missing_since=None).exists():
        return {"physician": [npi]}
    names = ("first_name", "last_name", "npi")
    typed = {f"physician_{name}": [str(physician.get(name) or "")] for name in names}
    return {"physician": [TYPED_PHYSICIAN], **typed}


def _own_note(note: str, lab: str | None) -> str:
    """Return the note without the text of the account, which would otherwise be added twice."""
    accounts = LabAccount.objects.filter(lab=lab or "").exclude(default_clinical_notes=None)
    for added in accounts.values_list("default_clinical_notes", flat=True):
        note = note.strip().removesuffix(added or "").removeprefix(added or "").strip()
    return note
