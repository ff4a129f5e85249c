"""Whether two spellings of a record say the same: what was seen, what was sent, what is there."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from backoffice.core.encryption.encrypted_fields import UNREADABLE
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
    if insurance is None or insurance.record == UNREADABLE:
        return None
    return _INSURANCE.value(insurance.record.encode())


def person_digest(info: InfoRecord | NewUserInfo | None) -> str:
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


def says_the_same(now: InfoRecord | None, sent: InfoRecord) -> bool:
    """Whether the service has what was sent, however it writes it: case, spaces, the longer zip
    code and the name of the country aside."""
    return now is not None and _spelled(now) == _spelled(sent)


def _spelled(info: InfoRecord) -> list[Any]:
    proxy = info.medical_proxy
    return [
        [folded(each) for each in (info.first_name, info.last_name, info.email, info.gender)],
        phone_key(info.phone_number),
        info.dob,
        _spelled_address(info.address),
        proxy and [folded(proxy.first_name), folded(proxy.last_name), folded(proxy.email)],
        proxy and [phone_key(proxy.phone_number), _spelled_address(proxy.address)],
        proxy and [int(each or 0) for each in (proxy.household_income, proxy.household_size)],
        info.race or None,
        info.ethnicity or None,
        info.sexual_orientation or None,
        info.gender_identity or None,
    ]


def _spelled_address(address: Address | NewAddress | None) -> list[str] | None:
    if address is None:
        return None
    lines = (address.first_line, address.second_line, address.city, address.state)
    return [*map(folded, (*lines, address.access_notes)), (address.zip or "").strip()[:5]]


def folded(text: str | None) -> str:
    """A text as it is compared with another spelling of it: spaces and case aside."""
    return " ".join((text or "").split()).casefold()


def insurance_digest(insurance: InsuranceRecord | NewInsurance | None) -> str:
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
