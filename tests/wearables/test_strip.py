"""The strip of device data around the day of a blood draw, in the patient's time zone."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest
from django.test import Client

from backoffice.audit.models import AuditEntry
from patients.wearables.handlers import handle_samples
from patients.wearables.models import HistoricalPull, Summary
from patients.wearables.recency import newest_data_by_provider
from tests.api.rows import envelope, patient, staff, uid
from tests.wearables.test_samples import sample, samples_event

pytestmark = pytest.mark.django_db

WHO = uid("patient", 1)
DRAW = date(2026, 11, 18)
ADDRESS = f"/patients/{WHO}/devices/strip/"


@pytest.fixture(autouse=True)
def patient_in_phoenix(client: Client) -> None:
    client.force_login(staff("front desk"))
    patient(1, fallback_time_zone="America/Phoenix").save()


def summary(n: int, day: date, **values: Any) -> None:
    Summary(id=uid("summary", n), user_id=WHO, number=n, calendar_date=day, provider="band-one",
            **envelope(), **values).save()  # fmt: skip


def get(client: Client, day: date = DRAW) -> Any:
    answer = client.get(ADDRESS, {"day": day.isoformat()})
    assert answer.status_code == 200
    return answer


def test_strip_is_empty_without_devices(client: Client) -> None:
    assert get(client).content == b""


def test_strip_shows_five_days_with_gaps_and_draw_day(client: Client) -> None:
    summary(1, DRAW - timedelta(days=3), resource="sleep", total=22_320)
    summary(2, DRAW - timedelta(days=3), resource="activity", steps=5118)
    # A second device recorded less of the same night.
    summary(3, DRAW - timedelta(days=3), resource="sleep", total=3_600)
    summary(4, DRAW + timedelta(days=1), resource="activity", steps=0)
    summary(5, DRAW - timedelta(days=4), resource="activity", steps=9999)
    answer = get(client)
    days = answer.context["days"]
    assert [one.day for one in days] == [DRAW + timedelta(days=n) for n in range(-3, 2)]
    assert [one.sleep for one in days] == [22_320, None, None, None, None]
    assert [one.steps for one in days] == [5118, None, None, None, 0]
    text = answer.content.decode()
    assert "6 h 12 min" in text and "5,118" in text and "9,999" not in text
    assert text.count("data-gap") == 4 + 3 and text.count('<th scope="col" data-draw>') == 1
    assert "context, not interpretation" in text
    assert AuditEntry.objects.filter(object_type="device data", patient_ids=[WHO]).count() == 1


def test_steps_read_before_end_of_day_are_still_filling(client: Client) -> None:
    summary(1, DRAW, resource="activity", steps=5118)
    end = datetime(2026, 11, 19, 7, tzinfo=UTC)  # midnight in Phoenix
    for read_at, is_filling in ((end - timedelta(seconds=1), True), (end, False)):
        Summary.objects.update(as_of=read_at)
        assert ("still filling" in get(client).content.decode()) is is_filling


def test_glucose_coverage_uses_hours_of_patient_time_zone(client: Client) -> None:
    # In Phoenix, 06:30 and 06:45 UTC are in the last hour of the previous day.
    start = datetime(2026, 11, 18, 6, 30, tzinfo=UTC)
    samples = [sample(start + timedelta(minutes=n), 90.0) for n in (0, 15, 45)]
    handle_samples([samples_event(1, "glucose", samples)])
    days = get(client).context["days"]
    before, draw = days[2], days[3]
    assert (before.covered, len(before.glucose)) == (1, 24) and before.glucose[23]
    assert (draw.covered, len(draw.glucose)) == (1, 24) and draw.glucose[0]
    assert "1 of 24 h" in get(client).content.decode()


def test_strip_shows_silent_connection_and_failing_pull(client: Client) -> None:
    summary(1, DRAW - timedelta(days=12), resource="activity", steps=5)
    HistoricalPull(user_id=WHO, provider="band-one", resource="sleep", status="failure",
                   **envelope()).save()  # fmt: skip
    text = get(client).content.decode()
    assert "Last data" in text and 'data-st="needs-action"' in text
    assert "1 pull failed or retrying" in text and f"user_id={WHO}" in text
    assert "No sleep, steps or glucose data on these days." in text


def test_strip_rejects_invalid_day(client: Client) -> None:
    for wrong in ("yesterday", "1201-01-01", "2026-13-01"):
        assert client.get(ADDRESS, {"day": wrong}).status_code == 400
    assert client.get(ADDRESS).status_code == 200
    client.force_login(staff("viewer"))
    assert client.get(ADDRESS).status_code == 403


def test_newest_data_of_provider_is_sample_or_daily_summary() -> None:
    assert newest_data_by_provider(WHO) == {}
    summary(1, date(2026, 11, 10), resource="activity", steps=5)
    at = datetime(2026, 11, 18, 6, 30, tzinfo=UTC)
    assert newest_data_by_provider(WHO) == {"band-one": datetime(2026, 11, 11, tzinfo=UTC)}
    handle_samples([samples_event(1, "glucose", [sample(at, 90.0)])])
    assert max(newest_data_by_provider(WHO).values()) == at
