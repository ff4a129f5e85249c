"""Samples: the latest received sample of a key is stored, in any order, batches and repeats.

The oracle is a dict with one entry per key of the specification: the sample of the event with the
highest number.
"""

from __future__ import annotations

import dataclasses
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any
from uuid import UUID

import msgspec
import pytest
from django.db import connection, connections, transaction
from hypothesis import HealthCheck, given
from hypothesis import settings as examples
from hypothesis import strategies as st
from pytest_django import Settings

from backoffice.service.events import ReceivedEvent
from backoffice.service.wearables import SamplePayload
from patients.wearables import arrivals, chunks, partitions, sample_writer
from patients.wearables.arrivals import SampleBatch, SampleSource
from patients.wearables.handlers import handle_samples
from patients.wearables.models import Chunk, Series, Source
from patients.wearables.sample_reader import COLUMNS, decode_samples
from tests.api.rows import uid

NOON = datetime(2026, 3, 29, 12, tzinfo=UTC)
BY_TYPE = ("cholesterol", "ige", "igg", "heart_rate_alert")
Key = tuple[UUID, str, str, str, str, datetime]
Item = dict[str, Any]


def samples_event(
    number: int, resource: str, data: list[Item], who: int = 1, **source: Any
) -> ReceivedEvent:
    """Return an event as the inbox passes it to handlers."""
    body = {"source": {"provider": "band", "type": "watch", **source}, "data": data}
    return ReceivedEvent(
        number, f"msg_{number}", f"daily.data.{resource}.updated", NOON, None,
        uid("patient", who), None, msgspec.json.encode(body),
    )  # fmt: skip


def sample(at: datetime, value: Any, **more: Any) -> Item:
    return {"timestamp": at.isoformat(), "timezone_offset": -25200, "type": None, "unit": "bpm",
            "value": value, **more}  # fmt: skip


def stored_samples() -> dict[Key, Item]:
    """Return every stored sample by key."""
    found: dict[Key, Item] = {}
    series = {one.pk: one for one in Series.objects.all()}
    sources = {one.pk: one for one in Source.objects.all()}
    for row in Chunk.objects.values(*COLUMNS, "first_at", "last_at"):
        owner = series[row["series_id"]]
        assert owner.user_id
        items = list(decode_samples(owner, row))
        times = [item["timestamp"] for item in items]
        assert times == sorted(set(times)) and items
        midnight = datetime.combine(row["day"], datetime.min.time(), UTC)
        ends = (midnight + timedelta(microseconds=row[name]) for name in ("first_at", "last_at"))
        assert tuple(ends) == (times[0], times[-1])
        for item in items:
            source = sources[item.pop("source")]
            assert (source.provider, source.type) == (owner.provider, owner.source_type)
            item |= {"app_id": source.app_id, "device_id": source.device_id}
            key = (owner.user_id, owner.resource, owner.provider, owner.source_type, owner.kind,
                   item.pop("timestamp"))  # fmt: skip
            assert key not in found
            found[key] = item
    return found


def latest_samples(events: list[ReceivedEvent]) -> dict[Key, Item]:
    """Return what must be stored, computed from the event bodies alone (the oracle)."""
    newest: dict[Key, Item] = {}
    for event in sorted(events, key=lambda event: event.number):
        body = msgspec.json.decode(event.data)
        source = body["source"]
        resource = event.event_type.split(".")[2]
        for one in body["data"]:
            at = datetime.fromisoformat(one["timestamp"]).astimezone(UTC)
            kind = (one["type"] or "") if resource in BY_TYPE else ""
            assert event.user_id
            key = (event.user_id, resource, source.get("provider") or source["slug"],
                   source.get("type") or "unknown", kind, at)  # fmt: skip
            item = {name: one.get(name) for name in ("timezone_offset", "type", "unit", "value")}
            item["number"] = event.number
            item["app_id"] = source.get("app_id") or ""
            item["device_id"] = source.get("device_id") or ""
            if resource == "blood_pressure":
                item |= {"systolic": one["systolic"], "diastolic": one["diastolic"]}
            if one.get("end"):
                item["start"] = at
                item["end"] = datetime.fromisoformat(one["end"])
            newest[key] = item
    return newest


