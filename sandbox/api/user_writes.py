"""Creating and changing users, their demographics and connections (users.md 2, 3 and 7)."""

from __future__ import annotations

import re
import secrets
import uuid
from typing import Any
from zoneinfo import available_timezones

from django.conf import settings
from django.db import transaction
from django.http import HttpResponse

from sandbox import clock
from sandbox.api import person_fields, request_bodies
from sandbox.api.calls import ApiRequest, Call
from sandbox.api.errors import Invalid, Refusal, malformed, missing
from sandbox.api.params import Day, OneOf, Text, Uuid
from sandbox.api.request_bodies import Field, parsed_by, read_body, schema, typed_field
from sandbox.api.responses import json_response
from sandbox.api.users import find_user, info_record, one_user, team_users
from sandbox.catalogue_data import PROVIDERS
from sandbox.models import User, UserInfo, World

_SLUGS = OneOf(tuple(each[0] for each in PROVIDERS))
_REFERENCE = Text(min_length=1, max_length=200)


_EMAIL_ADDRESS = re.compile(r"[^@\s]+@[^@\s]+\.[^@\s]")
_PHONE_NUMBER = re.compile(
    r"\+\d[\d ().-]{6,}"  # international
    r"|(?<!\w)(1[ .-]?)?\(?\d{3}\)?[ .-]\d{3}[ .-]\d{4}(?!\w)"  # as written in the US
    r"|\A1?\d{10}\Z"
)


def _reference(value: Any) -> str:
    """The team's own reference, which must not hold personal data (specification, User)."""
    found: str = parsed_by(_REFERENCE)(value)
    if _EMAIL_ADDRESS.search(found) or _PHONE_NUMBER.search(found):
        message = "client_user_id must not contain an email address or a phone number"
        raise Invalid("value_error", message)
    return found


def _time_zone(value: Any) -> str:
    found = request_bodies.text(value)
    if found not in available_timezones():
        raise Invalid("value_error", "Input should be an IANA time zone")
    return found


_FALLBACKS = (
    Field("fallback_time_zone", _time_zone, nullable=True),
    typed_field("fallback_birth_date", Day(), nullable=True),
    typed_field("ingestion_start", Day(), nullable=True),
    typed_field("ingestion_end", Day(), nullable=True),
)
_CREATION = (
    Field("client_user_id", _reference, required=True, shape=_REFERENCE.schema()),
    *_FALLBACKS,
)
_CHANGES = (
    Field("client_user_id", _reference, nullable=True, shape=_REFERENCE.schema()),
    *_FALLBACKS,
)

_ADDRESS = (
    Field("first_line", person_fields.filled, required=True),
    Field("second_line", request_bodies.limited_text(200), nullable=True, default=""),
    Field("country", parsed_by(Text(min_length=1, max_length=60)), default="US"),
    Field(
        "zip", parsed_by(Text(min_length=1, max_length=20)), required=True, other_name="zip_code"
    ),
    Field("city", parsed_by(Text(min_length=1, max_length=100)), required=True),
    Field("state", parsed_by(Text(min_length=1, max_length=60)), required=True),
    Field("access_notes", request_bodies.limited_text(1000), nullable=True),
)
_INFO = (
    Field("first_name", person_fields.patient_name, required=True),
    Field("last_name", person_fields.patient_name, required=True),
    Field("email", person_fields.email, required=True),
    Field("phone_number", parsed_by(Text(min_length=1, max_length=32)), required=True),
    Field("gender", parsed_by(Text(min_length=1, max_length=60)), required=True),
    typed_field("dob", Day(), required=True),
    Field("address", fields=_ADDRESS, required=True),
    Field("medical_proxy", fields=person_fields.GUARANTOR, nullable=True),
    *person_fields.DEMOGRAPHIC_CHOICES,
)
_LINK = (
    typed_field("user_id", Uuid(), required=True),
    typed_field("provider", _SLUGS, nullable=True),
    Field("redirect_url", request_bodies.limited_text(2048), nullable=True),
    typed_field("filter_on_providers", _SLUGS, nullable=True, many=True),
    typed_field("on_error", OneOf(("redirect",)), nullable=True),
    typed_field("on_close", OneOf(("redirect",)), nullable=True),
)


