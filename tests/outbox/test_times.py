"""The list of times: what it shows of draws, clocks, centres and people, before one asks."""

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

from backoffice.models import CommandRecord, User
from backoffice.service.appointments import Availability
from orders.scheduling.sites import sort_groups
from orders.scheduling.slots import OfferedTime, SiteTimes, TimeFilters, build_time_list
from tests.outbox.desk import Desk
from tests.outbox.draws import waiting
from tests.outbox.picking import booked, chips, opened


def test_where_nobody_comes_there_are_alternatives(desk: Desk) -> None:
    order = waiting(desk, zip_code="10001")
    client = desk.client("clinician")
    address = reverse("orders:book", args=[order.pk])
    values, times, shown = opened(client, address)
    page = shown.content.decode()
    assert not times and "Nobody draws blood at home in 10001" in page
    assert re.search(r"\d+ centres? within 25 miles", page)
    # Another address, looked up in the same form: nothing is asked by that.
    there = {**values, "look": "", "zip_code": "85004", "city": "Phoenix", "state": "AZ"}
    looked = client.post(address, there)
    assert looked.status_code == 200 and 'name="slot"' in looked.content.decode()
    assert "85004" not in looked.request["QUERY_STRING"]
    assert not CommandRecord.objects.exists()


def test_nobody_under_18_is_drawn_at_home(desk: Desk) -> None:
    order = waiting(desk, born=date(timezone.now().year - 15, 1, 1))
    client = desk.client("front desk")
    address = reverse("orders:book", args=[order.pk])
    page = client.get(address).content.decode()
    assert "nobody under 18" in page and '<form method="post" class="picking' not in page
    assert address not in client.get(reverse("orders:detail", args=[order.pk])).content.decode()
    assert client.post(address, {"form_id": str(uuid.uuid4())}).status_code == 422
    assert not CommandRecord.objects.exists()


def test_the_requisition_comes_first(desk: Desk) -> None:
    order = waiting(desk, low="ordered")
    client = desk.client("front desk")
    page = client.get(reverse("orders:book", args=[order.pk])).content.decode()
    assert "requisition is not there yet" in page and 'name="slot"' not in page


def test_a_patient_has_one_visit_with_a_provider(desk: Desk) -> None:
    order = waiting(desk)
    client = desk.client("front desk")
    booked(desk, client, order)
    other = waiting(desk, user=order.user_id)
    _, times, shown = opened(client, reverse("orders:book", args=[other.pk]))
    page = shown.content.decode()
    assert not times and "A patient has one at a time" in page
    assert reverse("orders:detail", args=[order.pk]) in page
    page = client.get(reverse("orders:book", args=[order.pk])).content.decode()
    assert "has a visit already" in page


def test_phoenix_from_new_york_across_a_change_of_clocks(desk: Desk) -> None:
    order = waiting(desk)
    client = desk.client("front desk")
    User.objects.filter(username="front-desk").update(time_zone="America/New_York")
    address = reverse("orders:book", args=[order.pk])
    values, _, _ = opened(client, address)
    # Not in the coming days: times are offered from tomorrow on, and some are to be before it.
    change = next_change("America/New_York", timezone.now() + timedelta(days=2))
    start = change.date() - timedelta(days=6)
    shown: Any = client.post(address, {**values, "look": start.isoformat()})
    assert shown.status_code == 200
    before, after = timedelta(hours=2), timedelta(hours=3)
    if change.month > 6:
        before, after = after, before
    seen = set()
    for chip in chips(shown):
        ahead = before if chip.time.start < change else after
        phoenix = chip.time.start - timedelta(hours=7)
        assert chip.clock == f"{phoenix:%H:%M}"
        assert chip.clock_here == f"{phoenix + ahead:%H:%M}"
        seen.add(ahead)
    assert seen == {before, after}
    page = shown.content.decode()
    assert "MST (America/Phoenix)" in page and "America/New York" in page
    chip = next(chip for chip in chips(shown) if chip.time.start > change)
    face = re.search(rf"<strong>{chip.clock}</strong>.{{0,120}}?{chip.clock_here}", page, re.DOTALL)
    assert face, "both clocks stand on the chip"


