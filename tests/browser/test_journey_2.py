"""Journey 2 in a real browser: move tomorrow's draw in at most five interactions, both clocks on
the screen; two people at once; a double click; an answer that is lost."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

import pytest

from orders.scheduling.rules import format_visit_time
from orders.scheduling.slots import OfferedTime
from orders.visit_zones import visit_zone
from tests.browser import Browser, browser, needs_browser
from tests.browser.office import Office, at_work, offered, within
from tests.outbox.draws import booked_there, placed
from tests.sync.house import wait_until

pytestmark = needs_browser

BUDGET, SECONDS = 5, 20
"""Interactions are numbered in the comments; the time ends with the last of them."""
PATIENCE = 40
"""Seconds for a worker that shares the machine with other tests."""
NAMES = ("Mona", "Tove", "Dora", "Lotte", "Phoebe", "Gerda")
FREE = ".drawer .slot input:not(:disabled)"


class VisitPlace:
    """An office, and in it orders whose patients are visited at home in Phoenix."""

    def __init__(self, office: Office, orders: dict[str, UUID]) -> None:
        self.office = office
        self.orders = orders

    def page(self, name: str) -> str:
        return f"{self.office.url}/orders/{self.orders[name]}/"

    def starts(self, name: str) -> list[datetime]:
        """Where the service has the order's visits that stand."""
        rows = self.office.sandbox.query(
            "SELECT v.start_at FROM sandbox_appointment v"
            " JOIN sandbox_order o ON o.number = v.order_id WHERE o.id = %s AND v.is_current",
            [str(self.orders[name])],
        )
        return [start for (start,) in rows]

    def calls(self, name: str) -> int:
        """How often a reschedule of it reached the service."""
        writes: list[Any] = self.office.sandbox.control("writes")["writes"]
        path = f"/v3/order/{self.orders[name]}/phlebotomy/appointment/reschedule"
        return sum(write["path"] == path for write in writes)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[VisitPlace]:
    with at_work(tmp_path_factory.mktemp("houses")) as office:
        orders = {name: placed(office.sandbox, name=name) for name in NAMES}
        for order in orders.values():
            booked_there(office.sandbox, order)
        office.house.sync()
        yield VisitPlace(office, orders)


@pytest.fixture(scope="module")
def page(place: VisitPlace) -> Iterator[Browser]:
    with browser() as opened:
        place.office.log_in(opened, "front-desk")
        yield opened


def test_a_draw_is_moved_within_the_budget(page: Browser, place: VisitPlace) -> None:
    before = place.starts("Mona")
    began = time.monotonic()
    page.click('.nav a[href="/appointments/"]')  # 1
    page.click(f'main a[href="/orders/{place.orders["Mona"]}/"]')  # 2
    page.link("Reschedule")  # 3
    offered(page)
    told = page.text(".drawer")
    assert (
        "Now" in told and "MST" in told and "For you:" in told and ("EST" in told or "EDT" in told)
    )
    chosen = page.run(f"return document.querySelectorAll('{FREE}')[4].value")
    page.press(page.all(FREE)[4])  # 4
    page.link("Confirm")  # 5
    within(began, SECONDS)
    page.find(".visit .struck", PATIENCE)
    page.sees("Confirmed")
    start = OfferedTime.read(chosen).start
    assert place.starts("Mona") == [start] != before
    assert format_visit_time(start, visit_zone("America/Phoenix", None)) in page.text(
        ".visit .time"
    )


def test_both_clocks_are_right_across_a_change_of_clocks(page: Browser, place: VisitPlace) -> None:
    page.open(place.page("Phoebe"))
    page.link("Reschedule")
    offered(page, FREE)
    home, here = ZoneInfo("America/Phoenix"), ZoneInfo("America/New_York")
    change = datetime.now(UTC).replace(minute=0, second=0, microsecond=0)
    offset = change.astimezone(here).utcoffset()
    while change.astimezone(here).utcoffset() == offset:
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
    seen = set()
    for value, clock, theirs, heading in page.run(script):
        start = OfferedTime.read(value).start
        local, mine = start.astimezone(home), start.astimezone(here)
        assert (clock, theirs.split()[0]) == (f"{local:%H:%M}", f"{mine:%H:%M}")
        assert heading.strip().startswith(f"{local:%A} {local.day} {local:%B}")
        seen.add(mine.utcoffset())
    assert len(seen) == 2, "times before and after the change"