def batches_of(events: list[ReceivedEvent], rng: Random) -> Iterator[list[ReceivedEvent]]:
    """Yield the events in batches as a worker does, in order of receipt inside each batch."""
    remaining = list(events)
    while remaining:
        size = rng.randint(1, 4)
        yield sorted(remaining[:size], key=lambda event: event.number)
        remaining = remaining[size:]


# Device data from small ranges, so that keys collide

_MOMENTS = st.builds(
    lambda day, minute, micro: NOON + timedelta(days=day, minutes=minute, microseconds=micro),
    st.integers(0, 1),
    st.integers(0, 12) | st.integers(715, 725),
    st.sampled_from([0, 0, 0, 0, 0, 1, 500_000]),
)
_VALUES = (
    st.integers(40, 200)
    | st.decimals(0, 30, places=2).map(float)
    | st.floats(-1e300, 1e300)
    | st.integers(-(2**40), 2**40)
    | st.sampled_from([0.1, 1e-9, 2**31, -(2**31), 123456.654321])
)


@st.composite
def _samples(draw: st.DrawFn, resource: str) -> Item:
    at: datetime = draw(_MOMENTS)
    one = sample(
        at,
        draw(_VALUES),
        timezone_offset=draw(st.sampled_from([-25200, -25200, -25200, None, 3600])),
        unit=draw(st.sampled_from(["bpm", "bpm", "bpm", "1/min"])),
        type=draw(st.sampled_from([None, None, "automatic"])),
    )
    if resource == "steps":
        length = draw(st.sampled_from([60, 60, 60, 61]))
        one |= {"start": one["timestamp"], "end": (at + timedelta(seconds=length)).isoformat()}
    elif resource == "blood_pressure":
        one |= {"value": None, "systolic": 120.0, "diastolic": draw(st.sampled_from([80.0, 81.5]))}
    elif resource == "note":
        one["value"] = draw(st.sampled_from(["felt fine", "ran", ""]))
    elif resource == "cholesterol":
        one["type"] = draw(st.sampled_from(["cholesterol/ldl", "cholesterol/hdl"]))
    return one


@st.composite
def _events(draw: st.DrawFn) -> list[ReceivedEvent]:
    count = draw(st.integers(1, 6))
    # Numbers may exceed four bytes.
    number = draw(st.sampled_from([0, 0, 2**31 - 3, 2**32 - 3]))
    many = st.integers(1, 6)
    events = []
    for _ in range(count):
        resource = draw(
            st.sampled_from(
                ["heartrate", "heartrate", "steps", "blood_pressure", "note", "cholesterol"]
            )
        )
        source: dict[str, Any] = draw(
            st.sampled_from(
                [{}, {}, {"app_id": "com.example.app"}, {"provider": None, "slug": "band"},
                 {"type": None}]
            )
        )  # fmt: skip
        plain = draw(st.booleans())
        if plain:  # Ordinary samples in sequence, so that appending and merging happen, too.
            begin, size = draw(_MOMENTS), draw(st.integers(1, 100))
            data = [sample(begin + timedelta(minutes=i), 60 + i) for i in range(size)]
            resource = "heartrate"
        else:
            data = [draw(_samples(resource)) for _ in range(draw(many))]
        number += 1
        events.append(samples_event(number, resource, data, **source))
    return events


