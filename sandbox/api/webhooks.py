"""Management of webhook endpoints (webhooks.md 1.2); the management key only."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings
from django.http import HttpResponse

from sandbox import clock
from sandbox.api import request_bodies, vocabulary
from sandbox.api.calls import ANY_TEXT, ApiRequest, Call
from sandbox.api.errors import Invalid, Refusal, missing
from sandbox.api.paging import make_cursor, read_cursor
from sandbox.api.params import OneOf, Param, Text, Whole
from sandbox.api.request_bodies import Field, read_body
from sandbox.api.responses import json_response
from sandbox.deliveries import endpoints, signing
from sandbox.deliveries.catalogue import EVENT_TYPES
from sandbox.models import Team, WebhookEndpoint

_HERE = "/v1/org/{org_id}/team/{team_id}/{environment}/webhook"
_ONE = _HERE + "/{webhook_id}"
_PLACES = {"environment": vocabulary.ENVIRONMENTS, "webhook_id": ANY_TEXT}
_RESERVED = {"content-length", "content-type", "host", "connection", "transfer-encoding"}
_SENSITIVE = ("authorization", "cookie", "key", "secret", "token")
_HEADER = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+", re.ASCII)
_SECRET_BYTES = range(24, 65)


def _url(value: Any) -> str:
    found = request_bodies.parsed_by(Text(min_length=1, max_length=2048))(value)
    try:
        parts = urlsplit(found)
        sound = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        sound = False
    if not sound or any(letter.isspace() for letter in found):
        raise Invalid("url_parsing", "Input should be a valid URL")
    return str(found)


def _secret(value: Any) -> str:
    found = request_bodies.text(value)
    try:
        sound = len(signing.key_of(found)) in _SECRET_BYTES
    except ValueError:
        sound = False
    if not sound:
        message = "Input should be whsec_ and 24 to 64 bytes in base64"
        raise Invalid("value_error", message)
    return found


def _headers(value: Any) -> dict[str, str]:
    found = request_bodies.text_map(value)
    for name, said in found.items():
        lowered = name.lower()
        if _HEADER.fullmatch(name) is None or lowered in _RESERVED:
            raise Invalid("value_error", "This header cannot be set")
        if lowered.startswith(settings.WEBHOOK_HEADER_PREFIX + "-"):
            raise Invalid("value_error", "This header cannot be set")
        if not said.isascii() or not said.isprintable():
            raise Invalid("value_error", "A header's value is printable ASCII")
    return found


_TYPES = OneOf(EVENT_TYPES)
_FIELDS = (
    Field("url", _url, required=True),
    Field("description", request_bodies.parsed_by(Text(max_length=1000)), nullable=True),
    Field(
        "rate_limit", request_bodies.whole(1, 1_000_000), nullable=True, shape={"type": "integer"}
    ),
    Field("disabled", request_bodies.flag, nullable=True, shape={"type": "boolean"}),
    Field(
        "filter_types",
        request_bodies.parsed_by(_TYPES),
        nullable=True,
        many=True,
        shape=_TYPES.schema(),
    ),
)
_CHANGES = (Field("url", _url), *_FIELDS[1:])
_CREATION = (*_FIELDS, Field("secret", _secret, nullable=True))
_PUT_HEADERS = (
    Field(
        "headers",
        _headers,
        required=True,
        shape={"type": "object", "additionalProperties": {"type": "string"}},
    ),
)
_ROTATION = (Field("key", _secret, nullable=True),)


def _team(api_request: ApiRequest) -> Team:
    """The team in the path; 403 when it is not of the key's organization."""
    if api_request["org_id"] != api_request.caller.org_id:
        raise Refusal(403, "The management key belongs to another organization")
    team = Team.objects.filter(id=api_request["team_id"]).first()
    if team is None or team.org_id != api_request.caller.org_id:
        raise missing("Team")
    return team


def _is_here(api_request: ApiRequest) -> bool:
    """Return whether the path's environment is the one served; the other one has no endpoints."""
    return bool(api_request["environment"] == settings.ENVIRONMENT)


def _find(api_request: ApiRequest) -> WebhookEndpoint:
    team = _team(api_request)
    found = WebhookEndpoint.objects.filter(team=team, id=api_request["webhook_id"]).first()
    if found is None or not _is_here(api_request):
        raise missing("Webhook")
    return found


def webhook_record(endpoint: WebhookEndpoint) -> dict[str, Any]:
    """Webhook; the secret is never part of it."""
    return {
        "id": endpoint.id,
        "url": endpoint.url,
        "description": endpoint.description,
        "rate_limit": endpoint.rate_limit,
        "disabled": endpoint.disabled,
        "filter_types": endpoint.filter_types,
        "created_at": endpoint.created_at,
        "updated_at": endpoint.updated_at,
    }


