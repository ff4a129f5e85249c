"""Reads of wearable data: summaries, grouped timeseries, streams, devices (wearables.md)."""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Callable, Iterator
from typing import Any

from django.http import HttpResponse

from sandbox import clock
from sandbox.api.calls import ApiRequest, Call, View
from sandbox.api.errors import Refusal, missing
from sandbox.api.paging import make_cursor, read_cursor
from sandbox.api.params import END_OF_DAY, START_OF_DAY, Day, OneOf, Param, Text
from sandbox.api.responses import json_response
from sandbox.api.users import find_user, team_users
from sandbox.models import Connection, World
from sandbox.wearables import devices, streams, summary_ids
from sandbox.wearables.links import Link, links
from sandbox.wearables.resources import DATA_SOURCES, PROVIDERS, RESOURCES
from sandbox.wearables.samples import page
from sandbox.wearables.summaries import summaries
from sandbox.wearables.wearers import millis

PAGE_SAMPLES = 1000

Record = dict[str, Any]


def _links(api_request: ApiRequest) -> list[Link]:
    """The user's connections, of one provider where one is asked for; 404 without the user."""
    found = Connection.objects.filter(user=find_user(api_request))
    if api_request["provider"]:
        found = found.filter(provider_id=api_request["provider"])
    return links(found)


def _instants(api_request: ApiRequest) -> tuple[dt.datetime, dt.datetime, dt.datetime]:
    """Start, end (the present where none is given) and the present."""
    now = clock.now()
    return api_request["start_date"], api_request["end_date"] or now, now


def _found(
    api_request: ApiRequest, kind: str, first: dt.date, last: dt.date
) -> Iterator[tuple[Link, int, Record]]:
    """Summaries of the local days, with where they come from."""
    as_of = millis(clock.now())
    for link in _links(api_request):
        for place, _ in link.offers(kind):
            days = max(1, first.toordinal()), last.toordinal()
            for record in summaries(link, place, kind, *days, as_of):
                yield link, place, record


def _moment_of(kind: str, record: Record) -> dt.datetime:
    """What a range of query A is compared with."""
    match kind:
        case "workouts":
            found = record["time_start"]
        case "meal":
            found = record["timestamp"]
        case _:
            found = dt.datetime.fromisoformat(record["date"])
    assert isinstance(found, dt.datetime)
    return found


def _between(api_request: ApiRequest, kind: str) -> Iterator[tuple[Link, int, Record]]:
    """Summaries from start to end, both included."""
    start, end, _ = _instants(api_request)
    day = dt.timedelta(days=1)
    try:
        first, last = (start - day).date(), (end + day).date()
    except OverflowError:  # the first or the last day there is
        first, last = start.date(), end.date()
    for link, place, record in _found(api_request, kind, first, last):
        if start <= _moment_of(kind, record) <= end:
            yield link, place, record


def _by_moment(kind: str, key: str) -> View:
    """The view of a summary with query A."""

    def view(api_request: ApiRequest) -> HttpResponse:
        return json_response({key: [record for _, _, record in _between(api_request, kind)]})

    return _named(view, f"summary_{kind}")


def _by_day(kind: str) -> View:
    """The view of a summary with query B: dates, the end included."""

    def view(api_request: ApiRequest) -> HttpResponse:
        last = api_request["end_date"] or clock.now().date() + dt.timedelta(days=1)
        records = [
            record for _, _, record in _found(api_request, kind, api_request["start_date"], last)
        ]
        return json_response({kind: records})

    return _named(view, f"summary_{kind}")


def _raw(record: Record, link: Link, place: int, instant: Any) -> Record:
    """A raw record (wearables.md 2): the provider's own payload, untyped."""
    source = record["source"]
    found = {
        "id": record["id"],
        "user_id": record["user_id"],
        "timestamp": instant,
        "data": {"made_up": True, "provider": link.provider},
        "source": {"name": link.name, "slug": link.provider, "logo": source.get("logo", "")},
        "source_device_id": link.device_id(DATA_SOURCES[place]),
        "created_at": record["created_at"],
        "updated_at": record["updated_at"],
    }
    if "sport" in record:
        found |= {"sport": record["sport"], "sport_id": record["sport"]["id"]}
    return found


def _by_moment_raw(kind: str, key: str) -> View:
    def view(api_request: ApiRequest) -> HttpResponse:
        found = [
            _raw(record, link, place, _moment_of(kind, record))
            for link, place, record in _between(api_request, kind)
        ]
        return json_response({key: found})

    return _named(view, f"summary_{kind}_raw")


def _profile(api_request: ApiRequest) -> tuple[Link, int, Record]:
    """The profile of the first provider that has one; 404 without any."""
    today = clock.now().date()
    for found in _found(api_request, "profile", today, today):
        return found
    raise missing("Profile")


def summary_profile(api_request: ApiRequest) -> HttpResponse:
    return json_response(_profile(api_request)[2])


def summary_profile_raw(api_request: ApiRequest) -> HttpResponse:
    link, place, record = _profile(api_request)
    raw = _raw(record, link, place, None)
    raw.pop("timestamp")
    return json_response({"profile": raw})


def summary_devices_raw(api_request: ApiRequest) -> HttpResponse:
    """Devices as their providers describe them."""
    as_of = millis(clock.now())
    found = []
    for link in _links(api_request):
        for place, record in devices.placed(link, as_of):
            shown = {
                **record,
                "source": link.source(DATA_SOURCES[place]),
                "created_at": devices.created(link),
                "updated_at": devices.changed(link, as_of),
            }
            raw = _raw(shown, link, place, None)
            raw.pop("timestamp")
            found.append(raw)
    return json_response({"devices": found})


