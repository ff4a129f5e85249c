"""Fields that describe people and where they live, shared by the bodies of several calls
(orders.md 2.4, users.md 3 and 4)."""

from __future__ import annotations

import re
from typing import Any

from sandbox import specification_forms
from sandbox.api import request_bodies
from sandbox.api.errors import Invalid
from sandbox.api.params import Day, OneOf, Text
from sandbox.api.request_bodies import Field, parsed_by, typed_field

NAME = Text(min_length=1, max_length=50)
_NAME_RULE = re.compile(r"[A-Za-z0-9][A-Za-z0-9.,'-]*(\s[A-Za-z0-9.,'-]+)*", re.ASCII)
_EMAIL = re.compile(r"[^@\s]+@[^@\s.]+(\.[^@\s.]+)+")
_PHONE = re.compile(r"\+?[0-9][0-9 ().-]{5,30}", re.ASCII)
ZIP = Text(pattern=r"\d{5}(-\d{4})?")
GENDERS = OneOf(("female", "male", "other", "unknown"))
RACES = OneOf(
    (
        "african_american_or_black",
        "asian",
        "indigenous_native_american_alaska_native",
        "other",
        "pacific_islander_or_hawaiian",
        "white_caucasian",
    )
)
ETHNICITIES = OneOf(("hispanic", "non_hispanic", "ashkenazi_jewish", "other"))
ORIENTATIONS = OneOf(
    ("lesbian_gay_or_homosexual", "heterosexual_or_straight", "bisexual", "dont_know", "other")
)
IDENTITIES = OneOf(
    (
        "male",
        "female",
        "female_to_male_ftm_transgender_male_trans_man",
        "male_to_female_mtf_transgender_female_trans_woman",
        "genderqueer",
        "other",
    )
)
STATES = frozenset({
    "AL", "AK", "AZ", "AR", "CA", "CO", "CT", "DE", "DC", "FL", "GA", "HI", "ID", "IL",
    "IN", "IA", "KS", "KY", "LA", "ME", "MD", "MA", "MI", "MN", "MS", "MO", "MT", "NE",
    "NV", "NH", "NJ", "NM", "NY", "NC", "ND", "OH", "OK", "OR", "PA", "RI", "SC", "SD",
    "TN", "TX", "UT", "VT", "VA", "WA", "WV", "WI", "WY", "AS", "GU", "MP", "PR", "VI",
    "FM", "MH", "PW", "AE", "AP", "AA",
})  # fmt: skip
_INTEGER = {"type": "integer"}


def patient_name(value: Any) -> str:
    """A first or last name the labs accept."""
    found: str = parsed_by(NAME)(value)
    if _NAME_RULE.fullmatch(found) is None:
        message = (
            "Names start with a letter or digit, hold letters, digits and . , ' - and single "
            "spaces between words"
        )
        raise Invalid("value_error", message)
    return found


def email(value: Any) -> str:
    found = request_bodies.text(value)
    if _EMAIL.fullmatch(found) is None:
        raise Invalid("value_error", "value is not a valid email address")
    return found


def phone_number(value: Any) -> str:
    found = request_bodies.text(value)
    if _PHONE.fullmatch(found) is None:
        raise Invalid("value_error", "value is not a valid phone number")
    return found


def filled(value: Any) -> str:
    """Text that is not blank."""
    found: str = parsed_by(Text(min_length=1, max_length=200))(value)
    if not found.strip():
        raise Invalid("value_error", "Value should not be blank")
    return found


def us_state(value: Any) -> str:
    found = request_bodies.text(value)
    if found not in STATES:
        raise Invalid("value_error", "State should be a two-letter US code")
    return found


def income(value: Any) -> int:
    return int(request_bodies.whole(0, 1_000_000_000)(value))


def household_number(value: Any) -> float:
    """Income or size of a guarantor's household: an integer, or any number as specified."""
    if (
        specification_forms.takes_fractions()
        and isinstance(value, float)
        and 0 <= value <= 1_000_000_000
    ):
        return value
    return income(value)


# Address of users.md 3: insurance, payor, guarantor. Examples of the specification show the postal
# code as `zip_code`, and no country.
ADDRESS: tuple[Field, ...] = (
    Field("first_line", filled, required=True),
    Field("second_line", request_bodies.limited_text(200), nullable=True, default=""),
    Field("city", filled, required=True),
    Field("state", filled, required=True),
    Field("zip", filled, required=True, other_name="zip_code"),
    Field("country", filled, default="US"),
    Field("access_notes", request_bodies.limited_text(1000), nullable=True),
)

GUARANTOR: tuple[Field, ...] = (
    Field("first_name", parsed_by(NAME), required=True),
    Field("last_name", parsed_by(NAME), required=True),
    Field("address", fields=ADDRESS, required=True),
    Field("phone_number", request_bodies.text, required=True),
    Field("household_income", household_number, nullable=True, shape=_INTEGER),
    Field("household_size", household_number, nullable=True, shape=_INTEGER),
    Field("email", request_bodies.text, nullable=True),
)

# What users.md 3 and PatientDetailsIn of orders.md 2.4 say alike.
DEMOGRAPHIC_CHOICES: tuple[Field, ...] = (
    typed_field("race", RACES, nullable=True),
    typed_field("ethnicity", ETHNICITIES, nullable=True),
    typed_field("sexual_orientation", ORIENTATIONS, nullable=True),
    typed_field("gender_identity", IDENTITIES, nullable=True),
)

PATIENT_DETAILS: tuple[Field, ...] = (
    Field("first_name", patient_name, required=True, shape=NAME.schema()),
    Field("last_name", patient_name, required=True, shape=NAME.schema()),
    typed_field("dob", Day(), required=True),
    typed_field("gender", GENDERS, required=True),
    Field("phone_number", phone_number, required=True),
    Field("email", email, required=True, shape={"type": "string", "format": "email"}),
    Field("medical_proxy", fields=GUARANTOR, nullable=True),
    *DEMOGRAPHIC_CHOICES,
    Field("household_income", income, nullable=True, shape=_INTEGER),
    Field("household_size", income, nullable=True, shape=_INTEGER),
)

# Creation checks the address strictly, import does not.
PATIENT_ADDRESS: tuple[Field, ...] = (
    Field("receiver_name", request_bodies.limited_text(110), default=""),
    Field("first_line", filled, required=True),
    Field("second_line", request_bodies.limited_text(200), nullable=True),
    Field("city", filled, required=True),
    Field("state", us_state, required=True),
    typed_field("zip", ZIP, required=True),
    Field("country", filled, required=True),
    Field("access_notes", request_bodies.limited_text(1000), nullable=True),
    Field("phone_number", phone_number, nullable=True),
)
LENIENT_ADDRESS: tuple[Field, ...] = (
    Field("receiver_name", request_bodies.limited_text(110), required=True),
    Field("first_line", request_bodies.limited_text(200), required=True),
    Field("second_line", request_bodies.limited_text(200), nullable=True),
    Field("city", request_bodies.limited_text(100), required=True),
    Field("state", request_bodies.limited_text(40), required=True),
    Field("zip", request_bodies.limited_text(10), required=True),
    Field("country", request_bodies.limited_text(60), required=True),
    Field("access_notes", request_bodies.limited_text(1000), nullable=True),
)
