"""How the pulls of wearable history went (specification, Introspection; users.md 7)."""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Callable
from typing import Any

from django.http import HttpResponse

from sandbox import specification_forms
from sandbox.api.calls import ApiRequest, Call
from sandbox.api.errors import Invalid, malformed
from sandbox.api.paging import make_cursor, read_cursor
from sandbox.api.params import Param, Text, Uuid, Whole
from sandbox.api.responses import json_response
from sandbox.api.users import team_users
from sandbox.models import HistoricalPull, Lab, Provider

# `user_limit` is an upper bound: larger ones are cut to this.
_MOST_USERS = 500

Report = dict[str, Any]


def _pulled_record(pull: HistoricalPull) -> Report:
    return specification_forms.pull(
        {
            "status": pull.status,
            "release": pull.release,
            "range_start": pull.range_start,
            "range_end": pull.range_end,
            "timeline": {
                "scheduled_at": pull.scheduled_at,
                "started_at": pull.started_at,
                "ended_at": pull.ended_at,
            },
            "days_with_data": pull.days_with_data,
            "error_details": pull.error_details,
            "trace_id": pull.trace_id,
        }
    )


def _pull_report(pulls: list[HistoricalPull]) -> Report:
    """`not_pulled` names and `pulled` records of one provider."""
    return {
        "not_pulled": [pull.resource for pull in pulls if pull.status is None],
        "pulled": {
            pull.resource: _pulled_record(pull) for pull in pulls if pull.status is not None
        },
    }


def _resource_report(pulls: list[HistoricalPull]) -> Report:
    """Per resource the last attempt and what was sent."""
    report: Report = {}
    for pull in pulls:
        attempt = None
        if pull.status in ("success", "failure"):
            attempt = {"timestamp": pull.ended_at, "status": pull.status}
        served = pull.status == "success" and pull.days_with_data > 0
        report[pull.resource] = {
            "last_attempt": attempt,
            "oldest_data": pull.range_start if served else None,
            "newest_data": pull.range_end if served else None,
            "sent_count": pull.days_with_data if served else None,
        }
    return report


def _check_provider(slug: str | None) -> None:
    if slug is None or Provider.objects.filter(slug=slug).exists():
        return
    if not Lab.objects.filter(slug=slug).exists():
        raise malformed(
            ["query", "provider"], Invalid("enum", "Input should be a provider slug"), slug
        )


def _answer(
    api_request: ApiRequest, kind: str, report: Callable[[list[HistoricalPull]], Report]
) -> HttpResponse:
    """The next `user_limit` users in turn; those without resource information count, unshown."""
    _check_provider(api_request["provider"])
    question = {
        "kind": kind,
        "user_id": api_request["user_id"],
        "provider": api_request["provider"],
    }
    after = read_cursor(api_request["next_cursor"] or api_request["cursor"], question)
    users = team_users(api_request.caller.team)
    if api_request["user_id"] is not None:
        users = users.filter(pk=api_request["user_id"])
    if after is not None:
        users = users.filter(seq__gt=after)
    limit = min(api_request["user_limit"], _MOST_USERS)
    turn = list(users.order_by("seq").values_list("pk", "seq")[: limit + 1])
    cursor = None
    if len(turn) > limit:
        turn = turn[:limit]
        cursor = make_cursor(turn[-1][1], question)
    pulls = HistoricalPull.objects.filter(user_id__in=[pk for pk, _ in turn])
    if api_request["provider"] is not None:
        pulls = pulls.filter(provider_id=api_request["provider"])
    found: dict[uuid.UUID, dict[str, list[HistoricalPull]]] = defaultdict(lambda: defaultdict(list))
    for pull in pulls.order_by("provider_id", "resource"):
        found[pull.user_id][pull.provider_id].append(pull)
    data = [
        {
            "user_id": pk,
            "provider": {slug: report(each) for slug, each in found[pk].items()},
        }
        for pk, _ in turn
        if pk in found
    ]
    # `next` is the deprecated name of the same cursor.
    return json_response({"data": data, "next": cursor, "next_cursor": cursor})


def historical_pulls(api_request: ApiRequest) -> HttpResponse:
    return _answer(api_request, "historical_pull", _pull_report)


def resources(api_request: ApiRequest) -> HttpResponse:
    return _answer(api_request, "resources", _resource_report)


_QUERY = (
    Param("user_id", Uuid()),
    Param("provider", Text(), note="provider or lab slug"),
    Param("user_limit", Whole(ge=1), 50, note="an upper bound only"),
    Param("cursor", Text(), deprecated=True),
    Param("next_cursor", Text(), note="null for the first page"),
)

CALLS = (
    Call(
        "GET",
        "/v2/introspect/historical_pull",
        historical_pulls,
        "How historical pulls went",
        query=_QUERY,
    ),
    Call("GET", "/v2/introspect/resources", resources, "What each resource sent", query=_QUERY),
)