def _refuse_duplicate(
    api_request: ApiRequest, reference: str, but: uuid.UUID | None = None
) -> None:
    """Refuse a reference that another user has with 400 and that user."""
    other = team_users(api_request.caller.team).filter(client_user_id=reference).first()
    if other is not None and other.pk != but:
        raise Refusal(
            400,
            {
                "error_type": "INVALID_REQUEST",
                "error_message": "A user with this client_user_id already exists.",
                "user_id": other.pk,
                "created_on": other.created_on,
            },
        )


def _fall_back(user: User, values: dict[str, Any]) -> None:
    now = clock.now()
    for name, value in values.items():
        setattr(user, name, value)
        if name in ("fallback_time_zone", "fallback_birth_date"):
            setattr(user, f"{name}_updated_at", None if value is None else now)


def create_user(api_request: ApiRequest) -> HttpResponse:
    values = read_body(api_request.request, _CREATION)
    with transaction.atomic():
        # The row of the world is the lock: the second of two equal references is refused.
        world = World.objects.select_for_update().get(id=1)
        _refuse_duplicate(api_request, values["client_user_id"])
        world.user_count += 1
        world.save(update_fields=["user_count"])
        user = User(
            id=uuid.uuid4(),
            seq=world.user_count,
            team_id=api_request.caller.team,
            created_on=clock.now(),
        )
        _fall_back(user, values)
        user.save()
    return one_user(api_request, pk=user.pk)


def change_user(api_request: ApiRequest) -> HttpResponse:
    """Change the fields in the body; a reference cannot be removed."""
    values = read_body(api_request.request, _CHANGES)
    named = request_bodies.given_names(api_request.request)
    with transaction.atomic():
        World.objects.select_for_update().get(id=1)
        user = find_user(api_request)
        if values["client_user_id"] is None:
            del values["client_user_id"]
        else:
            _refuse_duplicate(api_request, values["client_user_id"], user.pk)
        _fall_back(user, {name: value for name, value in values.items() if name in named})
        user.save()
    return HttpResponse(status=204)


def put_info(api_request: ApiRequest) -> HttpResponse:
    """Replace the demographics as a whole: fields that are left out are deleted."""
    values = read_body(api_request.request, _INFO)
    now = clock.now()
    if values["dob"] > now.date():
        given = Invalid("date_past", "Date should be in the past")
        raise malformed(["body", "dob"], given, values["dob"])
    address = values.pop("address")
    info, _ = UserInfo.objects.update_or_create(
        user=find_user(api_request), defaults={**values, **address, "updated_at": now}
    )
    return json_response(info_record(info))


def deregister(api_request: ApiRequest) -> HttpResponse:
    """End the connection. One of the mobile SDK goes on, although the answer says that it ended."""
    found = find_user(api_request).connections.filter(provider_id=api_request["provider"])
    connection = found.select_related("provider").first()
    if connection is None:
        raise missing("Connection")
    if connection.provider.auth_type != "sdk":
        connection.delete()
    return json_response({"success": True})


def create_link(api_request: ApiRequest) -> HttpResponse:
    """Create a link by which the patient connects a device; the sandbox does not serve it."""
    values = read_body(api_request.request, _LINK)
    if values["filter_on_providers"] == []:
        given = Invalid("too_short", "List should have at least 1 item", {"min_length": 1})
        raise malformed(["body", "filter_on_providers"], given, [])
    if not team_users(api_request.caller.team).filter(pk=values["user_id"]).exists():
        raise missing("User")
    token = secrets.token_urlsafe(32)
    url = f"https://link.service.invalid/?token={token}&env=sandbox&region={settings.REGION}"
    if values["provider"] is not None:
        url += f"&provider={values['provider']}"
    return json_response({"link_token": token, "link_web_url": url})


CALLS = (
    Call("POST", "/v2/user", create_user, "A new user", takes=schema(_CREATION)),
    Call("POST", "/v2/link/token", create_link, "A link to connect a device", takes=schema(_LINK)),
    Call("PATCH", "/v2/user/{user_id}", change_user, "Change a user", takes=schema(_CHANGES)),
    Call("PATCH", "/v2/user/{user_id}/info", put_info, "Demographics", takes=schema(_INFO)),
    Call(
        "DELETE",
        "/v2/user/{user_id}/{provider}",
        deregister,
        "End a connection",
        places={"provider": _SLUGS},
    ),
)