def list_webhooks(api_request: ApiRequest) -> HttpResponse:
    """The team's endpoints, oldest first."""
    team, limit = _team(api_request), api_request["limit"]
    question = ["webhooks", str(team.id), api_request["environment"]]
    found = WebhookEndpoint.objects.filter(team=team) if _is_here(api_request) else None
    after = read_cursor(api_request["next_cursor"], question)
    rows: list[WebhookEndpoint] = []
    if found is not None:
        ordered = sorted(found, key=_position)
        rows = [each for each in ordered if after is None or _position(each) > after]
    cursor = make_cursor(_position(rows[limit - 1]), question) if len(rows) > limit else None
    return json_response({"data": list(map(webhook_record, rows[:limit])), "next_cursor": cursor})


def _position(endpoint: WebhookEndpoint) -> list[str]:
    return [endpoint.created_at.isoformat(), endpoint.id]


def create_webhook(api_request: ApiRequest) -> HttpResponse:
    team = _team(api_request)
    if not _is_here(api_request):
        raise Refusal(400, "This environment is not served here")
    values = read_body(api_request.request, _CREATION)
    now = clock.real_now()
    endpoint = WebhookEndpoint.objects.create(
        id=endpoints.new_id(),
        team=team,
        **values
        | {
            "disabled": bool(values["disabled"]),
            "secret": values["secret"] or signing.new_secret(),
        },
        created_at=now,
        updated_at=now,
    )
    return json_response(webhook_record(endpoint))


def get_webhook(api_request: ApiRequest) -> HttpResponse:
    return json_response(webhook_record(_find(api_request)))


def change_webhook(api_request: ApiRequest) -> HttpResponse:
    """Change the fields in the body; enabling an endpoint clears its run of failures."""
    endpoint = _find(api_request)
    values = read_body(api_request.request, _CHANGES)
    for name in request_bodies.given_names(api_request.request) & values.keys():
        setattr(endpoint, name, bool(values[name]) if name == "disabled" else values[name])
    if not endpoint.disabled:
        endpoint.first_failure_at = endpoint.failing_since = None
    endpoint.updated_at = clock.real_now()
    endpoint.save()
    return json_response(webhook_record(endpoint))


def delete_webhook(api_request: ApiRequest) -> HttpResponse:
    """Delete the endpoint with every undelivered message."""
    endpoints.delete(_find(api_request).id)
    return HttpResponse(status=204)


def get_headers(api_request: ApiRequest) -> HttpResponse:
    """Return the headers; values of sensitive ones are hidden, their names are listed."""
    headers: dict[str, str] = _find(api_request).headers
    hidden = [name for name in headers if _is_sensitive(name)]
    shown = {name: value for name, value in headers.items() if name not in hidden}
    return json_response({"headers": shown, "sensitive": hidden})


def _is_sensitive(name: str) -> bool:
    return any(word in name.lower() for word in _SENSITIVE)


def put_headers(api_request: ApiRequest) -> HttpResponse:
    endpoint = _find(api_request)
    values = read_body(api_request.request, _PUT_HEADERS)
    endpoint.headers = values["headers"]
    endpoint.save(update_fields=["headers"])
    return HttpResponse(status=204)


def get_secret(api_request: ApiRequest) -> HttpResponse:
    return json_response({"key": _find(api_request).secret})


def rotate_secret(api_request: ApiRequest) -> HttpResponse:
    """Rotate the secret; the former one signs too for a day."""
    endpoint = _find(api_request)
    values = (
        read_body(api_request.request, _ROTATION) if api_request.request.body else {"key": None}
    )
    endpoints.rotate(endpoint, values["key"])
    return HttpResponse(status=204)


def _calls() -> Iterable[Call]:
    def call(
        method: str,
        path: str,
        view: Callable[[ApiRequest], HttpResponse],
        summary: str,
        query: tuple[Param, ...] = (),
        body: tuple[Field, ...] = (),
    ) -> Call:
        return Call(
            method,
            path,
            view,
            summary,
            query=query,
            places={name: kind for name, kind in _PLACES.items() if f"{{{name}}}" in path},
            key="management",
            takes=request_bodies.schema(body) if body else {},
        )

    paging = (Param("limit", Whole(ge=1, le=250), 50), Param("next_cursor", ANY_TEXT))
    yield call("GET", _HERE, list_webhooks, "Webhook endpoints of a team", paging)
    yield call("POST", _HERE, create_webhook, "A new webhook endpoint", body=_CREATION)
    yield call("GET", _ONE, get_webhook, "One webhook endpoint")
    yield call("PATCH", _ONE, change_webhook, "Change a webhook endpoint", body=_CHANGES)
    yield call("DELETE", _ONE, delete_webhook, "Delete a webhook endpoint")
    yield call("GET", _ONE + "/headers", get_headers, "Headers sent along")
    headers = _ONE + "/headers"
    yield call("PUT", headers, put_headers, "Replace the headers sent along", body=_PUT_HEADERS)
    yield call("GET", _ONE + "/secret", get_secret, "The secret that signs")
    rotate = _ONE + "/secret/rotate"
    yield call("POST", rotate, rotate_secret, "A new secret", body=_ROTATION)


CALLS = tuple(_calls())
