"""The list of offered times: draws, clocks, centers and patients, before a visit is booked."""

from __future__ import annotations

import re
import time
import uuid
from datetime import UTC, date, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import msgspec
import pytest
from django.urls import reverse
from django.utils import timezone

from backoffice.accounts.models import User
from backoffice.outbox.models import CommandRecord
from backoffice.service.appointments import Availability
from orders.booking.sites import sort_groups
from orders.rules.slots import OfferedTime, SiteTimes, TimeFilters, build_time_list
from tests.outbox.draw_orders import order_awaiting_draw
from tests.outbox.harness import OutboxHarness
from tests.outbox.visit_forms import book_visit, offered_chips, open_form


def test_area_without_home_visits_shows_alternatives(harness: OutboxHarness) -> None:
    order = order_awaiting_draw(harness, zip_code="10001")
    client = harness.client("clinician")
    address = reverse("orders:book", args=[order.pk])
    values, times, response = open_form(client, address)
    page = response.content.decode()
    assert not times and "No home draws are available in 10001" in page
    assert re.search(r"\d+ centers? within 25 miles", page)
    # Looking up another address in the same form enqueues no command.
    other_address = {**values, "look": "", "zip_code": "85004", "city": "Phoenix", "state": "AZ"}
    response = client.post(address, other_address)
    assert response.status_code == 200 and 'name="slot"' in response.content.decode()
    assert "85004" not in response.request["QUERY_STRING"]
    assert not CommandRecord.objects.exists()


def test_home_visit_is_refused_under_18(harness: OutboxHarness) -> None:
    order = order_awaiting_draw(harness, birth_date=date(timezone.now().year - 15, 1, 1))
    client = harness.client("front desk")
    address = reverse("orders:book", args=[order.pk])
    page = client.get(address).content.decode()
    assert (
        "only for patients 18 or older" in page and '<form method="post" class="picking' not in page
    )
    assert address not in client.get(reverse("orders:detail", args=[order.pk])).content.decode()
    assert client.post(address, {"form_id": str(uuid.uuid4())}).status_code == 422
    assert not CommandRecord.objects.exists()


def test_booking_waits_for_the_requisition(harness: OutboxHarness) -> None:
    order = order_awaiting_draw(harness, low_status="ordered")
    client = harness.client("front desk")
    page = client.get(reverse("orders:book", args=[order.pk])).content.decode()
    assert "requisition is not ready" in page and 'name="slot"' not in page


def test_patient_has_one_visit_per_provider(harness: OutboxHarness) -> None:
    order = order_awaiting_draw(harness)
    client = harness.client("front desk")
    book_visit(harness, client, order)
    other = order_awaiting_draw(harness, user=order.user_id)
    _, times, response = open_form(client, reverse("orders:book", args=[other.pk]))
    page = response.content.decode()
    assert not times and "Reschedule or cancel that visit first" in page
    assert reverse("orders:detail", args=[order.pk]) in page
    page = client.get(reverse("orders:book", args=[order.pk])).content.decode()
    assert "already has a visit" in page


def test_times_show_both_clocks_across_clock_change(harness: OutboxHarness) -> None:
    order = order_awaiting_draw(harness)
    client = harness.client("front desk")
    User.objects.filter(username="front-desk").update(time_zone="America/New_York")
    address = reverse("orders:book", args=[order.pk])
    values, _, _ = open_form(client, address)
    # At least two days ahead: times are offered from tomorrow on, and some must precede it.
    change = next_change("America/New_York", timezone.now() + timedelta(days=2))
    start = change.date() - timedelta(days=6)
    response: Any = client.post(address, {**values, "look": start.isoformat()})
    assert response.status_code == 200
    before, after = timedelta(hours=2), timedelta(hours=3)
    if change.month > 6:
        before, after = after, before
    offsets = set()
    for chip in offered_chips(response):
        offset = before if chip.time.start < change else after
        phoenix = chip.time.start - timedelta(hours=7)
        assert chip.clock == f"{phoenix:%-I:%M %p}"
        assert chip.clock_here == f"{phoenix + offset:%-I:%M %p}"
        offsets.add(offset)
    assert offsets == {before, after}
    page = response.content.decode()
    assert "MST (America/Phoenix)" in page and "America/New York" in page
    chip = next(chip for chip in offered_chips(response) if chip.time.start > change)
    chip_match = re.search(
        rf"<strong>{chip.clock}</strong>.{{0,120}}?{chip.clock_here}", page, re.DOTALL
    )
    assert chip_match, "the chip shows both clocks"


def next_change(zone: str, now: datetime) -> datetime:
    """Return the next clock change of the zone."""
    time_zone = ZoneInfo(zone)
    hour = now.replace(minute=0, second=0, microsecond=0)
    while hour.astimezone(time_zone).utcoffset() == now.astimezone(time_zone).utcoffset():
        hour += timedelta(hours=1)
    return hour


