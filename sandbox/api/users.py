"""Users, demographics and connections (users.md 1-3, 7)."""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from typing import Any

from django.db.models import Prefetch, Q, QuerySet
from django.http import HttpResponse

from sandbox import specification_forms
from sandbox.api.calls import ANY_TEXT, ApiRequest, Call
from sandbox.api.errors import missing
from sandbox.api.params import Param, Text, Whole
from sandbox.api.responses import json_response
from sandbox.models import Connection, Provider, User, UserInfo

_SEARCH_ROWS = 100


def team_users(team: uuid.UUID) -> QuerySet[User]:
    """Users the team can see; deleted ones are gone."""
    return User.objects.filter(team_id=team, deleted_at__isnull=True)


def find_user(api_request: ApiRequest) -> User:
    """The user named in the path; 404 when unknown, deleted or of another team."""
    user = team_users(api_request.caller.team).filter(pk=api_request["user_id"]).first()
    if user is None:
        raise missing("User")
    return user


def _with_sources(users: QuerySet[User]) -> QuerySet[User]:
    connections = Connection.objects.select_related("provider").order_by("created_on", "id")
    return users.prefetch_related(Prefetch("connections", connections))


def provider_record(provider: Provider) -> dict[str, Any]:
    """Provider as it appears beside a connection: name, slug, logo."""
    return {"name": provider.name, "slug": provider.slug, "logo": provider.logo or ""}


def _fallback(key: str, value: object, updated_at: object) -> dict[str, Any] | None:
    if value is None:
        return None
    return {key: value, "source_slug": "manual", "updated_at": updated_at}


def user_record(user: User) -> dict[str, Any]:
    """User (specification; users.md 2): `source` is deprecated beside `provider`."""
    return specification_forms.user(
        {
            "user_id": user.pk,
            "team_id": user.team_id,
            "client_user_id": user.client_user_id,
            "created_on": user.created_on,
            "connected_sources": [
                {
                    "provider": provider_record(connection.provider),
                    "created_on": connection.created_on,
                    "source": provider_record(connection.provider),
                }
                for connection in user.connections.all()
            ],
            "fallback_time_zone": _fallback(
                "id", user.fallback_time_zone, user.fallback_time_zone_updated_at
            ),
            "fallback_birth_date": _fallback(
                "value", user.fallback_birth_date, user.fallback_birth_date_updated_at
            ),
            "ingestion_start": user.ingestion_start,
            "ingestion_end": user.ingestion_end,
        }
    )


def _records(users: Iterable[User]) -> list[dict[str, Any]]:
    return [user_record(user) for user in users]


def list_users(api_request: ApiRequest) -> HttpResponse:
    """Users oldest first, `limit` of them from `offset` on."""
    everyone = team_users(api_request.caller.team)
    offset, limit = api_request["offset"], api_request["limit"]
    # The index alone walks past the offset; rows are read for the page only.
    places = list(everyone.order_by("seq").values_list("seq", flat=True)[offset : offset + limit])
    users = _with_sources(everyone.filter(seq__in=places).order_by("seq"))
    return json_response(
        {"users": _records(users), "total": everyone.count(), "offset": offset, "limit": limit}
    )


def one_user(api_request: ApiRequest, **wanted: Any) -> HttpResponse:
    """The user with these values."""
    found = _with_sources(team_users(api_request.caller.team).filter(**wanted)).first()
    if found is None:
        raise missing("User")
    return json_response(user_record(found))


def get_user(api_request: ApiRequest) -> HttpResponse:
    return one_user(api_request, pk=api_request["user_id"])


def resolve_user(api_request: ApiRequest) -> HttpResponse:
    """The user with the team's own reference."""
    return one_user(api_request, client_user_id=api_request["client_user_id"])


def search_users(api_request: ApiRequest) -> HttpResponse:
    """Users whose id or own reference contains the text, at most a hundred."""
    text = api_request["query_id"]
    match = Q(client_user_id__icontains=text)
    try:
        match |= Q(pk=uuid.UUID(text))
    except ValueError:
        match |= Q(pk__icontains=text)
    found = team_users(api_request.caller.team).filter(match).order_by("seq")[:_SEARCH_ROWS]
    return json_response(_records(_with_sources(found)))


def info_record(info: UserInfo) -> dict[str, Any]:
    """User information (specification; users.md 3)."""
    return specification_forms.info(
        {
            "first_name": info.first_name,
            "last_name": info.last_name,
            "email": info.email,
            "phone_number": info.phone_number,
            "gender": info.gender,
            "dob": info.dob,
            "address": {
                "first_line": info.first_line,
                "second_line": info.second_line,
                "country": info.country,
                "zip": info.zip,
                "city": info.city,
                "state": info.state,
                "access_notes": info.access_notes,
            },
            "medical_proxy": info.medical_proxy,
            "race": info.race,
            "ethnicity": info.ethnicity,
            "sexual_orientation": info.sexual_orientation,
            "gender_identity": info.gender_identity,
        }
    )


def latest_info(api_request: ApiRequest) -> HttpResponse:
    info = UserInfo.objects.filter(user=find_user(api_request)).first()
    if info is None:
        raise missing("User information")
    return json_response(info_record(info))


def connection_record(connection: Connection) -> dict[str, Any]:
    """Connection (users.md 7); `error_details` only while in error."""
    error = None
    if connection.status == "error":
        error = {
            "error_type": connection.error_type,
            "error_message": connection.error_message or "",
            "errored_at": connection.errored_at,
        }
    return {
        **provider_record(connection.provider),
        "created_on": connection.created_on,
        "status": connection.status,
        "external_user_id": connection.external_user_id,
        "error_details": error,
        "resource_availability": connection.resource_availability,
    }


def user_providers(api_request: ApiRequest) -> HttpResponse:
    connections = (
        Connection.objects.filter(user=find_user(api_request))
        .select_related("provider")
        .order_by("created_on", "id")
    )
    return json_response({"providers": [connection_record(found) for found in connections]})


def list_providers(api_request: ApiRequest) -> HttpResponse:
    """Wearable and device providers (wearables.md 6), by slug."""
    providers = Provider.objects.order_by("slug")
    if api_request["source_type"] is not None:
        providers = providers.filter(source_type=api_request["source_type"])
    return json_response(
        [
            {
                "name": provider.name,
                "slug": provider.slug,
                "description": provider.description,
                "logo": provider.logo,
                "auth_type": provider.auth_type,
                "supported_resources": provider.supported_resources,
            }
            for provider in providers
        ]
    )


CALLS = (
    Call(
        "GET",
        "/v2/user",
        list_users,
        "Users of the team",
        query=(Param("offset", Whole(ge=0), 0), Param("limit", Whole(ge=1, le=500), 100)),
    ),
    Call("GET", "/v2/user/{user_id}", get_user, "One user"),
    Call(
        "GET",
        "/v2/user/resolve/{client_user_id}",
        resolve_user,
        "One user by the team's own reference",
        places={"client_user_id": ANY_TEXT},
    ),
    Call(
        "GET",
        "/v2/team/users/search",
        search_users,
        "Users by part of an id",
        query=(Param("query_id", Text(min_length=2), required=True),),
    ),
    Call("GET", "/v2/user/{user_id}/info/latest", latest_info, "User information"),
    Call("GET", "/v2/user/providers/{user_id}", user_providers, "Connections of a user"),
    Call(
        "GET",
        "/v2/providers",
        list_providers,
        "Wearable and device providers",
        query=(Param("source_type", Text()),),
    ),
)