def next_change(zone: str, now: datetime) -> datetime:
    """When the zone's clocks change next."""
    place = ZoneInfo(zone)
    hour = now.replace(minute=0, second=0, microsecond=0)
    while hour.astimezone(place).utcoffset() == now.astimezone(place).utcoffset():
        hour += timedelta(hours=1)
    return hour


def test_a_late_visit_is_on_another_day_for_the_staff() -> None:
    start = datetime(2027, 3, 14, 5, 30, tzinfo=UTC)  # Saturday 22:30 in Phoenix
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
    found = msgspec.convert(body, Availability)
    with timezone.override("America/New_York"):
        days = build_time_list(found, TimeFilters()).days
    assert [day.date for day in days] == [date(2027, 3, 13), date(2027, 3, 14)]
    late, later = days[0].groups[0].chips[0], days[1].groups[0].chips[0]
    assert (late.clock, late.clock_here, late.shift) == ("22:30", "00:30", "+1 d")
    # Clocks go forward at two in New York, not in Phoenix.
    assert (later.clock, later.clock_here, later.shift) == ("00:30", "03:30", "")


def test_filters_and_the_usual_time(desk: Desk) -> None:
    order = waiting(desk)
    client = desk.client("front desk")
    visit = booked(desk, client, order)
    address = reverse("orders:move", args=[order.pk])
    values, times, _ = opened(client, address)
    shown: Any = client.post(reverse("orders:times", args=[order.pk]), {**values, "same": "on"})
    assert shown.status_code == 200 and b"<html" not in shown.content
    assert visit.start_at is not None
    assert {chip.time.start.time() for chip in chips(shown)} == {visit.start_at.time()}
    shown = client.post(address, {**values, "look": "", "part": "morning"})
    assert chips(shown) and all(chip.local.hour < 11 for chip in chips(shown))
    shown = client.post(address, {**values, "look": "", "week": "2"})
    first = shown.context["picker"].offer.first
    assert chips(shown) and all((c.local.date() - first).days >= 7 for c in chips(shown))
    later = shown.context["picker"].offer.later.isoformat()
    shown = client.post(address, {**values, "look": later})
    starts = {chip.time.start for chip in chips(shown)}
    assert starts and not starts & {time.start for time in times}
    assert CommandRecord.objects.count() == 1


def test_a_choice_is_kept_while_one_looks(desk: Desk) -> None:
    order = waiting(desk)
    client = desk.client("front desk")
    address = reverse("orders:book", args=[order.pk])
    values, times, _ = opened(client, address)
    chosen = {**values, "slot": times[3].written(), "notes": "the blue door"}
    shown: Any = client.post(reverse("orders:times", args=[order.pk]), chosen)
    assert [chip.time.start for chip in chips(shown) if chip.chosen] == [times[3].start]


def test_a_service_that_does_not_answer_is_told_and_nothing_is_written(desk: Desk) -> None:
    order = waiting(desk)
    client = desk.client("front desk")
    desk.fault("slow", "/availability$", times=9, latency_ms=30_000)
    began = time.monotonic()
    shown = client.get(reverse("orders:book", args=[order.pk]))
    assert time.monotonic() - began < 25
    page = shown.content.decode()
    assert shown.status_code == 200 and "does not answer just now" in page
    assert "Try again" in page and not CommandRecord.objects.exists()


def test_no_times_at_all_say_what_else_there_is(desk: Desk) -> None:
    order = waiting(desk, "walk_in_test")
    client = desk.client("front desk")
    address = reverse("orders:book", args=[order.pk])
    values, _, _ = opened(client, address)
    desk.fault("status", "/psc/appointment/availability$", statuses=[404])
    page = client.post(address, {**values, "look": ""}).content.decode()
    assert "There are no free times in these days" in page and "other centres" in page
    page = client.post(address, {**values, "look": "", "zip_code": "59715"}).content.decode()
    assert "No centre within 25 miles of 59715" in page and "farther away" in page