def test_late_visit_shows_the_day_shift_for_staff() -> None:
    start = datetime(2027, 3, 14, 5, 30, tzinfo=UTC)  # Saturday 10:30 PM in Phoenix
    key = {"booking_key": "k", "price": 0, "is_priority": False, "num_appointments_available": 2}
    body = {
        "timezone": "America/Phoenix",
        "slots": [
            {
                "date": "2027-03-13",
                "slots": [
                    {**key, "start": at.isoformat(), "end": (at + timedelta(hours=1)).isoformat()}
                    for at in (start, start + timedelta(hours=2))
                ],
            }
        ],
    }
    availability = msgspec.convert(body, Availability)
    with timezone.override("America/New_York"):
        days = build_time_list(availability, TimeFilters()).days
    assert [day.date for day in days] == [date(2027, 3, 13), date(2027, 3, 14)]
    first_chip, second_chip = days[0].groups[0].chips[0], days[1].groups[0].chips[0]
    assert (first_chip.clock, first_chip.clock_here, first_chip.shift) == (
        "10:30 PM",
        "12:30 AM",
        "+1 d",
    )
    # Clocks go forward at 2:00 AM in New York, not in Phoenix.
    assert (second_chip.clock, second_chip.clock_here, second_chip.shift) == (
        "12:30 AM",
        "3:30 AM",
        "",
    )


def test_filters_and_same_time_narrow_the_list(harness: OutboxHarness) -> None:
    order = order_awaiting_draw(harness)
    client = harness.client("front desk")
    visit = book_visit(harness, client, order)
    address = reverse("orders:move", args=[order.pk])
    values, times, _ = open_form(client, address)
    response: Any = client.post(reverse("orders:times", args=[order.pk]), {**values, "same": "on"})
    assert response.status_code == 200 and b"<html" not in response.content
    assert visit.start_at is not None
    assert {chip.time.start.time() for chip in offered_chips(response)} == {visit.start_at.time()}
    response = client.post(address, {**values, "look": "", "part": "morning"})
    assert offered_chips(response) and all(chip.local.hour < 11 for chip in offered_chips(response))
    response = client.post(address, {**values, "look": "", "week": "2"})
    first = response.context["picker"].offer.first
    assert offered_chips(response) and all(
        (c.local.date() - first).days >= 7 for c in offered_chips(response)
    )
    later_date = response.context["picker"].offer.later.isoformat()
    response = client.post(address, {**values, "look": later_date})
    starts = {chip.time.start for chip in offered_chips(response)}
    assert starts and not starts & {time.start for time in times}
    assert CommandRecord.objects.count() == 1


def test_chosen_time_is_kept_when_times_reload(harness: OutboxHarness) -> None:
    order = order_awaiting_draw(harness)
    client = harness.client("front desk")
    address = reverse("orders:book", args=[order.pk])
    values, times, _ = open_form(client, address)
    chosen = {**values, "slot": times[3].written(), "notes": "the blue door"}
    response: Any = client.post(reverse("orders:times", args=[order.pk]), chosen)
    assert [chip.time.start for chip in offered_chips(response) if chip.chosen] == [times[3].start]


def test_slow_service_is_reported_and_books_nothing(
    harness: OutboxHarness,
) -> None:
    order = order_awaiting_draw(harness)
    client = harness.client("front desk")
    harness.add_fault("slow", "/availability$", times=9, latency_ms=30_000)
    started = time.monotonic()
    response = client.get(reverse("orders:book", args=[order.pk]))
    assert time.monotonic() - started < 25
    page = response.content.decode()
    assert response.status_code == 200 and "is not responding" in page
    assert "Try again" in page and not CommandRecord.objects.exists()


def test_empty_time_list_shows_alternatives(harness: OutboxHarness) -> None:
    order = order_awaiting_draw(harness, "walk_in_test")
    client = harness.client("front desk")
    address = reverse("orders:book", args=[order.pk])
    values, _, _ = open_form(client, address)
    harness.add_fault("status", "/psc/appointment/availability$", statuses=[404])
    page = client.post(address, {**values, "look": ""}).content.decode()
    assert "No times are available on these days" in page and "other centers" in page
    page = client.post(address, {**values, "look": "", "zip_code": "59715"}).content.decode()
    assert "No service center within 25 miles of 59715" in page and "a larger distance" in page


def test_centers_show_how_they_can_be_booked(harness: OutboxHarness) -> None:
    order = order_awaiting_draw(harness, "walk_in_test")
    client = harness.client("front desk")
    address = reverse("orders:book", args=[order.pk])
    values, _, _ = open_form(client, address)
    response: Any = client.post(
        address, {**values, "look": "", "zip_code": "10001", "radius": "100"}
    )
    page = response.content.decode()
    sites = response.context["picker"].sites
    assert len(sites) > 3 and [one.site.distance for one in sites] == sorted(
        one.site.distance for one in sites
    )
    for words in ("Bookable here", "Book with the lab", "Walk-in", "Hours unknown", " mi, "):
        assert words in page, words
    assert sum(one.chosen for one in sites) == 3, "the three nearest bookable centers"
    site_code = [one.code for one in sites if one.site.bookable][3]
    response = client.post(
        address,
        {**values, "look": "", "zip_code": "10001", "radius": "100", "sites": [site_code]},
    )
    assert {chip.time.site for chip in offered_chips(response)} == {site_code}


