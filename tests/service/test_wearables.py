"""Wearable reads: what is asked, and what is made of the answers' odder forms."""

from __future__ import annotations

import json
from datetime import date, datetime, timedelta, timezone
from typing import Any
from uuid import UUID

import pytest

from backoffice.service import Service, errors
from backoffice.service.wearables import READ_NAMES, SUMMARIES
from backoffice.service.wearables.streams import WORKOUT_STREAM

from .faulty import Faulty, says

ID = "11111111-0000-4000-8000-000000000001"
SAMPLE = {"timestamp": "2026-01-01T10:00:00+00:00", "unit": "bpm", "value": 61}
WEST = timezone(timedelta(hours=-5))


def read(resource: str, **fields: Any) -> Any:
    return SUMMARIES[resource].value(json.dumps({"id": ID} | fields).encode())


def test_each_summary_is_read_from_its_path_and_key(service: Service, remote: Faulty) -> None:
    keys = {name: name for name in SUMMARIES if name != "profile"} | {"meal": "meals"}
    for resource, key in keys.items():
        remote.then(says({key: [{"id": ID}, {"id": 7}]}))
        page = service.wearables.summaries(resource, ID, date(2026, 1, 1))
        assert [record.data.id for record in page.records] == [UUID(ID)]
        assert [one.path for one in page.unreadable] == ["$.id"]
        remote.script.clear()
    assert [request.target for request in remote.requests] == [
        f"/v2/summary/{resource}/{ID}?start_date=2026-01-01" for resource in keys
    ]


def test_a_range_in_days_and_in_moments(service: Service, remote: Faulty) -> None:
    remote.then(says({"sleep": [], "sleep_cycle": []}))
    late = datetime(2026, 1, 1, 22, tzinfo=WEST)
    for resource in ("sleep", "sleep_cycle"):
        service.wearables.summaries(resource, ID, late, date(2026, 1, 9), "band-one")
    assert [request.target.partition("?")[2] for request in remote.requests] == [
        "start_date=2026-01-02T03%3A00%3A00Z&end_date=2026-01-09&provider=band-one",
        "start_date=2026-01-02&end_date=2026-01-09&provider=band-one",
    ]


def test_a_profile_is_one_record(service: Service, remote: Faulty) -> None:
    remote.then(says({"id": ID, "height": "183", "birth_date": "1980-01-02T00:00:00"}))
    profile = service.wearables.profile(ID, "band-one").data
    assert (profile.height, profile.birth_date) == (183, date(1980, 1, 2))
    assert remote.requests[0].target == f"/v2/summary/profile/{ID}?provider=band-one"


@pytest.mark.parametrize("resource", ["heartrate", "weight", "fat"])
def test_samples_are_asked_by_the_name_their_events_have(
    service: Service, remote: Faulty, resource: str
) -> None:
    remote.then(says({"groups": {}, "next": None, "next_cursor": None}))
    page = service.wearables.samples(
        resource, ID, date(2026, 1, 1), date(2026, 1, 2), None, "abc=="
    )
    assert (page.records, page.next_cursor) == ([], None)
    name = READ_NAMES.get(resource, resource)
    assert remote.requests[0].target == (
        f"/v2/timeseries/{ID}/{name}/grouped"
        "?start_date=2026-01-01&end_date=2026-01-02&next_cursor=abc%3D%3D"
    )


def test_groups_keep_their_bytes_and_their_provider(service: Service, remote: Faulty) -> None:
    group = {"source": {"type": "watch", "app_id": None}, "data": [SAMPLE, SAMPLE]}
    named = {"source": {"provider": "ring-two", "name": "Ring"}, "data": []}
    remote.then(
        says({"groups": {"band-one": [group], "x": [named]}, "next": "old", "next_cursor": "c2"})
    )
    page = service.wearables.samples("heartrate", ID, date(2026, 1, 1))
    first, second = page.records
    assert (first.data.source.provider, first.data.source.type) == ("band-one", "watch")
    assert [sample.number for sample in first.data.data] == [61, 61]
    assert json.loads(first.raw) == group
    assert second.data.source.provider == "ring-two"
    assert (page.next_cursor, page.unreadable) == ("c2", [])


def test_one_bad_sample_spoils_neither_group_nor_page(service: Service, remote: Faulty) -> None:
    bad = SAMPLE | {"timestamp": "soon"}
    groups = {
        "band-one": [{"source": {"provider": "band-one"}, "data": [SAMPLE, bad, SAMPLE]}],
        "ring-two": [{"source": "CANARY", "data": []}, {"source": {}, "data": [SAMPLE]}],
    }
    remote.then(says({"groups": groups, "next_cursor": ""}))
    page = service.wearables.samples("heartrate", ID, date(2026, 1, 1))
    assert [(one.data.source.provider, len(one.data.data)) for one in page.records] == [
        ("band-one", 2),
        ("ring-two", 0),
        ("ring-two", 1),
    ]
    assert [one.path for one in page.unreadable] == ["$.timestamp"]
    assert [[part.path for part in one.dropped] for one in page.records] == [[], ["$.source"], []]
    assert json.loads(page.unreadable[0].raw) == bad
    assert "CANARY" not in repr(page.unreadable) + page.records[1].dropped[0].reason
    assert page.next_cursor is None