def test_centers_say_what_can_be_done_there(desk: Desk) -> None:
    order = waiting(desk, "walk_in_test")
    client = desk.client("front desk")
    address = reverse("orders:book", args=[order.pk])
    values, _, _ = opened(client, address)
    shown: Any = client.post(address, {**values, "look": "", "zip_code": "10001", "radius": "100"})
    page = shown.content.decode()
    near = shown.context["picker"].sites
    assert len(near) > 3 and [one.site.distance for one in near] == sorted(
        one.site.distance for one in near
    )
    for words in ("Bookable here", "Book with the lab", "Walk in", "Hours unknown", " mi, "):
        assert words in page, words
    assert sum(one.chosen for one in near) == 3, "the nearest that can be booked"
    wanted = [one.code for one in near if one.site.bookable][3]
    shown = client.post(
        address,
        {**values, "look": "", "zip_code": "10001", "radius": "100", "sites": [wanted]},
    )
    assert {chip.time.site for chip in chips(shown)} == {wanted}


def test_the_day_times_are_listed_from_is_one_of_the_draw(desk: Desk) -> None:
    order = waiting(desk)
    client = desk.client("front desk")
    address = reverse("orders:book", args=[order.pk])
    values, times, _ = opened(client, address)
    today = datetime.now(UTC).date()
    for days, right in ((1, True), (2, False)):
        day = (today - timedelta(days=days)).isoformat()
        page = client.post(address, {**values, "look": day}).content.decode()
        assert ("today or a later day" not in page) == right, "west of us it is yesterday still"
    # The button that asks needs a time, not a list.
    asks = {**values, "slot": times[-1].written(), "start_date": "2020-01-01"}
    assert client.post(address, asks).status_code == 302
    assert desk.newest().kind == "appointment.book"


def test_earlier_times_begin_today_where_the_draw_is() -> None:
    now = datetime.now(UTC)
    zone = "Pacific/Kiritimati" if now.hour >= 10 else "Pacific/Pago_Pago"
    there = now.astimezone(ZoneInfo(zone)).date()
    assert there != now.date()
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
    found = msgspec.convert({"timezone": zone, "slots": [day]}, Availability)
    assert (
        build_time_list(found, TimeFilters(start_date=there + timedelta(days=2))).earlier == there
    )
    assert build_time_list(found, TimeFilters(start_date=there)).earlier is None


def test_every_error_leads_to_its_field_and_every_day_names_its_times(desk: Desk) -> None:
    client = desk.client("front desk")
    for method in ("at_home_phlebotomy", "walk_in_test"):
        order = waiting(desk, method)
        address = reverse("orders:book", args=[order.pk])
        values, _, _ = opened(client, address)
        page = client.post(address, {**values, "zip_code": "nowhere"}).content.decode()
        # Without an address there are no times: a field of theirs is said all the same.
        for at in re.findall(r'href="#(id_\w+)"', page):
            assert f'id="{at}"' in page, at
        page = client.post(address, {**values, "look": "2020-01-01"}).content.decode()
        assert "today or a later day" in page
        linked = re.findall(r'href="#(id_\w+)"', page)
        assert "id_start_date" in linked and 'id="id_start_date"' in page
        labelled = re.findall(r'role="group" aria-labelledby="([^"]+)"', page)
        assert labelled and all(page.count(f'id="{day}"') == 1 for day in labelled)
        alone = client.post(reverse("orders:times", args=[order.pk]), values).content.decode()
        assert 'hx-swap-oob="innerHTML:#times-said"' in alone and 'id="times-said"' in page
        for name in re.findall(r"<(?:button|select|input)\b[^>]*hx-post[^>]*>", alone):
            assert ' id="' in name, name
        assert len(set(ids := re.findall(r'\bid="([^"]+)"', page))) == len(ids), "each once"


def test_times_of_no_center_that_was_asked_for_come_last() -> None:
    groups = [SiteTimes(site=code) for code in ("", "S2", "elsewhere", "S1")]
    found = [group.site for group in sort_groups(groups, ["S1", "S2", "S3"])]
    assert found == ["S1", "S2", "", "elsewhere"]


@pytest.mark.parametrize("site", ["", "S1", "PHX 12 - A", "\u00e9\u201c"])
def test_a_time_reads_as_it_was_written(site: str) -> None:
    start = datetime(2026, 12, 1, 15, 0, 0, 500_000, tzinfo=UTC)
    for ends in (None, start + timedelta(seconds=90.25)):
        time = OfferedTime(
            start=start, zone="America/Phoenix", site=site, expires_at=ends, key='k " 1'
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
def test_what_was_not_offered_is_no_time(text: str) -> None:
    with pytest.raises(ValueError, match="not a time that was offered"):
        OfferedTime.read(text)