@pytest.mark.django_db
@examples(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(_events(), st.randoms(use_true_random=False))
def test_last_received_sample_wins(events: list[ReceivedEvent], rng: Random) -> None:
    shuffled = events + rng.sample(events, len(events) // 2)  # some are replayed
    rng.shuffle(shuffled)
    with transaction.atomic():
        for batch in batches_of(shuffled, rng):
            handle_samples(batch)
        assert stored_samples() == latest_samples(events)
        transaction.set_rollback(True)


_FIELD_VALUES: dict[str, list[Any]] = {
    "timezone_offset": [-25200, 3600, None],
    "unit": ["bpm", "1/min"],
    "type": [None, "automatic"],
    "value": [60, 61.5, 0.333, 1e12],
    "length": [None, 60, 61],
    "app_id": [None, "com.example.app"],
    "micro": [0, 250_000],
}


@pytest.mark.django_db
@pytest.mark.parametrize("field", _FIELD_VALUES)
@pytest.mark.parametrize("default_index", [0, 1])
def test_sample_that_differs_from_day_defaults_is_preserved(field: str, default_index: int) -> None:
    """Values that most samples share are stored once. A sample that differs, in the middle of a
    day that grows sample by sample, must keep its own values."""
    for other in _FIELD_VALUES[field]:
        events = []
        for n in range(30):
            values = {name: choices[0] for name, choices in _FIELD_VALUES.items()}
            values[field] = _FIELD_VALUES[field][default_index] if n % 10 else other
            at = NOON + timedelta(minutes=n, microseconds=values.pop("micro"))
            length, app = values.pop("length"), values.pop("app_id")
            interval = {}
            if length:
                interval = {"start": at.isoformat(),
                        "end": (at + timedelta(seconds=length)).isoformat()}  # fmt: skip
            one = sample(at, values.pop("value"), **values, **interval)
            events.append(samples_event(n + 1, "heartrate", [one], app_id=app))
        with transaction.atomic():
            for event in events:
                handle_samples([event])
            assert stored_samples() == latest_samples(events)
            transaction.set_rollback(True)


@pytest.mark.django_db
def test_correction_replaces_extras() -> None:
    unusual = sample(NOON, 60, unit="1/min", type="automatic")
    plain = sample(NOON + timedelta(minutes=1), 60)
    events = [
        samples_event(1, "heartrate", [plain, unusual]),
        samples_event(2, "heartrate", [sample(NOON, 61)]),
    ]
    for event in events:
        handle_samples([event])
    assert stored_samples() == latest_samples(events)
    assert Chunk.objects.get().extras is None


@pytest.mark.django_db
def test_later_read_of_a_range_updates_samples() -> None:
    """A read has the receipt number of its event. Of two reads, the later one wins."""
    for value in (60, 61):
        sample_writer.store([
            SampleBatch(uid("patient", 1), "heartrate", SampleSource("band", "watch"), 5,
                    [SamplePayload(timestamp=NOON, unit="bpm", value=value)])
        ])  # fmt: skip
    assert [item["value"] for item in stored_samples().values()] == [61]


@pytest.mark.django_db
def test_day_of_appended_samples_is_one_row() -> None:
    """Samples are appended and merged into the long arrays, and remain one row."""
    events = [
        samples_event(n + 1, "heartrate", [sample(NOON + timedelta(minutes=n), 60 + n % 7)])
        for n in range(700)
    ]
    for begin in range(0, 700, 10):
        handle_samples(events[begin : begin + 10])
    assert stored_samples() == latest_samples(events)
    row = Chunk.objects.get()
    assert len(row.seconds) > 600 and 0 < len(row.tail_seconds or ()) <= sample_writer.MAX_TAIL


@pytest.mark.django_db
def test_default_values_use_no_column() -> None:
    handle_samples(
        [samples_event(5, "heartrate", [sample(NOON + timedelta(minutes=n), 60) for n in (1, 2)])]
    )
    row = Chunk.objects.get()
    assert (row.zone, row.number, row.divisor, row.scaled) == (-25200, 5, 1, [60, 60])
    for name in ("micros", "wide", "numbers", "zones", "lengths", "sources", "extras"):
        assert getattr(row, name) is None, name


@pytest.mark.django_db
def test_repeated_event_writes_nothing() -> None:
    events = [samples_event(n, "steps", [sample(NOON, n), sample(NOON + timedelta(days=40), n)])
              for n in (1, 2)]  # fmt: skip
    handle_samples(events)

    def versions() -> Any:
        with connection.cursor() as cursor:
            cursor.execute("SELECT tableoid, ctid::text FROM wearables_chunk ORDER BY 1, 2")
            return cursor.fetchall()

    before = versions()
    handle_samples(events)
    handle_samples(events[:1])
    assert versions() == before
    assert {item["value"] for item in stored_samples().values()} == {2}


def _at(moment: str) -> Item:
    return {"data": [{"timestamp": moment, "value": 1}]}


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("data", "reason"),
    [
        ({"data": [{"value": 1, "unit": "bpm"}]}, arrivals.NO_TIME),
        (_at("0001-01-01T00:00:00+00:00"), arrivals.OUT_OF_RANGE),
        (_at("1999-12-31T23:59:59+00:00"), arrivals.OUT_OF_RANGE),
        (_at((datetime.now(UTC) + timedelta(days=4)).isoformat()), arrivals.OUT_OF_RANGE),
        (_at("9999-12-31T00:00:00+00:00"), arrivals.OUT_OF_RANGE),
        (_at("yesterday"), "RFC3339"),
        ({"data": {}}, "Expected `array`, got `object`"),
        ({"data": [7]}, "Expected `object`"),
    ],
)
def test_batch_with_bad_sample_is_refused(data: Any, reason: str) -> None:
    event = samples_event(1, "heartrate", [])
    body = {"source": {"provider": "band"}, **data}
    bad = dataclasses.replace(event, data=msgspec.json.encode(body))
    with pytest.raises(ValueError, match=reason):
        handle_samples([bad])
    assert not Chunk.objects.exists()


@pytest.mark.django_db
def test_event_without_samples_is_accepted() -> None:
    handle_samples([samples_event(1, "heartrate", [])])
    assert stored_samples() == {}


@pytest.mark.django_db
def test_samples_at_time_limits_are_stored() -> None:
    first, last = datetime(2000, 1, 1, tzinfo=UTC), datetime.now(UTC) + timedelta(days=1)
    handle_samples([samples_event(1, "heartrate", [sample(first, 1), sample(last, 2)])])
    assert len(stored_samples()) == 2


@pytest.mark.django_db
def test_event_cannot_create_many_partitions() -> None:
    def months(count: int, first: int) -> list[Item]:
        return [sample(datetime(first + n // 12, n % 12 + 1, 9, tzinfo=UTC), n)
                for n in range(count)]  # fmt: skip

    with connection.cursor() as cursor:
        before = partitions.existing(cursor)
        with pytest.raises(ValueError, match="samples of 37 months"):
            handle_samples([samples_event(1, "weight", months(37, 2001))])
        assert partitions.existing(cursor) == before
        handle_samples([samples_event(1, "weight", months(36, 2001))])
        # only four of these months are new
        handle_samples([samples_event(2, "weight", months(40, 2001))])
        assert len(partitions.existing(cursor) - before) == 40


@pytest.mark.django_db(transaction=True)
def test_concurrent_partition_creation_does_not_deadlock() -> None:
    """One transaction has attached a month and needs another that a second one is attaching."""
    first, second = datetime(2002, 1, 1).date(), datetime(2002, 2, 1).date()
    failed: list[BaseException] = []

    def create_partition() -> None:
        try:
            with transaction.atomic(), connection.cursor() as cursor:
                partitions.ensure(cursor, [second])
        except BaseException as error:
            failed.append(error)
        finally:
            connections["default"].close()

    thread = threading.Thread(target=create_partition)
    with transaction.atomic(), connection.cursor() as cursor:
        partitions.ensure(cursor, [first])
        thread.start()
        for _ in range(500):
            cursor.execute("SELECT 1 FROM pg_locks WHERE NOT granted")
            if cursor.fetchone():
                break
            time.sleep(0.01)
        else:
            pytest.fail("the other transaction does not wait")
        partitions.ensure(cursor, [second])
    thread.join()
    assert not failed
    with connection.cursor() as cursor:
        assert {first, second} <= partitions.existing(cursor)
        for month in (first, second):
            cursor.execute(f'DROP TABLE "{partitions.table_name(month)}"')


@pytest.mark.django_db
def test_setting_chooses_resources_keyed_by_type(settings: Settings) -> None:
    readings = [
        sample(NOON, n, type=f"cholesterol/{kind}") for n, kind in enumerate(["ldl", "hdl"])
    ]
    handle_samples([samples_event(1, "cholesterol", readings)])
    assert len(stored_samples()) == 2
    settings.SAMPLES_KEYED_BY_TYPE = frozenset()
    handle_samples([samples_event(2, "cholesterol", readings, who=2)])
    assert len(stored_samples()) == 3


@pytest.mark.django_db(transaction=True)
def test_concurrent_workers_on_one_chunk_lose_nothing() -> None:
    """Two connections apply batches with the same rows at once, in opposite order."""
    rng = Random(11)
    events = [
        samples_event(
            n,
            rng.choice(["heartrate", "steps", "hrv"]),
            [sample(NOON + timedelta(minutes=rng.randint(0, 900)), n) for _ in range(5)],
            who=rng.randint(1, 3),
        )
        for n in range(1, 301)
    ]
    batches = [events[begin : begin + 20] for begin in range(0, 300, 20)]
    failed: list[BaseException] = []
    start = threading.Barrier(2)

    def apply_batches(batches_of_thread: list[list[ReceivedEvent]]) -> None:
        try:
            start.wait()
            for batch in batches_of_thread:
                with transaction.atomic():
                    handle_samples(batch)
        except BaseException as error:
            failed.append(error)
        finally:
            connections["default"].close()

    threads = [
        threading.Thread(target=apply_batches, args=[batches_of_thread])
        for batches_of_thread in (batches[::2], batches[::-1])
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed
    assert stored_samples() == latest_samples(events)


@pytest.mark.django_db
def test_partitions_before_limit_are_dropped() -> None:
    handle_samples(
        [samples_event(1, "weight", [sample(NOON + timedelta(days=31 * n), 70) for n in range(4)])]
    )
    assert Chunk.objects.count() == 4
    dropped = partitions.drop_before(datetime(2026, 5, 1).date())
    assert [f"{month:%Y-%m}" for month in dropped] == ["2026-03", "2026-04"]
    assert sorted(Chunk.objects.values_list("day__month", flat=True)) == [5, 6]


@pytest.mark.django_db
def test_setting_limits_how_long_partitions_are_kept(settings: Settings) -> None:
    now = datetime.now(UTC)
    handle_samples(
        [samples_event(1, "weight", [sample(now - timedelta(days=31 * n), n) for n in range(9)])]
    )
    assert partitions.drop_old() == [] and Chunk.objects.count() == 9
    settings.SAMPLES_KEEP_MONTHS = 3
    dropped = partitions.drop_old()
    oldest = partitions.months_before(now.date().replace(day=1), 3)
    assert dropped and all(month < oldest for month in dropped)
    assert all(chunk.day >= oldest for chunk in Chunk.objects.all())
    assert {0, 1, 2} <= {item["value"] for item in stored_samples().values()}
    assert partitions.drop_old() == []


@given(st.lists(st.none() | st.floats(allow_nan=False, allow_infinity=False) | _VALUES))
def test_scaled_values_decode_unchanged(values: list[float | None]) -> None:
    divisor, scaled, wide = chunks.scaled(values)
    found = wide if scaled is None else [None if v is None else v / divisor for v in scaled]
    assert found == values