def test_groups_of_one_provider_misshapen_cost_that_provider(
    service: Service, remote: Faulty
) -> None:
    remote.then(says({"groups": {"band-one": {}, "ring-two": [{"data": [SAMPLE]}]}}))
    page = service.wearables.samples("heartrate", ID, date(2026, 1, 1))
    assert [one.data.source.provider for one in page.records] == ["ring-two"]
    assert [one.path for one in page.unreadable] == ["$.groups[...]"]


@pytest.mark.parametrize("answer", [[], {"groups": []}])
def test_groups_of_another_shape_are_malformed(
    service: Service, remote: Faulty, answer: Any
) -> None:
    remote.then(says(answer))
    with pytest.raises(errors.Malformed):
        service.wearables.samples("heartrate", ID, date(2026, 1, 1))


def test_a_stream_with_gaps(service: Service, remote: Faulty) -> None:
    remote.then(says({"time": [1767261600, 1767261601], "heartrate": [None, 99.5], "lat": None}))
    stream = service.wearables.workout_stream(ID).data
    assert (stream.time, stream.heartrate) == ([1767261600, 1767261601], [None, 99.5])
    assert (stream.lat, stream.power) == (None, None)
    assert remote.requests[0].target == f"/v2/timeseries/workouts/{ID}/stream"
    assert WORKOUT_STREAM.value(b"{}").time is None


def test_a_day_comes_in_either_spelling() -> None:
    assert read("activity", date="2026-01-02T00:00:00Z").calendar_date == date(2026, 1, 2)
    both = read("body", date="2026-01-02T00:00:00Z", calendar_date="2026-01-03")
    assert both.calendar_date == date(2026, 1, 3)
    assert read("sleep").calendar_date is None


def test_a_provider_comes_in_three_places() -> None:
    assert read("sleep_cycle", source_provider="a").provider == "a"
    assert read("sleep_cycle", source={"slug": "b"}, source_provider="a").provider == "b"
    assert read("activity", source={"provider": "c", "slug": "b"}).provider == "c"
    assert read("activity", source=None).provider == ""


def test_a_sport_may_be_an_empty_text() -> None:
    assert read("workouts", sport="").sport is None
    running = read("workouts", sport={"id": 3, "name": "Running", "slug": "running"}).sport
    assert running.slug == "running"


@pytest.mark.parametrize("resource", SUMMARIES)
def test_null_everywhere_is_read(resource: str) -> None:
    names = SUMMARIES[resource].value(json.dumps({"id": ID}).encode()).__struct_encode_fields__
    nulls = {name: None for name in names if name != "id"}
    assert read(resource, **nulls).id == UUID(ID)


def test_events_are_asked_for_again(service: Service, remote: Faulty) -> None:
    remote.then(says({"order_ids": [ID]}))
    assert service.orders.resend_events([UUID(ID)]).data.order_ids == [UUID(ID)]
    since = datetime(2026, 1, 1, 22, tzinfo=WEST)
    service.orders.resend_events(start_at=since, end_at=since + timedelta(hours=1))
    assert [json.loads(request.body) for request in remote.requests] == [
        {"order_ids": [ID]},
        {"start_at": "2026-01-01T22:00:00-05:00", "end_at": "2026-01-01T23:00:00-05:00"},
    ]
    (request, _) = remote.requests
    assert (request.method, request.target) == ("POST", "/v3/order/resend_events")
    assert request.headers["content-type"] == "application/json"
    with pytest.raises(ValueError, match="which orders"):
        service.orders.resend_events([])


def test_webhook_addresses_and_their_secret(service: Service, remote: Faulty) -> None:
    hook = {"id": "ep_1", "url": "https://x.invalid", "created_at": "2026-01-01T00:00:00"}
    remote.then(says({"data": [hook], "next_cursor": None}), says(hook), says({"key": "whsec_x"}))
    assert service.management.webhooks(ID, 7, "c").records[0].data.id == "ep_1"
    assert service.management.webhook(ID, "ep_1").data.filter_types is None
    secret = service.management.webhook_secret(ID, "ep_1")
    assert secret.data.key == "whsec_x" and "whsec" not in repr(secret) + repr(secret.data)
    base = f"/v1/org/0d4f7c1e-0000-4000-8000-00000000c11c/team/{ID}/sandbox/webhook"
    assert [request.target for request in remote.requests] == [
        f"{base}?limit=7&next_cursor=c",
        f"{base}/ep_1",
        f"{base}/ep_1/secret",
    ]
    assert {request.headers["x-management-key"] for request in remote.requests} != {""}
