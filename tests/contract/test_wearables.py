"""Wearable reads against the sandbox, held to the tables of the interface's documents."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest

from backoffice.service import RecordPage, Service, errors
from backoffice.service.users import UserPayload
from backoffice.service.wearables import SUMMARIES, SampleGroup, SamplePayload
from tests.contract.test_orders import NOBODY, one
from tests.sandboxes import Sandbox

COMMON = {"id", "user_id", "created_at", "updated_at", "source"}
SOURCED = {"source_provider", "source_type"}
REQUIRED = {
    "activity": {"date", "calendar_date"},
    "body": {"date", "calendar_date"},
    "electrocardiogram": {"session_start", "session_end", "voltage_sample_count"} | SOURCED,
    "meal": {"priority_id", "source_id", "provider_id", "timestamp", "calendar_date", "name"},
    "menstrual_cycle": {"period_start"} | SOURCED,
    "profile": set[str](),
    "sleep": {"date", "calendar_date", "bedtime_start", "bedtime_stop", "type", "duration"}
    | {"total", "awake", "light", "rem", "deep"},
    "sleep_cycle": {"sleep_id", "session_start", "session_end", "stage_start_offset_second"}
    | {"stage_end_offset_second", "stage_type"}
    | SOURCED,
    "workouts": {"calendar_date", "time_start", "time_end", "provider_id"},
}
DEPRECATED = {
    "meal": {"priority_id", "source_id", "provider_id"},
    "sleep": {"sleep_stream"},
}
POINTS = {
    "blood_oxygen", "blood_pressure", "fat", "weight", "calories_basal", "cholesterol",
    "electrocardiogram_voltage", "floors_climbed", "glucose", "heartrate", "hrv", "ige", "igg",
    "respiratory_rate", "stress_level", "water",
}  # fmt: skip
INTERVALS = {
    "afib_burden", "basal_body_temperature", "body_mass_index", "body_temperature",
    "body_temperature_delta", "caffeine", "calories_active", "carbohydrates",
    "daylight_exposure", "distance", "fall", "forced_expiratory_volume_1",
    "forced_vital_capacity", "handwashing", "heart_rate_alert", "heart_rate_recovery_one_minute",
    "hypnogram", "inhaler_usage", "insulin_injection", "lean_body_mass", "mindfulness_minutes",
    "note", "peak_expiratory_flow_rate", "sleep_apnea_alert", "sleep_breathing_disturbance",
    "stand_duration", "stand_hour", "steps", "uv_exposure", "vo2_max", "waist_circumference",
    "wheelchair_push", "workout_distance", "workout_duration", "workout_swimming_stroke",
}  # fmt: skip
UNITS = {
    "blood_pressure": "mmHg", "heartrate": "bpm", "steps": "count", "weight": "kg",
    "glucose": "mmol/L", "hrv": "rmssd", "distance": "m", "water": "mL", "caffeine": "g",
    "calories_active": "kcal", "calories_basal": "kcal", "electrocardiogram_voltage": "mV",
    "stand_duration": "min", "vo2_max": "mL/kg/min", "insulin_injection": "unit",
}  # fmt: skip
TYPED = {
    "cholesterol", "electrocardiogram_voltage", "heart_rate_alert", "ige", "igg",
    "insulin_injection", "stand_hour",
}  # fmt: skip
MONTH = timedelta(days=30)
BARE = b'{"id":"00000000-0000-0000-0000-000000000000"}'


@pytest.fixture(scope="module")
def now(asked_sandbox: Sandbox) -> datetime:
    return datetime.fromisoformat(asked_sandbox.control("status")["now"])


@pytest.fixture(scope="module")
def people(client: Service) -> list[UserPayload]:
    """Who has a source, those with the most sources first."""
    users = [record.data for record in client.users.list().records]
    connected = [user for user in users if user.connected_sources]
    return sorted(connected, key=lambda user: -len(user.connected_sources))


@pytest.fixture(scope="module")
def supported(client: Service) -> dict[str, set[str]]:
    """Resources by provider."""
    found = client.wearables.providers().records
    return {record.data.slug: set(record.data.supported_resources) for record in found}


def slugs(user: UserPayload) -> set[str]:
    return {source.provider.slug for source in user.connected_sources if source.provider}


@pytest.mark.parametrize("resource", sorted(set(SUMMARIES) - {"profile"}))
def test_wearables_summaries(
    client: Service,
    people: list[UserPayload],
    supported: dict[str, set[str]],
    now: datetime,
    resource: str,
) -> None:
    known = set(SUMMARIES[resource].value(BARE).__struct_encode_fields__)
    known |= DEPRECATED.get(resource, set())
    seen = 0
    for user in people:
        if seen == 5:
            return
        page = client.wearables.summaries(resource, user.user_id, now - 2 * MONTH, now)
        assert page.unreadable == []
        assert len({record.data.id for record in page.records}) == len(page.records)
        for record in page.records:
            sent = json.loads(record.raw)
            assert (COMMON | REQUIRED[resource]) <= sent.keys() <= known
            assert all(sent[name] is not None for name in REQUIRED[resource])
            assert record.data.user_id == user.user_id
            assert record.data.provider in slugs(user)
            assert resource in supported[record.data.provider]
            assert record.data.created_at <= record.data.updated_at
        if page.records:
            seen += 1
            again = client.wearables.summaries(resource, user.user_id, now - 2 * MONTH, now)
            assert {r.data.id for r in again.records} == {r.data.id for r in page.records}
            provider = page.records[0].data.provider
            some = client.wearables.summaries(
                resource, user.user_id, now - 2 * MONTH, now, provider
            )
            assert (
                {r.data.id for r in some.records}
                == {r.data.id for r in page.records if r.data.provider == provider}
                != set()
            )
    assert seen, "nothing to read"


@pytest.mark.parametrize("resource", ["activity", "sleep"])
def test_wearables_summaries_in_a_range(
    client: Service, people: list[UserPayload], now: datetime, resource: str
) -> None:
    """Bare days at both ends are part of the range; two halves make the whole."""
    day = now.date()
    for user in people:

        def found(first: date, last: date | None, of: UUID = user.user_id) -> set[UUID]:
            page = client.wearables.summaries(resource, of, first, last)
            days = {record.data.calendar_date for record in page.records}
            assert all(d and first <= d <= (last or day) + timedelta(days=1) for d in days)
            return {record.data.id for record in page.records}

        whole = found(day - MONTH, day)
        if not whole:
            continue
        middle = day - MONTH / 2
        halves = found(day - MONTH, middle), found(middle + timedelta(days=1), day)
        assert halves[0] | halves[1] == whole and not halves[0] & halves[1]
        assert found(day - MONTH, None) == whole
        return
    pytest.fail("nobody has any")


def test_wearables_sleep_cycles_belong_to_sleeps(
    client: Service, people: list[UserPayload], now: datetime
) -> None:
    checked = 0
    for user in people[:8]:
        cycles = client.wearables.summaries("sleep_cycle", user.user_id, now - MONTH, now)
        sleeps = client.wearables.summaries("sleep", user.user_id, now - 2 * MONTH, now)
        ids = {record.data.id for record in sleeps.records}
        for cycle in (record.data for record in cycles.records):
            starts, ends = cycle.stage_start_offset_second, cycle.stage_end_offset_second
            assert len(starts) == len(ends) == len(cycle.stage_type) > 0
            assert all(start < end for start, end in zip(starts, ends, strict=True))
            length = (cycle.session_end - cycle.session_start).total_seconds()
            assert starts[0] >= 0 and ends[-1] <= length
            assert set(cycle.stage_type) <= {-1, 1, 2, 3, 4, 5}
            assert cycle.sleep_id in ids
            checked += 1
    assert checked


def test_wearables_profile(client: Service, people: list[UserPayload]) -> None:
    found = 0
    for user in people[:20]:
        try:
            profile = client.wearables.profile(user.user_id)
        except errors.Missing:
            continue
        found += 1
        assert profile.data.user_id == user.user_id and profile.data.provider in slugs(user)
        assert json.loads(profile.raw).keys() >= COMMON
        provider = profile.data.provider
        assert client.wearables.profile(user.user_id, provider).data.provider == provider
    assert found


def test_wearables_workout_stream(
    client: Service, people: list[UserPayload], now: datetime
) -> None:
    read = 0
    for user in people[:40]:
        page = client.wearables.summaries("workouts", user.user_id, now - MONTH, now)
        for workout in (record.data for record in page.records[:3]):
            try:
                stream = client.wearables.workout_stream(workout.id).data
            except errors.Missing:
                continue
            assert stream.time is not None and workout.time_start and workout.time_end
            start, end = workout.time_start.timestamp(), workout.time_end.timestamp()
            times = [at for at in stream.time if at is not None]
            assert times == sorted(times) and start <= times[0] <= times[-1] <= end
            for name in stream.__struct_fields__:
                assert len(getattr(stream, name) or []) in (0, len(stream.time)), name
            read += 1
        if read > 5:
            return
    pytest.fail("no stream to read")


def pages(
    client: Service, resource: str, user_id: UUID, first: Any, last: Any, provider: str | None
) -> Iterator[RecordPage[SampleGroup]]:
    cursor: str | None = None
    while True:
        page = client.wearables.samples(resource, user_id, first, last, provider, cursor)
        assert page.unreadable == []
        yield page
        cursor = page.next_cursor
        if cursor is None:
            return


def test_every_timeseries_is_listed() -> None:
    assert len(POINTS | INTERVALS) == 51 and not POINTS & INTERVALS


@pytest.mark.parametrize("resource", sorted(POINTS | INTERVALS))
def test_wearables_samples(
    client: Service,
    people: list[UserPayload],
    supported: dict[str, set[str]],
    now: datetime,
    resource: str,
) -> None:
    """Somebody has samples, each in its documented form, none twice, all within the range."""
    providers = {slug for slug, names in supported.items() if resource in names}
    if resource == "hypnogram":  # reads know it, no provider announces it any more
        providers = set(supported)
    assert providers
    for days in (3, 30, 180):
        for user in [user for user in people if slugs(user) & providers][:8]:
            first, last = now - timedelta(days=days), now
            seen: set[Any] = set()
            for page in pages(client, resource, user.user_id, first, last, None):
                for record in page.records:
                    group = record.data
                    assert group.source.provider in slugs(user) & providers
                    source = str(json.loads(record.raw)["source"])
                    keys = [
                        (source, sample.at, sample.type)
                        for sample in checked(group.data, resource, first, last)
                    ]
                    assert len(set(keys)) == len(keys) and not seen & set(keys)
                    seen |= set(keys)
            if seen:
                return
    pytest.fail("nobody has any")


def checked(
    samples: list[SamplePayload], resource: str, first: datetime, last: datetime
) -> list[SamplePayload]:
    for sample in samples:
        assert sample.at is not None and first <= sample.at <= last
        assert sample.unit and sample.unit == UNITS.get(resource, sample.unit)
        assert (sample.start is not None and sample.end is not None) == (resource in INTERVALS)
        assert sample.start is None or sample.end is None or sample.start <= sample.end
        if resource == "blood_pressure":
            assert sample.systolic and sample.diastolic and sample.value is None
        elif resource == "note":
            assert isinstance(sample.value, str) and sample.number is None
        else:
            assert sample.number is not None
        assert resource not in TYPED or sample.type is not None
    return samples


def test_wearables_samples_page_by_page(
    client: Service, people: list[UserPayload], now: datetime
) -> None:
    """A range that takes several pages holds what its halves hold."""
    for user in people[:20]:

        def found(first: datetime, last: datetime, of: UUID = user.user_id) -> tuple[int, set[Any]]:
            asked = list(pages(client, "heartrate", of, first, last, None))
            samples = [
                (record.data.source.provider, record.data.source.type, sample.at)
                for page in asked
                for record in page.records
                for sample in record.data.data
            ]
            assert len(set(samples)) == len(samples)
            return len(asked), set(samples)

        start, middle = now - timedelta(days=6), now - timedelta(days=3)
        count, whole = found(start, now)
        if count > 1:
            early, late = found(start, middle)[1], found(middle, now)[1]
            assert early | late == whole and len(early & late) <= 2
            return
    pytest.fail("nobody has more than a page")


def test_wearables_samples_of_whole_days(
    client: Service, people: list[UserPayload], now: datetime
) -> None:
    """A bare start is midnight, a bare end the last second of its day."""
    day = now.date() - timedelta(days=2)
    midnight = datetime(day.year, day.month, day.day, tzinfo=UTC)
    for user in people[:20]:

        def found(first: Any, last: Any, of: UUID = user.user_id) -> set[datetime | None]:
            return {
                sample.at
                for page in pages(client, "steps", of, first, last, None)
                for record in page.records
                for sample in record.data.data
            }

        by_day = found(day, day)
        if by_day:
            late = midnight + timedelta(days=1, seconds=-1)
            assert found(midnight, late) == by_day
            assert all(at and midnight <= at <= late + timedelta(seconds=1) for at in by_day)
            return
    pytest.fail("nobody has steps")


def test_wearables_of_nobody_and_of_others(
    client: Service, asked_sandbox: Sandbox, now: datetime
) -> None:
    other = one(
        asked_sandbox,
        "SELECT id FROM sandbox_user WHERE team_id <> '7ea00000-0000-4000-8000-000000000001'"
        " ORDER BY seq LIMIT 1",
    )
    for key in (NOBODY, other):
        for call in (
            lambda k: client.wearables.summaries("activity", k, now - MONTH),
            lambda k: client.wearables.summaries("sleep_cycle", k, now - MONTH),
            lambda k: client.wearables.samples("steps", k, now - MONTH),
            client.wearables.profile,
            client.wearables.workout_stream,
        ):
            with pytest.raises((errors.Missing, errors.Denied)):
                call(key)
