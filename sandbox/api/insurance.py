"""Insurance records, payors, diagnosis search (users.md 4-6)."""

from __future__ import annotations

import uuid
from dataclasses import replace
from typing import Any

from django.db import transaction
from django.db.models import Func, Q, QuerySet, TextField, Value
from django.db.models.expressions import Combinable
from django.http import HttpResponse

from sandbox import clock, specification_forms
from sandbox.api import person_fields, request_bodies, vocabulary
from sandbox.api.calls import ApiRequest, Call
from sandbox.api.errors import Invalid, Refusal, malformed, missing
from sandbox.api.params import Day, Flag, OneOf, Param, Text
from sandbox.api.request_bodies import Field, parsed_by, read_body, schema, typed_field
from sandbox.api.responses import json_response
from sandbox.api.users import find_user
from sandbox.models import DiagnosisCode, Insurance, Payor, UserInfo

# Neither search is paged; what a person would scroll through.
_SEARCH_ROWS = 50
# Stand for the plan of the patient's state, which has a code of its own.
_FEDERAL = {
    "MEDFED": ("MED", "Senior coverage of {} (made up)"),
    "MAIDFED": ("MAID", "Low income coverage of {} (made up)"),
}

_SHORT = parsed_by(Text(min_length=1, max_length=60))
_INSURED = (
    Field("first_name", person_fields.patient_name, required=True),
    Field("last_name", person_fields.patient_name, required=True),
    typed_field("gender", person_fields.GENDERS, required=True),
    Field("address", fields=person_fields.ADDRESS, required=True),
    typed_field("dob", Day(), required=True),
    Field("email", request_bodies.text, required=True),
    Field("phone_number", request_bodies.text, required=True),
)
_INSURANCE = (
    Field("payor_code", parsed_by(Text(min_length=1, max_length=40)), required=True),
    Field("member_id", _SHORT, required=True),
    Field("group_id", request_bodies.limited_text(60), nullable=True),
    typed_field("relationship", OneOf(("Self", "Spouse", "Other")), required=True),
    Field("insured", fields=_INSURED, required=True),
    Field("guarantor", fields=person_fields.GUARANTOR, nullable=True),
    Field("is_primary", request_bodies.flag, default=True, shape={"type": "boolean"}),
)
_CHECKS = {
    "city": parsed_by(Text(min_length=1, max_length=100)),
    "state": parsed_by(Text(min_length=1, max_length=60)),
    "zip": parsed_by(Text(min_length=1, max_length=20)),
    "country": _SHORT,
}
_PAYOR = (
    Field("name", person_fields.filled, required=True),
    Field(
        "address",
        fields=tuple(
            replace(each, check=_CHECKS.get(each.name, each.check))
            for each in person_fields.ADDRESS
        ),
        required=True,
    ),
    typed_field("provider", vocabulary.PAYOR_PROVIDERS, nullable=True),
    Field("provider_payor_id", _SHORT, nullable=True),
)


def _payor_address(payor: Payor) -> dict[str, Any]:
    return {
        "first_line": payor.first_line,
        "second_line": payor.second_line,
        "country": payor.country,
        "zip": payor.zip,
        "city": payor.city,
        "state": payor.state,
        "access_notes": payor.access_notes,
    }


def insurance_record(insurance: Insurance) -> dict[str, Any]:
    """Insurance record with the company of its payor."""
    return specification_forms.insurance(
        {
            "member_id": insurance.member_id,
            "payor_code": insurance.payor_id,
            "group_id": insurance.group_id,
            "relationship": insurance.relationship,
            "insured": insurance.insured,
            "company": {
                "name": insurance.payor.name,
                "address": _payor_address(insurance.payor),
            },
            "guarantor": insurance.guarantor,
            "is_primary": insurance.is_primary,
        }
    )


def latest_insurance(api_request: ApiRequest) -> HttpResponse:
    """The newest primary (or other) record of the user."""
    found = (
        Insurance.objects.filter(user=find_user(api_request), is_primary=api_request["is_primary"])
        .select_related("payor")
        .order_by("-created_at", "-id")
        .first()
    )
    if found is None:
        raise missing("Insurance")
    return json_response(insurance_record(found))


def _find_payor(api_request: ApiRequest, code: str, state: str) -> Payor:
    if code in _FEDERAL:
        prefix, name = _FEDERAL[code]
        federal = Payor.objects.get(pk=code)
        plan, _ = Payor.objects.get_or_create(
            payor_code=f"{prefix}{state}",
            defaults={
                "name": name.format(state),
                "first_line": federal.first_line,
                "city": federal.city,
                "state": federal.state,
                "zip": federal.zip,
            },
        )
        return plan
    payor = _own_payors(api_request).filter(pk=code).first()
    if payor is None:
        raise malformed(["body", "payor_code"], Invalid("value_error", "Payor not found"), code)
    return payor