def test_looking_at_later_times_keeps_the_focus(page: Browser, place: VisitPlace) -> None:
    page.open(place.page("Phoebe"))
    page.link("Reschedule")
    offered(page, FREE)
    page.run("const b = document.getElementById('times-later'); b.focus(); b.click()")
    said = "return document.getElementById('times-said').textContent"
    wait_until(lambda: page.run(said), 60, "the days are said")
    assert " to " in page.run(said)
    assert page.run("return document.activeElement.id") == "times-later"


def test_one_of_two_at_once_is_told_of_the_other(page: Browser, place: VisitPlace) -> None:
    with browser() as second:
        place.office.log_in(second, "clinician")
        wanted = []
        for number, one in enumerate((page, second)):
            one.open(place.page("Tove"))
            one.link("Reschedule")
            offered(one, FREE)
            one.press(one.all(FREE)[2 + number])
            wanted.append(
                OfferedTime.read(
                    one.run("return document.querySelector('.slot input:checked').value")
                )
            )
        with ThreadPoolExecutor(2) as threads:
            list(threads.map(lambda one: one.click(".picking .primary"), (page, second)))
        wait_until(lambda: place.calls("Tove"), 60, "a call")
        wait_until(lambda: _told_of_another(page) or _told_of_another(second), 60, "a word")
        told = [_told_of_another(one) for one in (page, second)]
        assert sorted(told) == [False, True], told
        winner, loser = (second, page) if told[0] else (page, second)
        winner.find(".visit .struck", PATIENCE)
        who = "Clive Madeup" if told[0] else "Frida Madeup"
        assert who in loser.text(".picking")
        time.sleep(1)
        assert place.calls("Tove") == 1
        first = wanted[1] if told[0] else wanted[0]
        assert place.starts("Tove") == [first.start]
        # Whoever was slower is shown how it stands when the form is sent once more.
        loser.run("document.querySelectorAll('.slot input:not(:disabled)')[6].checked = true")
        loser.click(".picking .primary")
        loser.sees("MST")


def _told_of_another(one: Browser) -> bool:
    text = one.text()
    return "asked for something about this already" in text or "changed meanwhile" in text


def test_a_double_click_is_one_request(page: Browser, place: VisitPlace) -> None:
    page.open(place.page("Dora"))
    page.link("Reschedule")
    offered(page, FREE)
    page.press(page.all(FREE)[2])
    page.run("const b = document.querySelector('.drawer .picking .primary'); b.click(); b.click()")
    page.find(".visit .struck", PATIENCE)
    assert place.calls("Dora") == 1 and len(place.starts("Dora")) == 1


def test_a_lost_answer_leaves_one_visit_and_a_clear_state(page: Browser, place: VisitPlace) -> None:
    page.open(place.page("Lotte"))
    page.link("Reschedule")
    offered(page, FREE)
    page.press(page.all(FREE)[3])
    faults = {"rate": 1, "kinds": ["drop_after"], "paths": "/reschedule$", "times": 1}
    place.office.sandbox.control("faults", faults)
    page.link("Confirm")
    page.find(".visit .struck", PATIENCE)
    page.open(place.page("Lotte"))
    page.sees("Confirmed")
    assert place.calls("Lotte") == 1 and len(place.starts("Lotte")) == 1


def test_a_time_that_is_gone_opens_the_drawer_with_the_nearest(
    page: Browser, place: VisitPlace
) -> None:
    before = place.starts("Gerda")
    page.open(place.page("Gerda"))
    page.link("Reschedule")
    offered(page, FREE)
    page.press(page.all(FREE)[5])
    page.type(".drawer textarea[name=notes]", "the blue door")
    chosen = page.run("return document.querySelector('.slot input:checked').value")
    try:
        place.office.sandbox.control("slots", {"booking_keys": [OfferedTime.read(chosen).key]})
        page.link("Confirm")
        page.find(".drawer .slot.near", PATIENCE)
        assert len(page.all(".drawer .slot.near")) == 3
        told = page.text(".drawer")
        assert "no longer available" in told and "The nearest times are marked" in told
        notes = "return document.querySelector('.drawer textarea[name=notes]').value"
        assert page.run(notes) == "the blue door"
        assert place.starts("Gerda") == before, "the old time stands"
        page.click(".drawer .slot.near input")
        page.link("Confirm")
        page.find(".visit .struck", PATIENCE)
        assert place.calls("Gerda") == 2 and place.starts("Gerda") != before
    finally:
        place.office.sandbox.control("slots", method="DELETE")
