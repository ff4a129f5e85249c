"""A wish without findings that stop it, as what is sent (orders.md 2.2, 6)."""

from __future__ import annotations

from datetime import date
from typing import Any

import msgspec

from backoffice.service.labs import AddOn, OrderSet
from backoffice.service.orders import (
    AoeAnswered,
    ImportedOrder,
    NewOrder,
    NewPatient,
    NewPatientAddress,
    NewPhysician,
)
from backoffice.service.users import NewAddress, NewGuarantor
from orders.commands import CreateOrder, ImportOrder
from orders.placing import patient_rules
from orders.placing.order_request import TYPED_PHYSICIAN, Wish

COUNTRY = "US"


def create(wish: Wish) -> CreateOrder:
    body = NewOrder(
        user_id=wish.patient.pk,
        patient_details=_patient(wish),
        patient_address=_address(wish),
        order_set=_order_set(wish),
        collection_method=_method(wish),
        lab_account_id=wish.account.pk if wish.account else None,
        physician=_physician(wish),
        priority=bool(wish.one("priority")),
        billing_type=wish.billing_type,
        icd_codes=wish.icd_codes or None,
        activate_by=wish.day("activate_by"),
        aoe_answers=[
            AoeAnswered(marker_id=one.marker_id, question_id=one.question_id, answer=answer)
            for one in wish.questions
            if (answer := wish.one(one.name))
        ]
        or None,
        clinical_notes=wish.note or None,
    )
    return CreateOrder(body=body, words=wish.words, replaces=wish.replaces)


def import_(wish: Wish) -> ImportOrder:
    body = ImportedOrder(
        user_id=wish.patient.pk,
        billing_type=wish.billing_type,
        order_set=_order_set(wish),
        collection_method=wish.method,
        patient_details=_patient(wish),
        patient_address=_address(wish),
        sample_id=wish.sample_id,
        physician=_physician(wish),
        lab_account_id=wish.account.pk if wish.account else None,
    )
    return ImportOrder(body=body, words=wish.words)


def _patient(wish: Wish) -> NewPatient:
    born = wish.day("dob")
    assert isinstance(born, date)
    known = wish.person
    more: dict[str, Any] = {}
    if known is not None:
        more = {
            name: getattr(known, name)
            for name in ("race", "ethnicity", "sexual_orientation", "gender_identity")
        }
    return NewPatient(
        first_name=wish.one("first_name"),
        last_name=wish.one("last_name"),
        dob=born,
        gender=wish.one("gender"),
        phone_number=patient_rules.phone(wish.one("phone_number")),
        email=wish.one("email"),
        medical_proxy=_proxy(wish.proxy),
        **more,
    )


def _address(wish: Wish) -> NewPatientAddress:
    known = wish.person.said("address") if wish.person else {}
    return NewPatientAddress(
        receiver_name=f"{wish.one('first_name')} {wish.one('last_name')}",
        first_line=wish.one("first_line"),
        second_line=wish.one("second_line") or None,
        city=wish.one("city"),
        state=_state(wish.one("state")),
        zip=wish.one("zip"),
        country=_country(wish, known),
        access_notes=known.get("access_notes") or None,
    )


def _state(text: str) -> str:
    return text.upper() if len(text) == 2 else text


def _country(wish: Wish, known: dict[str, Any]) -> str:
    """As on record where the state is the one on record: an order's form does not show it."""
    if wish.one("state").upper() == str(known.get("state") or "").upper():
        return str(known.get("country") or COUNTRY)
    return COUNTRY


def _proxy(record: dict[str, Any]) -> NewGuarantor | None:
    """The medical proxy as on record, with all that the interface takes of one."""
    address = record.get("address")
    if not record.get("first_name") or not isinstance(address, dict):
        return None
    zip_code = address.get("zip") or address.get("zip_code")
    fields = NewGuarantor.__struct_fields__
    known = {name: record[name] for name in fields if record.get(name) is not None}
    lines = {name: str(address[name]) for name in NewAddress.__struct_fields__ if address.get(name)}
    home = dict.fromkeys(("first_line", "city", "state"), "") | {"country": COUNTRY} | lines
    known = {"last_name": "", "phone_number": ""} | known
    return msgspec.convert(
        known | {"address": home | {"zip": str(zip_code or "")}}, NewGuarantor, strict=False
    )


def _order_set(wish: Wish) -> OrderSet:
    return OrderSet(
        lab_test_ids=[test.pk for test in wish.tests] or None,
        add_on=AddOn(marker_ids=[marker.pk for marker in wish.markers]) if wish.markers else None,
    )


def _method(wish: Wish) -> str | None:
    """Only where the tests do not say it themselves."""
    if wish.one("collection_method") or wish.markers or len(wish.methods) > 1:
        return wish.method or None
    return None


def _physician(wish: Wish) -> NewPhysician | None:
    chosen = wish.one("physician")
    if chosen == TYPED_PHYSICIAN:
        return NewPhysician(
            first_name=wish.one("physician_first_name"),
            last_name=wish.one("physician_last_name"),
            npi=wish.identifier("physician_npi"),
        )
    for one in wish.physicians:
        if one.npi == chosen:
            return NewPhysician(first_name=one.first_name, last_name=one.last_name, npi=one.npi)
    return None