def create_insurance(api_request: ApiRequest) -> HttpResponse:
    """Create a record; existing ones do not change."""
    values = read_body(api_request.request, _INSURANCE)
    user = find_user(api_request)
    info = UserInfo.objects.filter(user=user).first()
    if info is None:
        raise Refusal(422, "The user has no demographics yet; they are needed before insurance")
    if values["guarantor"] is None and specification_forms.needs_guarantor(values["relationship"]):
        given = Invalid("missing", "A guarantor is required unless the relationship is Self")
        raise malformed(["body", "guarantor"], given, None)
    with transaction.atomic():
        values["payor"] = _find_payor(api_request, values.pop("payor_code"), info.state)
        values["insured"]["dob"] = values["insured"]["dob"].isoformat()
        record = Insurance.objects.create(
            id=uuid.uuid4(), user=user, created_at=clock.now(), **values
        )
    return json_response(insurance_record(record))


def create_payor(api_request: ApiRequest) -> HttpResponse:
    """Create a payor that only this team sees."""
    values = read_body(api_request.request, _PAYOR)
    code = values["provider_payor_id"]
    payor = Payor.objects.create(
        payor_code=f"T{uuid.uuid4().hex[:11].upper()}",
        name=values["name"],
        team_id=api_request.caller.team,
        provider_payor_ids={values["provider"] or "other": code} if code else {},
        **values["address"],
    )
    return json_response(payor_record(payor))


def payor_record(payor: Payor) -> dict[str, Any]:
    """Payor (specification)."""
    return specification_forms.payor(
        {
            "payor_code": payor.payor_code,
            "name": payor.name,
            "aliases": payor.aliases,
            "org_address": _payor_address(payor),
            "source": "platform" if payor.team_id is None else "team",
        }
    )


def _joined(array: str) -> Combinable:
    return Func(array, Value("\n"), function="array_to_string", output_field=TextField())


def _own_payors(api_request: ApiRequest) -> QuerySet[Payor]:
    """The platform's payors and the team's own."""
    return Payor.objects.filter(Q(team__isnull=True) | Q(team_id=api_request.caller.team))


def search_payors(api_request: ApiRequest) -> HttpResponse:
    """Payors by name or alias, or by a connectivity provider's code."""
    payors = _own_payors(api_request)
    if api_request["insurance_name"]:
        payors = payors.annotate(all_aliases=_joined("aliases")).filter(
            Q(name__icontains=api_request["insurance_name"])
            | Q(all_aliases__icontains=api_request["insurance_name"])
        )
    provider, code = api_request["provider"], api_request["provider_payor_id"]
    if provider is not None:
        payors = payors.filter(provider_payor_ids__has_key=provider)
    if provider is not None and code is not None:
        payors = payors.filter(provider_payor_ids__contains={provider: code})
    elif code is not None:
        payors = payors.filter(
            payor_code__in=[
                payor.payor_code for payor in payors if code in payor.provider_payor_ids.values()
            ]
        )
    return json_response(
        [payor_record(payor) for payor in payors.order_by("name", "payor_code")[:_SEARCH_ROWS]]
    )


def search_diagnosis(api_request: ApiRequest) -> HttpResponse:
    """Diagnosis codes by beginning of the code or part of the description."""
    text = api_request["diagnosis_query"]
    codes = DiagnosisCode.objects.filter(
        Q(code__istartswith=text) | Q(description__icontains=text)
    ).order_by("code")[:_SEARCH_ROWS]
    return json_response(
        [
            {
                "diagnosis_code": code.code,
                "description": code.description,
                "is_secondary": code.is_secondary,
            }
            for code in codes
        ]
    )


CALLS = (
    Call(
        "POST",
        "/v2/user/{user_id}/insurance",
        create_insurance,
        "A new insurance record",
        takes=schema(_INSURANCE),
    ),
    Call("POST", "/v3/payor", create_payor, "A payor of the team's own", takes=schema(_PAYOR)),
    Call(
        "GET",
        "/v2/user/{user_id}/insurance/latest",
        latest_insurance,
        "Newest insurance record of a user",
        query=(Param("is_primary", Flag(), True),),
    ),
    Call(
        "GET",
        "/v3/insurance/search/payor",
        search_payors,
        "Payors",
        query=(
            Param("insurance_name", Text()),
            Param(
                "provider",
                vocabulary.PAYOR_PROVIDERS,
                note="connectivity provider of provider_payor_id",
            ),
            Param("provider_payor_id", Text()),
        ),
    ),
    Call(
        "GET",
        "/v3/insurance/search/diagnosis",
        search_diagnosis,
        "Diagnosis codes",
        query=(Param("diagnosis_query", Text(), required=True),),
    ),
)
