"""Lab accounts: the team's list, the management list, and what an account makes available
(catalogue.md 7)."""

from __future__ import annotations

import uuid
from typing import Any

from django.conf import settings
from django.db import transaction
from django.db.models import Q, QuerySet
from django.http import HttpResponse

from sandbox import specification_forms
from sandbox.api import vocabulary
from sandbox.api.calls import ApiRequest, Call
from sandbox.api.errors import Invalid, Problems, Refusal, missing
from sandbox.api.params import Param, Uuid
from sandbox.api.request_bodies import Field, parsed_by, read_body, schema
from sandbox.api.responses import json_response
from sandbox.models import LabAccount, LabTest, Marker, Team

_ALLOWLIST = (
    Field(
        "team_id_allowlist",
        parsed_by(Uuid()),
        required=True,
        many=True,
        shape={"type": "string", "format": "uuid"},
    ),
)
_SILENT = "ready_to_launch"  # accounts in this status are changed, but not shown in the answer
LAB_ACCOUNT = Param("lab_account_id", Uuid(), note="decides availability")


def team_accounts(team: uuid.UUID) -> QuerySet[LabAccount]:
    """Accounts whose allowlist names the team."""
    return LabAccount.objects.filter(team_id_allowlist__contains=[team]).select_related("lab")


def find_account(api_request: ApiRequest) -> LabAccount | None:
    """The account named in the query, None without one; 404 when it is not the team's."""
    if api_request["lab_account_id"] is None:
        return None
    account = (
        team_accounts(api_request.caller.team).filter(pk=api_request["lab_account_id"]).first()
    )
    if account is None:
        raise missing("Lab account")
    return account


def available_markers(account: LabAccount | None) -> QuerySet[Marker]:
    """Markers orderable under the account: those of its lab, or of its own list if it has one."""
    if account is None:
        return Marker.objects.all()
    offered = Marker.objects.filter(lab_id=account.lab_id)
    if account.markers.exists():
        offered = offered.filter(lab_accounts=account)
    return offered


def available_lab_tests(team: uuid.UUID, account: LabAccount | None) -> QuerySet[LabTest]:
    """Lab tests of the team, or those of them its account offers."""
    offered = LabTest.objects.filter(Q(team__isnull=True) | Q(team_id=team))
    if account is None:
        return offered
    offered = offered.filter(lab_id=account.lab_id)
    if account.lab_tests.exists():
        return offered.filter(Q(offering_accounts=account) | Q(lab_account=account)).distinct()
    return offered.filter(Q(lab_account__isnull=True) | Q(lab_account=account))


def account_record(account: LabAccount) -> dict[str, Any]:
    """LabAccount."""
    return specification_forms.account(
        {
            "id": account.pk,
            "lab": account.lab.slug,
            "org_id": account.org_id,
            "status": account.status,
            "delegated_flow": account.delegated_flow,
            "provider_account_id": account.provider_account_id,
            "account_name": account.account_name,
            "default_clinical_notes": account.default_clinical_notes,
            "business_units": account.business_units,
            "allowed_billing": account.allowed_billing,
            "team_id_allowlist": account.team_id_allowlist,
        }
    )


def _answer(accounts: QuerySet[LabAccount], api_request: ApiRequest) -> HttpResponse:
    if api_request["lab_account_id"] is not None:
        accounts = accounts.filter(pk=api_request["lab_account_id"])
    if api_request["status"] is not None:
        accounts = accounts.filter(status=api_request["status"])
    found = accounts.order_by("lab_id", "id")
    return json_response({"data": [account_record(account) for account in found]})


def list_team_accounts(api_request: ApiRequest) -> HttpResponse:
    return _answer(team_accounts(api_request.caller.team), api_request)


def _org_accounts(api_request: ApiRequest) -> QuerySet[LabAccount]:
    """Accounts of the organization behind the management key, in this environment."""
    if api_request["org_id"] != api_request.caller.org_id:
        raise Refusal(403, "The management key belongs to another organization")
    here = (api_request["env"], api_request["region"]) == (settings.ENVIRONMENT, settings.REGION)
    accounts = LabAccount.objects.filter(org_id=api_request["org_id"]).select_related("lab")
    return accounts if here else accounts.none()


def put_allowlist(api_request: ApiRequest) -> HttpResponse:
    """Replace the whole allowlist; a team of another organization cannot be in it."""
    wanted: list[uuid.UUID] = read_body(api_request.request, _ALLOWLIST)["team_id_allowlist"]
    known = set(Team.objects.filter(org_id=api_request["org_id"]).values_list("id", flat=True))
    problems = Problems()
    for place, team in enumerate(wanted):
        if team not in known:
            loc: list[str | int] = ["body", "team_id_allowlist", place]
            problems.add(loc, Invalid("value_error", "Team not found"), str(team))
    with transaction.atomic():
        account = (
            _org_accounts(api_request)
            .select_for_update(of=("self",))
            .filter(pk=api_request["account_id"])
        ).first()
        if account is None:
            raise missing("Lab account")
        problems.settle()
        account.team_id_allowlist = list(dict.fromkeys(wanted))
        account.save(update_fields=["team_id_allowlist"])
    shown = None if account.status == _SILENT else account_record(account)
    return json_response({"lab_account": shown})


def list_org_accounts(api_request: ApiRequest) -> HttpResponse:
    accounts = _org_accounts(api_request)
    if api_request["team_id"] is not None:
        accounts = accounts.filter(team_id_allowlist__contains=[api_request["team_id"]])
    return _answer(accounts, api_request)


CALLS = (
    Call(
        "GET",
        "/v3/lab_test/lab_account",
        list_team_accounts,
        "Lab accounts of the team",
        query=(Param("lab_account_id", Uuid()), Param("status", vocabulary.LAB_ACCOUNT_STATUSES)),
    ),
    Call(
        "GET",
        "/v1/org/{org_id}/lab_account/{env}/{region}",
        list_org_accounts,
        "Lab accounts of the organization",
        query=(
            Param("lab_account_id", Uuid()),
            Param("team_id", Uuid()),
            Param("status", vocabulary.LAB_ACCOUNT_STATUSES),
        ),
        places={"env": vocabulary.ENVIRONMENTS, "region": vocabulary.REGIONS},
        key="management",
    ),
    Call(
        "PATCH",
        "/v1/org/{org_id}/lab_account/{env}/{region}/{account_id}",
        put_allowlist,
        "Say which teams may use a lab account",
        places={"env": vocabulary.ENVIRONMENTS, "region": vocabulary.REGIONS},
        key="management",
        takes=schema(_ALLOWLIST),
    ),
)
