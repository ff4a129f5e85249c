"""Bodies of the calls that place orders (orders.md 2, 6, 7)."""

from __future__ import annotations

from datetime import date
from typing import Any

from django.conf import settings

from sandbox.api import person_fields, vocabulary
from sandbox.api.errors import Invalid, Problems
from sandbox.api.params import Day, Moment, OneOf, Text, Uuid
from sandbox.api.person_fields import LENIENT_ADDRESS, PATIENT_ADDRESS, PATIENT_DETAILS, filled
from sandbox.api.request_bodies import Field, flag, limited_text, parsed_by, typed_field, whole

BILLING = OneOf(vocabulary.BILLING_TYPES)
CONSENTS = OneOf(
    (
        "terms-of-use",
        "telehealth-informed-consent",
        "mobile-terms-and-conditions",
        "notice-of-privacy-practices",
        "privacy-policy",
        "hipaa-authorization",
    )
)
INCORRECT_LAB = "INCORRECT_LAB"
LONGEST_NOTE = 1000
_BOOLEAN = {"type": "boolean"}
_INTEGER = {"type": "integer"}
_ID = whole(-(2**63), 2**63 - 1)

_IMAGE = (
    Field("content", required=True),
    typed_field("content_type", OneOf(("image/jpeg", "image/png")), required=True),
)
_RELATION = OneOf(("Self", "Spouse", "Other"))


def _npi(value: Any) -> str:
    return str(parsed_by(Text(pattern=r"\d{9,10}"))(value))


_PHYSICIAN_BASE = (
    Field("first_name", person_fields.patient_name, required=True),
    Field("last_name", person_fields.patient_name, required=True),
    Field("email", nullable=True),
    Field("npi", _npi, required=True),
    Field("licensed_states", person_fields.us_state, many=True, default=[]),
)
PHYSICIAN = Field(
    "physician",
    fields=(*_PHYSICIAN_BASE, Field("signature_image", fields=_IMAGE, nullable=True)),
    nullable=True,
)
REGISTERING_PHYSICIAN = Field("physician", fields=_PHYSICIAN_BASE, nullable=True)

ADD_ON = (
    Field("marker_ids", _ID, many=True, nullable=True, shape=_INTEGER),
    Field("provider_ids", filled, many=True, nullable=True),
)
ORDER_SET = (
    typed_field("lab_test_ids", Uuid(), many=True, nullable=True),
    Field("add_on", fields=ADD_ON, nullable=True),
    typed_field("lab_account_id", Uuid(), nullable=True),
)
CONSENT_LIST = Field(
    "consents",
    fields=(
        typed_field("consentType", CONSENTS, required=True),
        Field("version", default="1.0"),
        typed_field("timeOfConsent", Moment(), nullable=True),
    ),
    many=True,
    default=[],
)
_RESPONSIBLE = (
    Field("first_name", required=True),
    Field("last_name", required=True),
    Field("address", fields=person_fields.ADDRESS, required=True),
    Field("phone_number", required=True),
    Field("phone_type", default="Mobile"),
)
# The old way to say who pays; nothing new should use it.
HEALTH_INSURANCE = Field(
    "health_insurance",
    fields=(
        Field("front_image", fields=_IMAGE, nullable=True),
        Field("back_image", fields=_IMAGE, nullable=True),
        Field("patient_signature_image", fields=_IMAGE, nullable=True),
        Field("subjective", nullable=True),
        Field("assessment_plan", nullable=True),
        Field("payor_code", nullable=True),
        Field("insurance_id", nullable=True),
        typed_field("responsible_relationship", _RELATION, nullable=True),
        Field("responsible_details", fields=_RESPONSIBLE, nullable=True),
        Field("diagnosis_codes", many=True, nullable=True),
    ),
    nullable=True,
)
AOE_ANSWERS = Field(
    "aoe_answers",
    fields=(
        Field("marker_id", _ID, required=True, shape=_INTEGER),
        Field("question_id", _ID, required=True, shape=_INTEGER),
        Field("answer", required=True),
    ),
    many=True,
    nullable=True,
)
_USER = typed_field("user_id", Uuid(), required=True)
_ACCOUNT = typed_field("lab_account_id", Uuid(), nullable=True)
_PASSTHROUGH = Field("passthrough", nullable=True)
# The specification names the update reason and one value of it, but not the field.
_UPDATE_REASON = (
    (typed_field(settings.ORDER_REASON_FIELD, OneOf((INCORRECT_LAB,)), nullable=True),)
    if settings.ORDER_REASON_FIELD
    else ()
)
_DETAILS = Field("patient_details", fields=PATIENT_DETAILS, required=True)
_ADDRESS = Field("patient_address", fields=PATIENT_ADDRESS, required=True)

