"""Insurance records, payor and diagnosis search (users.md 4-6)."""

from __future__ import annotations

from typing import Any

from django.db.models import Func, Q, TextField, Value
from django.db.models.expressions import Combinable
from django.http import HttpResponse

from sandbox.api import vocabulary
from sandbox.api.answers import json_answer
from sandbox.api.calls import Asked, Call
from sandbox.api.errors import missing
from sandbox.api.params import Flag, Param, Text
from sandbox.api.users import find_user
from sandbox.models import DiagnosisCode, Insurance, Payor

# Neither search is paged; what a person would scroll through.
_SEARCH_ROWS = 50


def _payor_address(payor: Payor) -> dict[str, Any]:
    return {
        "first_line": payor.first_line,
        "second_line": payor.second_line,
        "country": payor.country,
        "zip": payor.zip,
        "city": payor.city,
        "state": payor.state,
        "access_notes": None,
    }


def insurance_record(insurance: Insurance) -> dict[str, Any]:
    """Insurance record with the company of its payor."""
    return {
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


def latest_insurance(asked: Asked) -> HttpResponse:
    """The newest primary (or other) record of the user."""
    found = (
        Insurance.objects.filter(user=find_user(asked), is_primary=asked["is_primary"])
        .select_related("payor")
        .order_by("-created_at", "-id")
        .first()
    )
    if found is None:
        raise missing("Insurance")
    return json_answer(insurance_record(found))


def payor_record(payor: Payor) -> dict[str, Any]:
    """Payor (specification)."""
    return {
        "payor_code": payor.payor_code,
        "name": payor.name,
        "aliases": payor.aliases,
        "org_address": _payor_address(payor),
        "source": "platform" if payor.team_id is None else "team",
    }


def _joined(array: str) -> Combinable:
    return Func(array, Value("\n"), function="array_to_string", output_field=TextField())


def search_payors(asked: Asked) -> HttpResponse:
    """Payors by name or alias, or by a connectivity provider's code; own ones only besides
    the platform's."""
    payors = Payor.objects.filter(Q(team__isnull=True) | Q(team_id=asked.caller.team))
    if asked["insurance_name"]:
        payors = payors.annotate(all_aliases=_joined("aliases")).filter(
            Q(name__icontains=asked["insurance_name"])
            | Q(all_aliases__icontains=asked["insurance_name"])
        )
    provider, code = asked["provider"], asked["provider_payor_id"]
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
    return json_answer(
        [payor_record(payor) for payor in payors.order_by("name", "payor_code")[:_SEARCH_ROWS]]
    )


def search_diagnosis(asked: Asked) -> HttpResponse:
    """Diagnosis codes by beginning of the code or part of the description."""
    text = asked["diagnosis_query"]
    codes = DiagnosisCode.objects.filter(
        Q(code__istartswith=text) | Q(description__icontains=text)
    ).order_by("code")[:_SEARCH_ROWS]
    return json_answer(
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
