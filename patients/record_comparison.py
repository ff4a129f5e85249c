"""Comparison of records that may be spelled differently: as seen, as sent, as stored."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Final

import msgspec

from backoffice.core.encryption.encrypted_fields import UNREADABLE
from backoffice.service.insurance import InsurancePayload as InsuranceRecord
from backoffice.service.insurance import NewInsurance
from backoffice.service.json_text import JsonObject
from backoffice.service.payload import Reader
from backoffice.service.users import Address, Guarantor, NewAddress, NewGuarantor, NewUserInfo
from backoffice.service.users import UserInfo as InfoRecord
from patients.models import Demographics, Insurance
from patients.search_keys import phone_key

FEDERAL: Final = ("MEDFED", "MAIDFED")
"""Payor codes that the service replaces with the code of the plan of the patient's state."""
_INFO: Final = Reader(InfoRecord)
_INSURANCE: Final = Reader(InsuranceRecord)


def parse_person(person: Demographics | None) -> InfoRecord | None:
    """Return the stored record as a typed record, or None."""
    return _INFO.value(person.record.encode()) if person else None


def parse_info(info: JsonObject) -> InfoRecord:
    """Return a record that is to be sent as the same type as a received record."""
    return _INFO.value(msgspec.json.encode(info))


def parse_insurance(insurance: Insurance | None) -> InsuranceRecord | None:
    """Return the stored record as a typed record; None if there is none or it is encrypted."""
    if insurance is None or insurance.record == UNREADABLE:
        return None
    return _INSURANCE.value(insurance.record.encode())


def person_digest(info: InfoRecord | NewUserInfo | None) -> str:
    """Return a digest that is equal for equal content; empty for None."""
    if info is None:
        return ""
    return _digest(
        info.first_name,
        info.last_name,
        info.email,
        phone_key(info.phone_number),
        info.gender.lower(),
        info.dob.isoformat() if info.dob else None,
        _address_parts(info.address),
        _guarantor_parts(info.medical_proxy),
        info.race,
        info.ethnicity,
        info.sexual_orientation,
        info.gender_identity,
    )


def is_equivalent(now: InfoRecord | None, sent: InfoRecord) -> bool:
    """Whether the service has the content that was sent.

    Case, spaces, the last four digits of a ZIP code and the country are not compared.
    """
    return now is not None and _normalized(now) == _normalized(sent)


def _normalized(info: InfoRecord) -> list[object]:
    proxy = info.medical_proxy
    return [
        [folded(text) for text in (info.first_name, info.last_name, info.email, info.gender)],
        phone_key(info.phone_number),
        info.dob,
        _normalized_address(info.address),
        proxy and [folded(proxy.first_name), folded(proxy.last_name), folded(proxy.email)],
        proxy and [phone_key(proxy.phone_number), _normalized_address(proxy.address)],
        proxy and [int(number or 0) for number in (proxy.household_income, proxy.household_size)],
        info.race or None,
        info.ethnicity or None,
        info.sexual_orientation or None,
        info.gender_identity or None,
    ]


def _normalized_address(address: Address | NewAddress | None) -> list[str] | None:
    if address is None:
        return None
    lines = (address.first_line, address.second_line, address.city, address.state)
    return [*map(folded, (*lines, address.access_notes)), (address.zip or "").strip()[:5]]


def folded(text: str | None) -> str:
    """Return a text without extra spaces and case, for comparison."""
    return " ".join((text or "").split()).casefold()


def insurance_digest(insurance: InsuranceRecord | NewInsurance | None) -> str:
    """Return the digest of an insurance, without whether it is primary; empty for None."""
    if insurance is None:
        return ""
    insured = insurance.insured
    return _digest(
        insurance.payor_code,
        insurance.member_id,
        insurance.group_id,
        insurance.relationship,
        _guarantor_parts(insurance.guarantor),
        [
            insured.first_name,
            insured.last_name,
            insured.gender.lower(),
            insured.dob.isoformat() if insured.dob else None,
            insured.email,
            phone_key(insured.phone_number),
            _address_parts(insured.address),
        ]
        if insured
        else None,
    )


def _digest(*parts: str | Sequence[object] | None) -> str:
    return hashlib.blake2b(msgspec.json.encode([part or None for part in parts])).hexdigest()[:32]


def _address_parts(address: Address | NewAddress | None) -> list[str | None] | None:
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


def _guarantor_parts(guarantor: Guarantor | NewGuarantor | None) -> list[object] | None:
    if guarantor is None:
        return None
    return [
        guarantor.first_name,
        guarantor.last_name,
        phone_key(guarantor.phone_number),
        guarantor.email or None,
        int(guarantor.household_income) if guarantor.household_income else None,
        int(guarantor.household_size) if guarantor.household_size else None,
        _address_parts(guarantor.address),
    ]
