"""The command for an order request without blocking findings (orders.md 2.2, 6)."""

from __future__ import annotations

from datetime import date

import msgspec

from backoffice.service.json_text import JsonObject
from backoffice.service.labs import AddOn, OrderSet
from backoffice.service.orders import (
    AoeResponse,
    ImportedOrder,
    NewOrder,
    NewPatient,
    NewPatientAddress,
    NewPhysician,
)
from backoffice.service.users import NewAddress, NewGuarantor
from orders.commands import CreateOrder, ImportOrder
from orders.placing import patient_rules
from orders.placing.order_request import TYPED_PHYSICIAN, OrderRequest

COUNTRY = "US"


def create_command(order_request: OrderRequest) -> CreateOrder:
    body = NewOrder(
        user_id=order_request.patient.pk,
        patient_details=_patient(order_request),
        patient_address=_address(order_request),
        order_set=_order_set(order_request),
        collection_method=_method(order_request),
        lab_account_id=order_request.account.pk if order_request.account else None,
        physician=_physician(order_request),
        priority=bool(order_request.value("priority")),
        billing_type=order_request.billing_type,
        icd_codes=order_request.icd_codes or None,
        activate_by=order_request.date_value("activate_by"),
        aoe_answers=[
            AoeResponse(
                marker_id=question.marker_id, question_id=question.question_id, answer=answer
            )
            for question in order_request.questions
            if (answer := order_request.value(question.name))
        ]
        or None,
        clinical_notes=order_request.note or None,
    )
    return CreateOrder(body=body, words=order_request.words, replaces=order_request.replaces)


def import_command(order_request: OrderRequest) -> ImportOrder:
    body = ImportedOrder(
        user_id=order_request.patient.pk,
        billing_type=order_request.billing_type,
        order_set=_order_set(order_request),
        collection_method=order_request.method,
        patient_details=_patient(order_request),
        patient_address=_address(order_request),
        sample_id=order_request.sample_id,
        physician=_physician(order_request),
        lab_account_id=order_request.account.pk if order_request.account else None,
    )
    return ImportOrder(body=body, words=order_request.words)


def _patient(order_request: OrderRequest) -> NewPatient:
    born = order_request.date_value("dob")
    assert isinstance(born, date)
    person = order_request.person
    return NewPatient(
        first_name=order_request.value("first_name"),
        last_name=order_request.value("last_name"),
        dob=born,
        gender=order_request.value("gender"),
        phone_number=patient_rules.phone(order_request.value("phone_number")),
        email=order_request.value("email"),
        medical_proxy=_proxy(order_request.medical_proxy),
        race=person.race if person else None,
        ethnicity=person.ethnicity if person else None,
        sexual_orientation=person.sexual_orientation if person else None,
        gender_identity=person.gender_identity if person else None,
    )


def _address(order_request: OrderRequest) -> NewPatientAddress:
    on_record = order_request.person.record_at("address") if order_request.person else {}
    return NewPatientAddress(
        receiver_name=f"{order_request.value('first_name')} {order_request.value('last_name')}",
        first_line=order_request.value("first_line"),
        second_line=order_request.value("second_line") or None,
        city=order_request.value("city"),
        state=_state(order_request.value("state")),
        zip=order_request.value("zip"),
        country=_country(order_request, on_record),
        access_notes=on_record.get("access_notes") or None,
    )


def _state(text: str) -> str:
    return text.upper() if len(text) == 2 else text


def _country(order_request: OrderRequest, on_record: JsonObject) -> str:
    """Return the country on record if the state is the one on record.

    The form of an order does not have the country.
    """
    if order_request.value("state").upper() == str(on_record.get("state") or "").upper():
        return str(on_record.get("country") or COUNTRY)
    return COUNTRY


def _proxy(record: JsonObject) -> NewGuarantor | None:
    """Return the medical proxy on record, with all fields that the interface accepts."""
    address = record.get("address")
    if not record.get("first_name") or not isinstance(address, dict):
        return None
    zip_code = address.get("zip") or address.get("zip_code")
    fields = NewGuarantor.__struct_fields__
    details = {"last_name": "", "phone_number": ""}
    details |= {name: record[name] for name in fields if record.get(name) is not None}
    lines = {name: str(address[name]) for name in NewAddress.__struct_fields__ if address.get(name)}
    home = dict.fromkeys(("first_line", "city", "state"), "") | {"country": COUNTRY} | lines
    return msgspec.convert(
        details | {"address": home | {"zip": str(zip_code or "")}}, NewGuarantor, strict=False
    )


def _order_set(order_request: OrderRequest) -> OrderSet:
    return OrderSet(
        lab_test_ids=[test.pk for test in order_request.tests] or None,
        add_on=AddOn(marker_ids=[marker.pk for marker in order_request.markers])
        if order_request.markers
        else None,
    )


def _method(order_request: OrderRequest) -> str | None:
    """Return the method only if the tests do not have one themselves."""
    if (
        order_request.value("collection_method")
        or order_request.markers
        or len(order_request.methods) > 1
    ):
        return order_request.method or None
    return None


def _physician(order_request: OrderRequest) -> NewPhysician | None:
    chosen = order_request.value("physician")
    if chosen == TYPED_PHYSICIAN:
        return NewPhysician(
            first_name=order_request.value("physician_first_name"),
            last_name=order_request.value("physician_last_name"),
            npi=order_request.identifier("physician_npi"),
        )
    for physician in order_request.physicians:
        if physician.npi == chosen:
            return NewPhysician(
                first_name=physician.first_name, last_name=physician.last_name, npi=physician.npi
            )
    return None
