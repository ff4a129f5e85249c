"""Request bodies to place and import orders. Interface: orders, chapters 2, 6 and 10."""

from __future__ import annotations

from datetime import date, datetime
from typing import Final
from uuid import UUID

from msgspec import field

from backoffice.service.labs import OrderSet
from backoffice.service.payload import RequestBody
from backoffice.service.users import NewGuarantor

INCORRECT_LAB: Final = "INCORRECT_LAB"
"""The only update reason that the specification names: the new order gets another lab account."""


class NewPatient(RequestBody):
    """The patient details to store on the order.

    ``gender``: female, male, other, unknown. Income in USD. ``medical_proxy`` is for a minor.
    """

    first_name: str
    last_name: str
    dob: date
    gender: str
    phone_number: str
    email: str
    medical_proxy: NewGuarantor | None = None
    race: str | None = None
    ethnicity: str | None = None
    sexual_orientation: str | None = None
    gender_identity: str | None = None
    household_income: int | None = None
    household_size: int | None = None


class NewPatientAddress(RequestBody):
    """The address of the patient.

    ``zip`` has five digits, or five and four. ``access_notes`` has at most 1000 characters. An
    import requires ``receiver_name`` and does not accept ``phone_number``.
    """

    first_line: str
    city: str
    state: str
    zip: str
    country: str
    receiver_name: str | None = None
    second_line: str | None = None
    access_notes: str | None = None
    phone_number: str | None = None


class NewPhysician(RequestBody):
    first_name: str
    last_name: str
    npi: str
    email: str | None = None
    licensed_states: list[str] = field(default_factory=list)


class Consent(RequestBody, rename="camel"):
    """A consent of the patient; its fields are in camelCase."""

    consent_type: str
    version: str | None = None
    time_of_consent: datetime | None = None


class AoeResponse(RequestBody):
    """The answer to a question asked at order entry.

    ``answer`` is always text; for a choice it is the ``code`` of the choice.
    """

    marker_id: int
    question_id: int
    answer: str


class NewOrder(RequestBody):
    """An order to place.

    ``collection_method`` is required with add-ons, or when the tests have different methods.
    ``activate_by`` makes a scheduled order. The service returns ``passthrough`` on the order.
    """

    user_id: UUID
    patient_details: NewPatient
    patient_address: NewPatientAddress
    order_set: OrderSet
    collection_method: str | None = None
    lab_account_id: UUID | None = None
    physician: NewPhysician | None = None
    priority: bool = False
    billing_type: str | None = None
    icd_codes: list[str] | None = None
    consents: list[Consent] = field(default_factory=list)
    activate_by: date | None = None
    aoe_answers: list[AoeResponse] | None = None
    passthrough: str | None = None
    clinical_notes: str | None = None


class ImportedOrder(RequestBody):
    """An order to import; ``sample_id`` is the lab's requisition, control, or reference number."""

    user_id: UUID
    billing_type: str
    order_set: OrderSet
    collection_method: str
    patient_details: NewPatient
    patient_address: NewPatientAddress
    sample_id: str
    physician: NewPhysician | None = None
    lab_account_id: UUID | None = None


class SimulationFlags(RequestBody):
    """Options of a simulation.

    ``result_types``: numeric, range, comment, coded_value. Without it, all of them take turns.
    """

    interpretation: str | None = None
    result_types: list[str] | None = None
    has_missing_results: bool | None = None
