"""What can be sent is what the interface's tables list: names, and which of them are required."""

from __future__ import annotations

from datetime import date

import msgspec
import pytest
from msgspec import inspect as typed

from backoffice.service import RequestBody
from backoffice.service.appointments import VisitAddress
from backoffice.service.exchange import as_json
from backoffice.service.insurance import NewInsurance, NewInsured, NewPayor
from backoffice.service.labs import AddOn, LabTestChange, NewLabTest, OrderSet
from backoffice.service.orders import (
    AoeResponse,
    Consent,
    ImportedOrder,
    NewOrder,
    NewPatient,
    NewPatientAddress,
    NewPhysician,
    SimulationFlags,
)
from backoffice.service.users import NewAddress, NewGuarantor, NewUser, NewUserInfo, UserChange

TABLES: dict[type[RequestBody], str] = {
    NewOrder: "user_id! patient_details! patient_address! lab_test_id- order_set collection_method"
    " physician health_insurance- priority billing_type icd_codes consents activate_by aoe_answers"
    " passthrough clinical_notes lab_account_id creator_member_id-",
    ImportedOrder: "user_id! billing_type! order_set! collection_method! physician"
    " patient_details! patient_address! sample_id! lab_account_id",
    OrderSet: "lab_test_ids add_on lab_account_id",
    AddOn: "marker_ids provider_ids",
    NewPatient: "first_name! last_name! dob! gender! phone_number! email! medical_proxy race"
    " ethnicity sexual_orientation gender_identity household_income household_size",
    NewPatientAddress: "receiver_name first_line! second_line city! state! zip! country!"
    " access_notes phone_number",
    NewGuarantor: "first_name! last_name! address! phone_number! household_income household_size"
    " email",
    NewPhysician: "first_name! last_name! email npi! licensed_states signature_image-",
    Consent: "consentType! version timeOfConsent",
    AoeResponse: "marker_id! question_id! answer!",
    SimulationFlags: "interpretation result_types has_missing_results",
    VisitAddress: "first_line! second_line city! state! zip_code! unit- access_notes",
    NewUser: "client_user_id! fallback_time_zone fallback_birth_date ingestion_start ingestion_end",
    UserChange: "client_user_id fallback_time_zone fallback_birth_date ingestion_start"
    " ingestion_end",
    NewUserInfo: "first_name! last_name! email! phone_number! gender! dob! address! medical_proxy"
    " race ethnicity sexual_orientation gender_identity",
    NewAddress: "first_line! second_line country! zip! city! state! access_notes",
    NewInsurance: "payor_code! member_id! group_id relationship! insured! guarantor is_primary",
    NewInsured: "first_name! last_name! gender! address! dob! email! phone_number!",
    NewPayor: "name! address! provider provider_payor_id",
    NewLabTest: "marker_ids provider_ids name! method! description! fasting lab_account_id"
    " lab_slug",
    LabTestChange: "name active",
}
"""``!`` is required, ``-`` is deprecated or undocumented and not for us to send."""

WE_REQUIRE = {(NewOrder, "order_set")}
"""The older way to say what is ordered is not offered."""


def test_every_body_is_listed() -> None:
    assert set(RequestBody.__subclasses__()) == set(TABLES)


@pytest.mark.parametrize("kind", TABLES, ids=lambda kind: kind.__name__)
def test_fields_are_those_of_the_interface(kind: type[RequestBody]) -> None:
    listed = TABLES[kind].split()
    shape = typed.type_info(kind)
    assert isinstance(shape, typed.StructType)
    assert {one.encode_name for one in shape.fields} == {
        name.rstrip("!") for name in listed if not name.endswith("-")
    }
    required = {one.encode_name for one in shape.fields if one.required}
    ours = {name for whose, name in WE_REQUIRE if whose is kind}
    assert required == {name.rstrip("!") for name in listed if name.endswith("!")} | ours


@pytest.mark.parametrize("kind", TABLES, ids=lambda kind: kind.__name__)
def test_a_kept_body_is_sent_as_it_was_meant(kind: type[RequestBody]) -> None:
    """What is not said is not sent, and what a recorded body holds can be read again."""
    required = [name for name in TABLES[kind].split() if name.endswith("!")]
    full = _example(typed.type_info(kind), everything=True)
    least = _example(typed.type_info(kind), everything=False)
    for sent in (full, least):
        body = msgspec.convert(sent, kind)
        assert as_json(body) == {"json": sent}
        assert repr(body) == f"<{kind.__name__}>"
    assert len(least) == len(required) + sum(1 for whose, _ in WE_REQUIRE if whose is kind)


def _example(shape: typed.Type, everything: bool) -> dict[str, object]:
    assert isinstance(shape, typed.StructType)
    return {
        one.encode_name: _value(one.type, everything)
        for one in shape.fields
        if everything or one.required
    }


def _value(shape: typed.Type, everything: bool) -> object:
    if isinstance(shape, typed.UnionType):
        return _value(shape.types[0], everything)
    if isinstance(shape, typed.StructType):
        return _example(shape, everything)
    if isinstance(shape, typed.ListType):
        return [_value(shape.item_type, everything)]
    values: dict[type[typed.Type], object] = {
        typed.StrType: "text",
        typed.IntType: 2**62,
        typed.BoolType: True,
        typed.DateType: "2026-03-04",
        typed.DateTimeType: "2026-03-04T05:06:07Z",
        typed.UUIDType: "11111111-0000-4000-8000-000000000001",
    }
    return values[type(shape)]


def test_null_clears_and_silence_keeps() -> None:
    change = UserChange(fallback_birth_date=None, ingestion_end=date(2026, 1, 2))
    assert as_json(change)["json"] == {"fallback_birth_date": None, "ingestion_end": "2026-01-02"}
    assert as_json(UserChange())["json"] == {}
