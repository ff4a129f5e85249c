"""Validation of diagnosis codes before an insured order (users.md 6)."""

from __future__ import annotations

from django.http import HttpResponse

from sandbox.api.calls import ApiRequest, Call
from sandbox.api.request_bodies import Field, read_body, schema
from sandbox.api.responses import json_response
from sandbox.models import DiagnosisCode

BODY = (Field("codes", required=True, many=True),)


def validate_codes(api_request: ApiRequest) -> HttpResponse:
    """Unknown codes are errors, pairs that exclude each other violations, overlaps warnings."""
    codes = list(dict.fromkeys(read_body(api_request.request, BODY)["codes"]))
    known = {code.code: code for code in DiagnosisCode.objects.filter(code__in=codes)}
    errors = [f"{code} is not a valid ICD-10 code" for code in codes if code not in known]
    violations = [
        {"code": code, "conflicts_with": other, "type": "mutually_exclusive"}
        for code in known
        for other in known[code].excludes
        if other in known
    ]
    warnings = [
        {"code": code, "overlaps_with": other, "type": "overlap"}
        for code in known
        for other in known[code].overlaps
        if other in known
    ]
    return json_response(
        {
            "valid": not errors and not violations,
            "errors": errors,
            "violations": violations,
            "warnings": warnings,
        }
    )


CALLS = (
    Call(
        "POST",
        "/v3/insurance/validate_icd_codes",
        validate_codes,
        "Check diagnosis codes",
        takes=schema(BODY),
    ),
)
