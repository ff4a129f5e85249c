"""Journey 2: reschedule a home visit in at most five interactions, with both time zones shown.

Further tests: two people at once, a double click, a lost response and a time that is gone.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

import pytest

from orders.appointment_zones import visit_zone
from orders.rules.appointment_rules import format_appointment_time
from orders.rules.slots import OfferedTime
from tests.browser import Browser, browser, needs_browser
from tests.browser.office import Office, assert_within, running_office, wait_for_times
from tests.outbox.draw_orders import book_visit_at_service, place_order
from tests.waiting import wait_until

pytestmark = needs_browser

BUDGET, SECONDS = 5, 20
"""Interactions are numbered in comments. The time ends with the last of them."""
WORKER_SECONDS = 40
"""Seconds. The worker shares the machine with other tests."""
NAMES = ("Mona", "Tove", "Dora", "Lotte", "Phoebe", "Gerda")
FREE_SLOTS = ".drawer .slot input:not(:disabled)"


class VisitOffice:
    """An office with orders whose patients are visited at home in Phoenix."""

    def __init__(self, office: Office, orders: dict[str, UUID]) -> None:
        self.office = office
        self.orders = orders

    def page(self, name: str) -> str:
        return f"{self.office.url}/orders/{self.orders[name]}/"

    def start_times(self, name: str) -> list[datetime]:
        """Return the start times of the order's current visits at the service."""
        rows = self.office.sandbox.query(
            "SELECT v.start_at FROM sandbox_appointment v"
            " JOIN sandbox_order o ON o.number = v.order_id WHERE o.id = %s AND v.is_current",
            [str(self.orders[name])],
        )
        return [start for (start,) in rows]

    def reschedule_count(self, name: str) -> int:
        """Return how many reschedules of the order reached the service."""
        writes: list[Any] = self.office.sandbox.control("writes")["writes"]
        path = f"/v3/order/{self.orders[name]}/phlebotomy/appointment/reschedule"
        return sum(write["path"] == path for write in writes)


@pytest.fixture(scope="module")
def clinic(tmp_path_factory: pytest.TempPathFactory) -> Iterator[VisitOffice]:
    with running_office(tmp_path_factory.mktemp("back_offices")) as office:
        orders = {name: place_order(office.sandbox, name=name) for name in NAMES}
        for order in orders.values():
            book_visit_at_service(office.sandbox, order)
        office.back_office.sync()
        yield VisitOffice(office, orders)


@pytest.fixture(scope="module")
def page(clinic: VisitOffice) -> Iterator[Browser]:
    with browser() as opened:
        clinic.office.log_in(opened, "front-desk")
        yield opened


def test_visit_is_rescheduled_within_interaction_budget(page: Browser, clinic: VisitOffice) -> None:
    before = clinic.start_times("Mona")
    began = time.monotonic()
    page.click('.nav a[href="/appointments/"]')  # 1
    page.click(f'main a[href="/orders/{clinic.orders["Mona"]}/"]')  # 2
    page.click_text("Reschedule")  # 3
    wait_for_times(page)
    text = page.text(".drawer")
    assert (
        "Current visit" in text
        and "MST" in text
        and "Your time:" in text
        and ("EST" in text or "EDT" in text)
    )
    chosen = page.run(f"return document.querySelectorAll('{FREE_SLOTS}')[4].value")
    page.click_element(page.find_all(FREE_SLOTS)[4])  # 4
    button = page.text(".drawer .picking .primary")
    assert re.fullmatch(r"Confirm \w+day, \w+ \d+, \d+:\d\d [AP]M for Mona \w\.", button), button
    assert page.text(".drawer .person-line").startswith("Mona ")
    page.click(".drawer .picking .primary")  # 5
    assert_within(began, SECONDS)
    page.find(".visit .struck", WORKER_SECONDS)
    page.wait_for_text("Confirmed")
    start = OfferedTime.read(chosen).start
    assert clinic.start_times("Mona") == [start] != before
    assert format_appointment_time(start, visit_zone("America/Phoenix", None)) in page.text(
        ".visit .time"
    )


def test_both_time_zones_are_right_across_dst_change(page: Browser, clinic: VisitOffice) -> None:
    page.open(clinic.page("Phoebe"))
    page.click_text("Reschedule")
    wait_for_times(page, FREE_SLOTS)
    patient_zone, staff_zone = ZoneInfo("America/Phoenix"), ZoneInfo("America/New_York")
    change = datetime.now(UTC).replace(minute=0, second=0, microsecond=0)
    offset = change.astimezone(staff_zone).utcoffset()
    while change.astimezone(staff_zone).utcoffset() == offset:
        change += timedelta(hours=1)
    first = (change - timedelta(days=6)).date().isoformat()
    page.run(
        "const day = document.querySelector('.drawer [name=start_date]');"
        "day.value = arguments[0]; day.dispatchEvent(new Event('change', {bubbles: true}))",
        first,
    )
    script = (
        "return [...document.querySelectorAll('.drawer .slot')].map(s => [s.control.value,"
        " s.querySelector('strong').textContent, s.querySelector('.theirs').lastChild"
        ".textContent.trim(), s.closest('section').querySelector('h3').firstChild.textContent])"
    )
    wait_until(
        lambda: (found := page.run(script)) and found[0][0] >= f'{{"start":"{first}',
        60,
        "the later times",
    )
    offsets = set()
    for value, clock, staff_clock, heading in page.run(script):
        start = OfferedTime.read(value).start
        for_patient, for_staff = start.astimezone(patient_zone), start.astimezone(staff_zone)
        assert clock == f"{for_patient:%-I:%M %p}"
        assert staff_clock.startswith(f"{for_staff:%-I:%M %p}")
        assert heading.strip().startswith(f"{for_patient:%A, %B %-d}")
        offsets.add(for_staff.utcoffset())
    assert len(offsets) == 2, "not both before and after the change"