CREATE: tuple[Field, ...] = (
    _USER,
    typed_field("lab_test_id", Uuid(), nullable=True),
    Field("order_set", fields=ORDER_SET, nullable=True),
    typed_field("collection_method", vocabulary.METHODS, nullable=True),
    PHYSICIAN,
    HEALTH_INSURANCE,
    Field("priority", flag, default=False, shape=_BOOLEAN),
    typed_field("billing_type", BILLING, default="client_bill"),
    Field("icd_codes", filled, many=True, nullable=True),
    CONSENT_LIST,
    typed_field("activate_by", Day(), nullable=True),
    AOE_ANSWERS,
    _PASSTHROUGH,
    Field("clinical_notes", limited_text(LONGEST_NOTE), nullable=True),
    _ACCOUNT,
    typed_field("creator_member_id", Uuid(), nullable=True),
    *_UPDATE_REASON,
    _DETAILS,
    _ADDRESS,
)
IMPORT: tuple[Field, ...] = (
    _USER,
    typed_field("billing_type", BILLING, required=True),
    Field("order_set", fields=ORDER_SET, required=True),
    typed_field("collection_method", vocabulary.METHODS, required=True),
    PHYSICIAN,
    _DETAILS,
    Field("patient_address", fields=LENIENT_ADDRESS, required=True),
    Field("sample_id", parsed_by(Text(min_length=1, max_length=40)), required=True),
    _ACCOUNT,
)
TESTKIT: tuple[Field, ...] = (
    _USER,
    typed_field("lab_test_id", Uuid(), required=True),
    Field(
        "shipping_details",
        fields=(
            Field("receiver_name", filled, required=True),
            Field("first_line", filled, required=True),
            Field("second_line", limited_text(200), nullable=True),
            Field("city", filled, required=True),
            Field("state", person_fields.us_state, required=True),
            typed_field("zip", person_fields.ZIP, required=True),
            Field("country", filled, required=True),
            Field("phone_number", person_fields.phone_number, required=True),
        ),
        required=True,
    ),
    _PASSTHROUGH,
    _ACCOUNT,
)
REGISTER: tuple[Field, ...] = (
    typed_field("user_id", Uuid(), nullable=True),
    Field("sample_id", filled, required=True),
    _DETAILS,
    _ADDRESS,
    REGISTERING_PHYSICIAN,
    HEALTH_INSURANCE,
    CONSENT_LIST,
)
ACTIVATE_BY = (typed_field("activate_by", Day(), required=True, nullable=True),)
SMS = (Field("sms_enabled", flag, required=True, shape=_BOOLEAN),)


def check_birth(body: dict[str, Any], today: date) -> None:
    """Refuse a birth date in the future, or before that of anybody alive, with 422."""
    born = body["patient_details"]["dob"]
    if born <= today and today.year - born.year < 130:
        return
    problems = Problems()
    loc = ["body", "patient_details", "dob"]
    problems.add(loc, Invalid("value_error", "Date of birth should be in the past"), str(born))
    problems.settle()
