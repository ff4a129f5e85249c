"""Whether two spellings of a record say the same: what was seen, what was sent, what is there."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from backoffice.sealing import CANNOT_READ
from backoffice.service.insurance import Insurance as InsuranceRecord
from backoffice.service.insurance import NewInsurance, NewInsured
from backoffice.service.payload import Reader
from backoffice.service.users import Address, Guarantor, NewAddress, NewGuarantor, NewUserInfo
from backoffice.service.users import UserInfo as InfoRecord
from patients.models import Demographics, Insurance
from patients.names import phone_key

FEDERAL: Final = ("MEDFED", "MAIDFED")
"""Payor codes that the service replaces by that of the plan of the patient's state."""
_INFO: Final = Reader(InfoRecord)
_INSURANCE: Final = Reader(InsuranceRecord)


def person_now(person: Demographics | None) -> InfoRecord | None:
    """What the service said last, typed."""
    return _INFO.value(person.record.encode()) if person else None


def typed_info(info: Mapping[str, Any]) -> InfoRecord:
    """A whole record that is to be sent, typed as one that was received."""
    return _INFO.value(msgspec.json.encode(info))


def insurance_now(insurance: Insurance | None) -> InsuranceRecord | None:
    if insurance is None or insurance.record == CANNOT_READ:
        return None
    return _INSURANCE.value(insurance.record.encode())


def mark_of_person(info: InfoRecord | NewUserInfo | None) -> str:
    """Equal for records that say the same; empty for none."""
    if info is None:
        return ""
    return _mark(
        info.first_name,
        info.last_name,
        info.email,
        phone_key(info.phone_number),
        info.gender.lower(),
        info.dob.isoformat() if info.dob else None,
        _address(info.address),
        _guarantor(info.medical_proxy),
        info.race,
        info.ethnicity,
        info.sexual_orientation,
        info.gender_identity,
    )


def mark_of_insurance(insurance: InsuranceRecord | NewInsurance | None) -> str:
    """The same of an insurance; whether it is primary stands beside it."""
    if insurance is None:
        return ""
    insured: Any = insurance.insured or NewInsured
    return _mark(
        insurance.payor_code,
        insurance.member_id,
        insurance.group_id,
        insurance.relationship,
        _guarantor(insurance.guarantor),
        insurance.insured
        and [
            insured.first_name,
            insured.last_name,
            insured.gender.lower(),
            insured.dob.isoformat() if insured.dob else None,
            insured.email,
            phone_key(insured.phone_number),
            _address(insured.address),
        ],
    )


def _mark(*parts: Any) -> str:
    return hashlib.blake2b(msgspec.json.encode([part or None for part in parts])).hexdigest()[:32]


def _address(address: Address | NewAddress | None) -> list[str | None] | None:
    if address is None:
        return None
    return [
        text or None
        for text in (
            address.first_line,
            address.second_line,
            address.city,
            address.state,
            address.zip,
            address.country,
            address.access_notes,
        )
    ]


def _guarantor(one: Guarantor | NewGuarantor | None) -> list[Any] | None:
    if one is None:
        return None
    numbers = [int(each) if each else None for each in (one.household_income, one.household_size)]
    names = [one.first_name, one.last_name, phone_key(one.phone_number), one.email or None]
    return [*names, *numbers, _address(one.address)]