def test_showing_later_times_keeps_the_focus(page: Browser, clinic: VisitOffice) -> None:
    page.open(clinic.page("Phoebe"))
    page.click_text("Reschedule")
    wait_for_times(page, FREE_SLOTS)
    page.run("const b = document.getElementById('times-later'); b.focus(); b.click()")
    announcement = "return document.getElementById('times-said').textContent"
    wait_until(lambda: page.run(announcement), 60, "the days are announced")
    assert " to " in page.run(announcement)
    assert page.run("return document.activeElement.id") == "times-later"


def test_slower_of_two_reschedules_sees_the_other(page: Browser, clinic: VisitOffice) -> None:
    with browser() as second:
        clinic.office.log_in(second, "clinician")
        chosen_times = []
        for number, window in enumerate((page, second)):
            window.open(clinic.page("Tove"))
            window.click_text("Reschedule")
            wait_for_times(window, FREE_SLOTS)
            window.click_element(window.find_all(FREE_SLOTS)[2 + number])
            chosen_times.append(
                OfferedTime.read(
                    window.run("return document.querySelector('.slot input:checked').value")
                )
            )
        with ThreadPoolExecutor(2) as threads:
            list(threads.map(lambda window: window.click(".picking .primary"), (page, second)))
        wait_until(lambda: clinic.reschedule_count("Tove"), 60, "a call")
        wait_until(lambda: _shows_conflict(page) or _shows_conflict(second), 60, "a word")
        conflicts = [_shows_conflict(window) for window in (page, second)]
        assert sorted(conflicts) == [False, True], conflicts
        winner, loser = (second, page) if conflicts[0] else (page, second)
        winner.find(".visit .struck", WORKER_SECONDS)
        winner_name = "Clive Madeup" if conflicts[0] else "Frida Madeup"
        assert winner_name in loser.text(".picking")
        time.sleep(1)
        assert clinic.reschedule_count("Tove") == 1
        first = chosen_times[1] if conflicts[0] else chosen_times[0]
        assert clinic.start_times("Tove") == [first.start]
        # When the slower person sends the form again, it shows the current time.
        loser.run("document.querySelectorAll('.slot input:not(:disabled)')[6].checked = true")
        loser.click(".picking .primary")
        loser.wait_for_text("MST")


def _shows_conflict(window: Browser) -> bool:
    text = window.text()
    return "already sent a request about this" in text or "changed meanwhile" in text


def test_double_click_sends_one_reschedule(page: Browser, clinic: VisitOffice) -> None:
    page.open(clinic.page("Dora"))
    page.click_text("Reschedule")
    wait_for_times(page, FREE_SLOTS)
    page.click_element(page.find_all(FREE_SLOTS)[2])
    page.run("const b = document.querySelector('.drawer .picking .primary'); b.click(); b.click()")
    page.find(".visit .struck", WORKER_SECONDS)
    assert clinic.reschedule_count("Dora") == 1 and len(clinic.start_times("Dora")) == 1


def test_lost_response_leaves_one_confirmed_visit(page: Browser, clinic: VisitOffice) -> None:
    page.open(clinic.page("Lotte"))
    page.click_text("Reschedule")
    wait_for_times(page, FREE_SLOTS)
    page.click_element(page.find_all(FREE_SLOTS)[3])
    faults = {"rate": 1, "kinds": ["drop_after"], "paths": "/reschedule$", "times": 1}
    clinic.office.sandbox.control("faults", faults)
    page.click(".picking .primary")
    page.find(".visit .struck", WORKER_SECONDS)
    page.open(clinic.page("Lotte"))
    page.wait_for_text("Confirmed")
    assert clinic.reschedule_count("Lotte") == 1 and len(clinic.start_times("Lotte")) == 1


def test_unavailable_time_reopens_drawer_with_nearest_times(
    page: Browser, clinic: VisitOffice
) -> None:
    before = clinic.start_times("Gerda")
    page.open(clinic.page("Gerda"))
    page.click_text("Reschedule")
    wait_for_times(page, FREE_SLOTS)
    page.click_element(page.find_all(FREE_SLOTS)[5])
    page.type(".drawer textarea[name=notes]", "the blue door")
    chosen = page.run("return document.querySelector('.slot input:checked').value")
    try:
        clinic.office.sandbox.control("slots", {"booking_keys": [OfferedTime.read(chosen).key]})
        page.click(".picking .primary")
        page.find(".drawer .slot.near", WORKER_SECONDS)
        assert len(page.find_all(".drawer .slot.near")) == 3
        text = page.text(".drawer")
        assert "no longer available" in text and "The nearest times are marked" in text
        notes = "return document.querySelector('.drawer textarea[name=notes]').value"
        assert page.run(notes) == "the blue door"
        assert clinic.start_times("Gerda") == before, "the old time did not stay"
        page.click(".drawer .slot.near input")
        page.click(".picking .primary")
        page.find(".visit .struck", WORKER_SECONDS)
        assert clinic.reschedule_count("Gerda") == 2 and clinic.start_times("Gerda") != before
    finally:
        clinic.office.sandbox.control("slots", method="DELETE")
