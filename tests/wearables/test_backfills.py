"""Ranges and streams that events announce are read from the sandbox and stored page by page."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import msgspec
import pytest
from django.db import transaction
from pytest_django import Settings

from backoffice.core import service_client
from backoffice.mirror.models import UnreadRecord
from backoffice.service import Record, Service
from backoffice.service.wearables import SUMMARIES
from backoffice.service.wearables.timeseries import GROUPED, grouped_page
from backoffice.sync.lookups import run_due_lookups
from backoffice.sync.models import Lookup
from patients.wearables import arrivals
from patients.wearables.backfills import LOOKUP_TYPES, BackfillRange, RangeAnswer
from patients.wearables.handlers import handle_backfills, handle_samples, handle_workout_streams
from patients.wearables.models import Source, Summary, WorkoutStream
from tests.api.rows import uid
from tests.sandboxes import Sandbox
from tests.wearables.test_samples import NOON, sample, stored_samples
from tests.wearables.test_summaries import event

pytestmark = pytest.mark.django_db(transaction=True)

DAYS = timedelta(days=3)


@pytest.fixture
def service(sandbox: Sandbox, settings: Settings) -> Iterator[Service]:
    """Make the sandbox the service of the back office. Return a client for the test."""
    settings.SERVICE_BASE_URL = sandbox.url
    service_client.service.cache_clear()
    with sandbox.service() as service:
        yield service
    service_client.service.cache_clear()


@pytest.fixture
def pulls(service: Service) -> list[tuple[UUID, str, str, datetime]]:
    """Return user, provider, resource and end of the range of all successful pulls."""
    return [
        (record.data.user_id, entry.provider, entry.resource, entry.pull.range_end)
        for record in service.users.historical_pulls().records
        for entry in record.data.entries()
        if entry.pull and entry.pull.status == "success" and entry.pull.range_end
    ]


def backfill_event(
    number: int, pull: tuple[UUID, str, str, datetime], days: timedelta = DAYS
) -> Any:
    user, provider, resource, end = pull
    data = {"user_id": str(user), "provider": provider, "start_date": (end - days).isoformat(),
            "end_date": end.isoformat(), "is_final": True}  # fmt: skip
    return event(number, f"historical.data.{resource}.created", data, user)


def pulls_of(pulls: list[tuple[UUID, str, str, datetime]], *names: str) -> list[Any]:
    """Return one pull of each of these resources."""
    return [next(pull for pull in pulls if pull[2] == name) for name in names]


def test_backfill_stores_samples_of_all_pages(
    service: Service, pulls: list[tuple[UUID, str, str, datetime]]
) -> None:
    (pull,) = pulls_of(pulls, "heartrate")
    user, provider, resource, end = pull
    expected: dict[datetime, Any] = {}
    cursor, pages = None, 0
    while pages == 0 or cursor:
        page = service.wearables.samples(resource, user, end - DAYS, end, provider, cursor)
        cursor, pages = page.next_cursor, pages + 1
        for group in page.records:
            assert group.data.source.provider == provider
            expected |= {sample.at: sample.value for sample in group.data.data if sample.at}
    assert pages > 1 and expected
    assert handle_backfills([backfill_event(7, pull)]) == {"msg_7": "looked up"}
    assert run_due_lookups(LOOKUP_TYPES) == pages
    found = stored_samples()
    assert {key[-1]: item["value"] for key, item in found.items()} == expected
    assert {key[:4] for key in found} == {(user, resource, provider, next(iter(found))[3])}
    # Only the first page has left a lookup, and it is not due.
    (row,) = Lookup.objects.filter(kind="backfill")
    assert row.due_at is None and row.error == ""


def test_backfill_does_not_overwrite_later_events(
    service: Service, pulls: list[tuple[UUID, str, str, datetime]]
) -> None:
    (pull,) = pulls_of(pulls, "heartrate")
    user, provider, resource, end = pull
    page = service.wearables.samples(resource, user, end - DAYS, end, provider)
    group = page.records[0].data
    moments = [sample.at for sample in group.data if sample.at][:2]
    source = {"provider": provider, "type": group.source.type}
    for number, moment in ((5, moments[0]), (9, moments[1])):
        body = {"source": source, "data": [{"timestamp": moment.isoformat(), "value": 999}]}
        handle_samples([event(number, f"daily.data.{resource}.updated", body, user)])
    handle_backfills([backfill_event(7, pull)])
    run_due_lookups(LOOKUP_TYPES)
    values = {key[-1]: item["value"] for key, item in stored_samples().items()}
    assert (values[moments[0]] != 999, values[moments[1]] == 999) == (True, True)


def test_every_pulled_resource_can_be_read(
    pulls: list[tuple[UUID, str, str, datetime]],
) -> None:
    resources = sorted({pull[2] for pull in pulls} - {"hypnogram"})
    events = [backfill_event(n, pulls_of(pulls, name)[0]) for n, name in enumerate(resources, 1)]
    handle_backfills(events)
    run_due_lookups(LOOKUP_TYPES)
    errors = Lookup.objects.filter(kind="backfill").exclude(error="")
    assert list(errors.values_list("key", "error")) == []
    assert not UnreadRecord.objects.exists()
    kinds = set(Summary.objects.values_list("resource", flat=True))
    assert kinds and kinds <= set(SUMMARIES)
    assert len({key[1] for key in stored_samples()}) > 3


def test_stream_lookup_stores_stream(
    service: Service, pulls: list[tuple[UUID, str, str, datetime]]
) -> None:
    (pull,) = pulls_of(pulls, "workouts")
    user, provider, _, end = pull
    page = service.wearables.summaries("workouts", user, end - timedelta(days=60), end, provider)
    workout = page.records[0].data.id
    data = {"workout_id": str(workout), "user_id": str(user), "message": "", "provider_id": "x",
            "sport": "", "source": {"provider": provider}}  # fmt: skip
    handle_workout_streams([event(1, "daily.data.workout_stream.created", data, user)])
    assert run_due_lookups(LOOKUP_TYPES) == 1
    stream = WorkoutStream.objects.get()
    remote = service.wearables.workout_stream(workout).data
    assert (stream.pk, stream.user_id) == (workout, user)
    assert stream.time and (stream.time, stream.heartrate) == (remote.time, remote.heartrate)


def test_missing_stream_is_not_looked_up_again(service: Service) -> None:
    unknown_id = UUID(int=5)
    data = {"workout_id": str(unknown_id), "user_id": str(unknown_id), "source": {}}
    handle_workout_streams([event(1, "daily.data.workout_stream.created", data, unknown_id)])
    run_due_lookups(LOOKUP_TYPES)
    assert Lookup.objects.get(kind="workout-stream").due_at is None
    assert not WorkoutStream.objects.exists()


def test_backfill_of_unknown_user_is_not_read_again(
    pulls: list[tuple[UUID, str, str, datetime]],
) -> None:
    (_, provider, resource, end), *_ = pulls_of(pulls, "heartrate")
    handle_backfills([backfill_event(1, (UUID(int=5), provider, resource, end))])
    run_due_lookups(LOOKUP_TYPES)
    assert Lookup.objects.get(kind="backfill").due_at is None
    assert stored_samples() == {}


# Data that cannot be stored


def page_of(groups: list[dict[str, Any]], cursor: str | None = None) -> RangeAnswer:
    body = {"groups": {"band": groups}, "next_cursor": cursor}
    answer = GROUPED.read(msgspec.json.encode(body), datetime.now(UTC))
    assert isinstance(answer, Record)
    requested = BackfillRange(7, uid("patient", 1), "heartrate", "band", NOON, NOON)
    return RangeAnswer(requested, grouped_page(answer))


def store_pages(*pages: RangeAnswer) -> None:
    """Store pages as the lookups do."""
    with transaction.atomic():
        LOOKUP_TYPES[0].store({page.range.key(): page for page in pages})


WATCH = {"provider": "band", "type": "watch"}
LATER = NOON + timedelta(minutes=3)
GOOD = [sample(NOON + timedelta(minutes=n), 60 + n) for n in range(3)]


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        ({"value": 1}, arrivals.NO_TIME),
        (sample(datetime(1969, 7, 1, tzinfo=UTC), 1), arrivals.OUT_OF_RANGE),
        (sample(datetime(2100, 1, 1, tzinfo=UTC), 1), arrivals.OUT_OF_RANGE),
        (sample(NOON, 10**400), "too large"),
    ],
)
def test_backfill_continues_after_bad_sample(bad: dict[str, Any], reason: str) -> None:
    store_pages(page_of([{"source": WATCH, "data": [GOOD[0], bad, *GOOD[1:]]}], "more"))
    assert [item["value"] for item in stored_samples().values()] == [60, 61, 62]
    (unread,) = UnreadRecord.objects.all()
    assert reason in unread.reason
    assert msgspec.json.decode(unread.record) == bad  # the whole sample and nothing of the others
    (following,) = Lookup.objects.filter(kind="backfill")
    assert BackfillRange.from_key(following.key).cursor == "more"


@pytest.mark.parametrize(
    ("changed", "value"),
    [
        (sample(LATER, 1, unit="b\x00"), 1),
        (sample(LATER, 1, type="b\x00"), 1),
        (sample(LATER, "felt\x00fine"), "felt\N{REPLACEMENT CHARACTER}fine"),
        (sample(LATER, {"a": ["\x00"]}), {"a": ["\N{REPLACEMENT CHARACTER}"]}),
    ],
)
def test_null_character_in_sample_is_replaced(changed: dict[str, Any], value: Any) -> None:
    store_pages(page_of([{"source": WATCH, "data": [*GOOD, changed]}]))
    assert [item["value"] for item in stored_samples().values()] == [60, 61, 62, value]
    assert not UnreadRecord.objects.exists()


def test_null_character_in_source_is_replaced() -> None:
    store_pages(page_of([{"source": {**WATCH, "app_id": "a\x00"}, "data": GOOD}]))
    assert len(stored_samples()) == 3 and not UnreadRecord.objects.exists()
    assert Source.objects.get().app_id == "a\N{REPLACEMENT CHARACTER}"


def test_group_with_too_many_months_is_unreadable() -> None:
    data = [sample(datetime(2001 + n // 12, n % 12 + 1, 9, tzinfo=UTC), n) for n in range(40)]
    store_pages(page_of([{"source": WATCH, "data": data}, {"source": WATCH, "data": GOOD}]))
    assert len(stored_samples()) == 3
    assert "40 months" in UnreadRecord.objects.get().reason


def test_unreadable_data_is_stored_per_patient() -> None:
    first = page_of([{"source": WATCH, "data": [{"value": 1}]}])
    requested = msgspec.structs.replace(first.range, user_id=uid("patient", 2))
    store_pages(first, RangeAnswer(requested, first.page))
    assert UnreadRecord.objects.count() == 2