def _grouped(resource: str) -> View:
    """The view of one grouped timeseries."""

    def view(api_request: ApiRequest) -> HttpResponse:
        start, end, now = _instants(api_request)
        question = {
            "user_id": api_request["user_id"],
            "resource": resource,
            "start": start,
            "end": api_request["end_date"],
            "provider": api_request["provider"],
        }
        after = _position(read_cursor(api_request["next_cursor"], question))
        found, reached = page(
            _links(api_request),
            resource,
            millis(start),
            millis(end),
            millis(now),
            PAGE_SAMPLES,
            after,
        )
        groups: dict[str, list[Record]] = {}
        for group in found:
            groups.setdefault(group.link.provider, []).append(
                {"source": group.source, "data": group.data}
            )
        cursor = None if reached is None else make_cursor(reached, question)
        # `next` is the deprecated name of the same cursor.
        return json_response({"groups": groups, "next": cursor, "next_cursor": cursor})

    return _named(view, f"timeseries_{resource}")


def _position(given: Any) -> tuple[int, int, int] | None:
    if given is None:
        return None
    match given:
        case [int(key), int(place), int(at)]:
            return key, place, at
    raise Refusal(400, "Invalid next_cursor")


def _named(view: View, name: str) -> View:
    view.__name__ = name
    return view


def _summary_of(
    api_request: ApiRequest, value: uuid.UUID, kind: str
) -> tuple[Link, summary_ids.SummaryKey]:
    """Return what a summary id refers to; 404 unless it is of this kind and of a team's user."""
    key = summary_ids.read(World.objects.values_list("seed", flat=True).get(id=1), value)
    if key is not None and key.kind == kind and key.offer < len(DATA_SOURCES):
        users = team_users(api_request.caller.team).filter(seq=key.user)
        provider = DATA_SOURCES[key.offer].provider
        for link in links(Connection.objects.filter(user__in=users, provider_id=provider)):
            return link, key
    raise missing(kind.rstrip("s").capitalize())


def workout_stream(api_request: ApiRequest) -> HttpResponse:
    link, key = _summary_of(api_request, api_request["workout_id"], "workouts")
    found = streams.workout_stream(link, key.offer, key.day, millis(clock.now()))
    if found is None:
        raise missing("Workout stream")
    return json_response(found)


def sleep_stream(api_request: ApiRequest) -> HttpResponse:
    link, key = _summary_of(api_request, api_request["sleep_id"], "sleep")
    found = streams.sleep_stream(link, key.offer, key.day, key.number, millis(clock.now()))
    if found is None:
        raise missing("Sleep stream")
    return json_response(found)


def _devices(api_request: ApiRequest) -> list[Record]:
    as_of = millis(clock.now())
    found = links(Connection.objects.filter(user=find_user(api_request)))
    return [record for link in found for _, record in devices.placed(link, as_of)]


def user_devices(api_request: ApiRequest) -> HttpResponse:
    return json_response(_devices(api_request))


def user_device(api_request: ApiRequest) -> HttpResponse:
    for record in _devices(api_request):
        if record["id"] == str(api_request["device_id"]):
            return json_response(record)
    raise missing("Device")


_PROVIDER = Param("provider", OneOf(("", *PROVIDERS)), "", note="empty: all providers")
_QUERY_A = (
    Param("start_date", START_OF_DAY, required=True),
    Param("end_date", END_OF_DAY, note="the present by default"),
    _PROVIDER,
)
_QUERY_B = (
    Param("start_date", Day(), required=True),
    Param("end_date", Day(), note="included; today by default"),
    _PROVIDER,
)
_QUERY_GROUPED = (*_QUERY_A, Param("next_cursor", Text(), note="null for the first page"))


def _each(
    names: dict[str, str], view: Callable[[str, str], View], tail: str, text: str
) -> Iterator[Call]:
    for kind, key in names.items():
        path = f"/v2/summary/{kind}/{{user_id}}{tail}"
        yield Call("GET", path, view(kind, key), f"{text} of {kind}", query=_QUERY_A)


_KEYS = {kind: kind for kind in ("activity", "body", "sleep", "workouts")}
CALLS = (
    *_each({**_KEYS, "meal": "meals"}, _by_moment, "", "Summaries"),
    *_each(_KEYS, _by_moment_raw, "/raw", "Raw records"),
    *(
        Call(
            "GET",
            f"/v2/summary/{kind}/{{user_id}}",
            _by_day(kind),
            f"Summaries of {kind}",
            query=_QUERY_B,
        )
        for kind in ("sleep_cycle", "menstrual_cycle", "electrocardiogram")
    ),
    Call("GET", "/v2/summary/profile/{user_id}", summary_profile, "Profile", query=(_PROVIDER,)),
    Call(
        "GET",
        "/v2/summary/profile/{user_id}/raw",
        summary_profile_raw,
        "Raw profile",
        query=(_PROVIDER,),
    ),
    Call(
        "GET",
        "/v2/summary/devices/{user_id}/raw",
        summary_devices_raw,
        "Raw devices",
        query=(_PROVIDER,),
    ),
    *(
        Call(
            "GET",
            f"/v2/timeseries/{{user_id}}/{resource}/grouped",
            _grouped(resource),
            f"Samples of {resource} by source",
            query=_QUERY_GROUPED,
        )
        for resource in RESOURCES
    ),
    Call("GET", "/v2/timeseries/workouts/{workout_id}/stream", workout_stream, "Workout stream"),
    Call("GET", "/v2/timeseries/sleep/{sleep_id}/stream", sleep_stream, "Sleep stream"),
    Call("GET", "/v2/user/{user_id}/device", user_devices, "Devices of a user"),
    Call("GET", "/v2/user/{user_id}/device/{device_id}", user_device, "One device of a user"),
)