def test_start_day_must_not_be_past_at_the_draw(harness: OutboxHarness) -> None:
    order = order_awaiting_draw(harness)
    client = harness.client("front desk")
    address = reverse("orders:book", args=[order.pk])
    values, times, _ = open_form(client, address)
    today = datetime.now(UTC).date()
    for days, is_accepted in ((1, True), (2, False)):
        day = (today - timedelta(days=days)).isoformat()
        page = client.post(address, {**values, "look": day}).content.decode()
        assert ("today or a later day" not in page) == is_accepted, (
            "farther west it is still yesterday"
        )
    # Booking needs a time, not a list.
    values_with_slot = {**values, "slot": times[-1].written(), "start_date": "2020-01-01"}
    assert client.post(address, values_with_slot).status_code == 302
    assert harness.newest_command().kind == "appointment.book"


def test_earlier_times_begin_today_at_the_draw() -> None:
    now = datetime.now(UTC)
    zone = "Pacific/Kiritimati" if now.hour >= 10 else "Pacific/Pago_Pago"
    local_date = now.astimezone(ZoneInfo(zone)).date()
    assert local_date != now.date()
    start = now + timedelta(days=3)
    slot = {
        "booking_key": "k",
        "price": 0,
        "is_priority": False,
        "num_appointments_available": 2,
        "start": start.isoformat(),
        "end": (start + timedelta(hours=1)).isoformat(),
    }
    day = {"date": start.date().isoformat(), "slots": [slot]}
    availability = msgspec.convert({"timezone": zone, "slots": [day]}, Availability)
    assert (
        build_time_list(
            availability, TimeFilters(start_date=local_date + timedelta(days=2))
        ).earlier
        == local_date
    )
    assert build_time_list(availability, TimeFilters(start_date=local_date)).earlier is None


def test_errors_link_to_fields_and_days_label_times(
    harness: OutboxHarness,
) -> None:
    client = harness.client("front desk")
    for method in ("at_home_phlebotomy", "walk_in_test"):
        order = order_awaiting_draw(harness, method)
        address = reverse("orders:book", args=[order.pk])
        values, _, _ = open_form(client, address)
        page = client.post(address, {**values, "zip_code": "nowhere"}).content.decode()
        # Without an address there are no times. An invalid field of the list is named all the same.
        for at in re.findall(r'href="#(id_\w+)"', page):
            assert f'id="{at}"' in page, at
        page = client.post(address, {**values, "look": "2020-01-01"}).content.decode()
        assert "today or a later day" in page
        linked = re.findall(r'href="#(id_\w+)"', page)
        assert "id_start_date" in linked and 'id="id_start_date"' in page
        label_ids = re.findall(r'role="group" aria-labelledby="([^"]+)"', page)
        assert label_ids and all(page.count(f'id="{day}"') == 1 for day in label_ids)
        fragment = client.post(reverse("orders:times", args=[order.pk]), values).content.decode()
        assert 'hx-swap-oob="innerHTML:#times-said"' in fragment and 'id="times-said"' in page
        for name in re.findall(r"<(?:button|select|input)\b[^>]*hx-post[^>]*>", fragment):
            assert ' id="' in name, name
        assert len(set(ids := re.findall(r'\bid="([^"]+)"', page))) == len(ids), "each id once"


def test_times_of_other_centers_come_last() -> None:
    groups = [SiteTimes(site=code) for code in ("", "S2", "elsewhere", "S1")]
    availability = [group.site for group in sort_groups(groups, ["S1", "S2", "S3"])]
    assert availability == ["S1", "S2", "", "elsewhere"]


@pytest.mark.parametrize("site", ["", "S1", "PHX 12 - A", "\u00e9\u201c"])
def test_offered_time_round_trips_through_text(site: str) -> None:
    start = datetime(2026, 12, 1, 15, 0, 0, 500_000, tzinfo=UTC)
    for expires_at in (None, start + timedelta(seconds=90.25)):
        time = OfferedTime(
            start=start, zone="America/Phoenix", site=site, expires_at=expires_at, key='k " 1'
        )
        assert OfferedTime.read(time.written()) == time


@pytest.mark.parametrize(
    "text",
    [
        *("", "x", "[]", "{}", '{"start":"2026-12-01T15:00:00","key":"k"}'),
        *('{"start":"2026-12-01T15:00:00Z","key":""}', '{"start":"2026-12-01T15:00:00Z"}'),
        '{"start":"2026-12-01T15:00:00Z","key":"' + 5000 * "k" + '"}',
    ],
)
def test_text_that_is_no_offered_time_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not a time that was offered"):
        OfferedTime.read(text)
