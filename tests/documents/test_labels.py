"""Specimen labels: the time of collection on them is known, typed and plausible, or now."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from io import BytesIO
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from django.test import Client
from django.utils import timezone
from pypdf import PdfReader

from backoffice.accounts.models import User
from backoffice.pages.widgets import TO_THE_MINUTE
from orders.documents.collection import CLOCK_CHANGE, EMPTY, FUTURE
from orders.documents.fetching import BEFORE_ORDER, NO_TIME
from orders.models import Appointment, Order, OrderEvent, Result
from tests.documents.conftest import FindOrder
from tests.documents.test_documents import clinician, opened, recorded, text_of
from tests.documents.test_print_jobs import choose, finish, pages_of, prepare

__all__ = ["clinician"]
pytestmark = pytest.mark.django_db

PHOENIX = ZoneInfo("America/Phoenix")


@pytest.fixture
def order(find_order: FindOrder) -> Order:
    """Ordered three days ago, and nothing has happened since."""
    found = find_order("ready")
    Appointment.objects.filter(order_id=found.pk).delete()
    return ordered(found, timezone.now() - timedelta(days=3))


def ordered(order: Order, at: datetime) -> Order:
    Order.objects.filter(pk=order.pk).update(created_at=at)
    return Order.objects.get(pk=order.pk)


def visit(order: Order, at: datetime, **more: Any) -> None:
    Appointment.objects.create(
        pk=order.pk, order_id=order.pk, user_id=order.user_id, as_of=at, start_at=at,
        type="phlebotomy", provider="p", status="confirmed", event_status="scheduled",
        **{"iana_timezone": "America/Phoenix", **more},
    )  # fmt: skip


def drawn(order: Order, at: datetime) -> None:
    OrderEvent.objects.create(
        order_id=order.pk, event_id=10**9, created_at=at, low_level_status="draw_completed",
        status="collecting_sample.at_home_phlebotomy.draw_completed",
    )  # fmt: skip


def typed(at: datetime, zone: ZoneInfo = PHOENIX) -> str:
    return f"?number=2&collected_at={at.astimezone(zone).strftime(TO_THE_MINUTE)}"


def on_label(at: datetime) -> str:
    return f"Collected {at.astimezone(UTC):%Y-%m-%d %H:%M} UTC"


def page_of(client: Client, order: Order) -> str:
    answer = client.get(f"/orders/{order.pk}/documents/")
    return str(answer.content.decode())


def test_typed_time_is_of_the_zone_of_the_draw(clinician: Client, order: Order) -> None:
    User.objects.update(time_zone="America/New_York")
    visit(order, timezone.now() + timedelta(days=1))
    at = timezone.now() - timedelta(hours=30)
    answer = opened(clinician, "labels", order, typed(at))
    assert len(PdfReader(BytesIO(answer.content)).pages) == 2
    assert on_label(at) in text_of(answer)
    assert "MST (America/Phoenix)" in page_of(clinician, order)


def test_zone_that_is_assumed_says_so(clinician: Client, order: Order) -> None:
    visit(order, timezone.now() + timedelta(days=1), iana_timezone=None, state="HI")
    page = page_of(clinician, order)
    assert "HST (Pacific/Honolulu), time zone assumed from the state." in page


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("?number=3&collected_at=1900-01-01T08:00", "before the order was created"),
        ("?number=3&collected_at=2031-01-01T08:00", FUTURE),
        ("?number=3&collected_at=", EMPTY),
        ("?number=&collected_at=", EMPTY),
        ("", EMPTY),
        ("?number=3&collected_at=soon", "Enter a collection date and time"),
        ("?number=3&collected_at=0001-01-01T00:00", "before the order was created"),
        ("?number=3&collected_at=9999-12-31T23:59", FUTURE),
        ("?number=0&now=1", "1 to 30 labels"),
        ("?number=31&now=1", "1 to 30 labels"),
        ("?number=x&now=1", "1 to 30 labels"),
    ],
)
def test_odd_labels_are_refused_and_keep_what_was_typed(
    clinician: Client, order: Order, query: str, words: str
) -> None:
    answer = opened(clinician, "labels", order, query)
    page = answer.content.decode()
    assert answer.status_code == 422 and words in page
    assert recorded("specimen labels") == []
    typed_time = query.partition("collected_at=")[2]
    assert 'name="collected_at"' in page
    if typed_time:
        assert f'value="{typed_time}"' in page


def test_time_before_the_order_is_refused_by_the_minute(clinician: Client, order: Order) -> None:
    visit(order, timezone.now() + timedelta(days=1))
    early = opened(clinician, "labels", order, typed(order.created_at - timedelta(minutes=1)))
    assert early.status_code == 422
    assert opened(clinician, "labels", order, typed(order.created_at)).status_code == 200


def test_hour_that_the_clocks_repeat_is_explained(clinician: Client, order: Order) -> None:
    order = ordered(order, datetime(2025, 10, 1, tzinfo=UTC))
    visit(order, datetime(2025, 11, 1, tzinfo=UTC), iana_timezone="America/New_York")
    answer = opened(clinician, "labels", order, "?collected_at=2025-11-02T01:30")
    assert answer.status_code == 422 and CLOCK_CHANGE in answer.content.decode()


def test_unknown_collection_time_is_empty_and_offers_now(clinician: Client, order: Order) -> None:
    page = page_of(clinician, order)
    assert "No collection time is known." in page and 'name="now"' in page
    field = page.partition('name="collected_at"')[2].partition(">")[0]
    assert "value" not in field
    before = timezone.now()
    text = text_of(opened(clinician, "labels", order, "?number=1&collected_at=&now=1"))
    assert on_label(before) in text or on_label(timezone.now()) in text


def test_known_time_is_filled_in_the_best_first(clinician: Client, order: Order) -> None:
    booked, completed, reported = (
        timezone.now() - timedelta(hours=hours) for hours in (40, 39, 38)
    )

    def is_filled_in(at: datetime, source: str) -> None:
        page = page_of(clinician, order)
        assert (
            f'value="{at.astimezone(PHOENIX).strftime(TO_THE_MINUTE)}"' in page and source in page
        )
        assert on_label(at) in text_of(opened(clinician, "labels", order))

    visit(order, booked)
    is_filled_in(booked, "Time of the visit.")
    drawn(order, completed)
    is_filled_in(completed, "Time of the completed draw.")
    Result.objects.create(order_id=order.pk, as_of=reported, date_collected=reported.isoformat())
    is_filled_in(reported, "Time in the lab’s report.")


def test_labels_for_a_booked_visit_carry_its_time(clinician: Client, order: Order) -> None:
    at = timezone.now() + timedelta(days=1)
    visit(order, at)
    assert on_label(at) in text_of(opened(clinician, "labels", order, typed(at)))
    later = opened(clinician, "labels", order, typed(at + timedelta(hours=1)))
    assert later.status_code == 422
    Appointment.objects.update(status="cancelled")
    assert opened(clinician, "labels", order, typed(at)).status_code == 422


def test_labels_of_many_orders_carry_their_known_times(
    clinician: Client, order: Order, find_order: FindOrder
) -> None:
    other = ordered(find_order("ready", number=1), timezone.now() - timedelta(days=3))
    Appointment.objects.filter(order_id=other.pk).delete()
    at = timezone.now() - timedelta(hours=20)
    visit(order, at)
    page = choose(clinician, [order, other]).content.decode()
    assert "1 of 2 orders has no collection time" in page
    job = finish(prepare(clinician, [order, other], "labels", labels="1"))
    assert (job.done, job.failed) == (1, 1)
    assert on_label(at) in pages_of(clinician, job)[0]
    page = clinician.get(f"/orders/documents/{job.pk}/").content.decode()
    assert NO_TIME in page


def test_time_for_all_is_used_where_none_is_known(
    clinician: Client, order: Order, find_order: FindOrder
) -> None:
    User.objects.update(time_zone="America/New_York")
    other = ordered(find_order("ready", number=1), timezone.now() - timedelta(days=3))
    young = ordered(find_order("ready", number=2), timezone.now() - timedelta(hours=2))
    Appointment.objects.all().delete()
    booked, given = timezone.now() - timedelta(hours=20), timezone.now() - timedelta(hours=5)
    visit(order, booked)
    sent = given.astimezone(ZoneInfo("America/New_York")).strftime(TO_THE_MINUTE)
    job = finish(prepare(clinician, [order, other, young], "labels", labels="1", collected_at=sent))
    assert (job.done, job.failed) == (2, 1)
    first, second = pages_of(clinician, job)
    assert on_label(booked) in first and on_label(given) in second
    page = clinician.get(f"/orders/documents/{job.pk}/").content.decode()
    assert BEFORE_ORDER in page


@pytest.mark.parametrize(
    ("sent", "words"),
    [("1900-01-01T08:00", "before the order was created"), ("2031-01-01T08:00", FUTURE)],
)
def test_odd_time_for_all_is_refused_and_remains(
    clinician: Client, order: Order, sent: str, words: str
) -> None:
    answer = choose(clinician, [order], go="1", kinds=["labels"], collected_at=sent)
    page = answer.content.decode()
    assert answer.status_code == 422 and words in page and f'value="{sent}"' in page


@pytest.mark.parametrize("zone", ["America/Phoenix", "PST8PDT", None])
def test_order_page_offers_labels(clinician: Client, order: Order, zone: str | None) -> None:
    visit(order, timezone.now() + timedelta(days=1), iana_timezone=zone)
    page = clinician.get(f"/orders/{order.pk}/")
    assert page.status_code == 200 and 'name="collected_at"' in page.content.decode()
