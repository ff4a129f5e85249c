"""Journey 3: clear the exception queue by keyboard, in two to four interactions each.

A change that arrives meanwhile shows a banner and moves nothing.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import cycle
from uuid import UUID

import pytest

from tests.browser import Browser, browser, needs_browser
from tests.browser.office import ENTER, TAB, Office, assert_within, press_keys, running_office
from tests.outbox.draw_orders import place_order
from tests.waiting import wait_until

pytestmark = needs_browser

SEEDED, MAX_INTERACTIONS, SECONDS = 20, 4, 15
"""Number of cards; maximum interactions and seconds for each, without the time of the call."""
WAIT_SECONDS = 40
"""Seconds. The machine is shared with other tests."""
EXCEPTION_STATUSES = (
    "collecting_sample.testkit.problem_in_transit_customer",
    "failed.testkit.failure_to_deliver_to_customer",
    "failed.testkit.lost",
    "failed.testkit.sample_error",
    "sample_with_lab.testkit.lab_processing_blocked",
)
OUTCOMES = (("1",), ("2",), ("3",), ("4",), ("5", "On a trip", ENTER), ("6", "Sent again", ENTER))
"""Outcomes of a card. Each part is one interaction: a key, or a filled field."""


@pytest.fixture(scope="module")
def office(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Office]:
    with running_office(tmp_path_factory.mktemp("back_offices"), users=2, orders=0) as office:
        statuses = cycle(EXCEPTION_STATUSES)
        seeded = [next(statuses) for _ in range(SEEDED)]
        with ThreadPoolExecutor(4) as threads:
            list(threads.map(lambda status: create_exception(office, status), seeded))
        office.back_office.sync()
        yield office


@pytest.fixture(scope="module")
def page(office: Office) -> Iterator[Browser]:
    with browser() as opened:
        office.log_in(opened, "lab-coordinator")
        yield opened


def create_exception(office: Office, status: str, name: str = "Nora") -> UUID:
    order = place_order(office.sandbox, "testkit", name=name)
    with office.sandbox.service() as service:
        service.orders.simulate(order, status)
    return order


def waiting_count(page: Browser) -> int:
    """Return the number of waiting exceptions without the snoozed ones."""
    return int(
        page.run(
            "return [...document.querySelectorAll('[aria-label=Groups] a:not(:last-child) .count')]"
            ".reduce((sum, one) => sum + Number(one.textContent), 0)"
        )
    )


def wait_for_other_url(page: Browser, address: str) -> None:
    wait_until(lambda: page.url != address, WAIT_SECONDS, "the next page", every=0.02)


def test_twenty_exceptions_are_cleared_by_keyboard(page: Browser, office: Office) -> None:
    press_keys(page, "ge")
    page.find("[data-rows]")
    assert waiting_count(page) == SEEDED
    press_keys(page, ENTER)
    page.find(".callcard")
    outcomes = cycle(OUTCOMES)
    for number in range(SEEDED):
        page.find(".callcard .outcomes")
        assert waiting_count(page) == SEEDED - number
        address, outcome, began = page.url, next(outcomes), time.monotonic()
        for part in outcome:
            press_keys(page, part)
        assert len(outcome) <= MAX_INTERACTIONS
        wait_for_other_url(page, address)
        assert_within(began, SECONDS)
    page.wait_for_text("All clear")
    assert waiting_count(page) == 0
    stored = office.back_office.query(
        "SELECT outcome, count(*) FROM orders_handling GROUP BY 1 ORDER BY 1"
    )
    assert dict(stored) == {
        "handled": 3, "reship_asked": 3, "snoozed": 3, "spoke": 4, "voicemail": 4,
        "wrong_number": 3,
    }  # fmt: skip
    assert office.back_office.value("SELECT count(*) FROM team_contact") == SEEDED - 3
    assert office.back_office.value("SELECT count(*) FROM team_note") == 3


def test_exception_is_assigned_and_snoozed_by_keyboard(page: Browser, office: Office) -> None:
    create_exception(office, EXCEPTION_STATUSES[0], "Tilda")
    office.back_office.sync()
    press_keys(page, "ge")
    page.wait_for_text("Tilda")
    press_keys(page, ENTER)
    page.find(".callcard")
    press_keys(page, "a")
    page.wait_for_text("Assigned to you since")
    assert "Assigned to you" in page.text(".waiting")
    address = page.url
    press_keys(page, "5")
    press_keys(page, "Asked for later")
    press_keys(page, TAB)
    press_keys(page, "\ue015")  # arrow down: the next time in the list
    chosen = page.run("return document.querySelector('#until').selectedOptions[0].textContent")
    press_keys(page, TAB * 2 + ENTER)
    wait_for_other_url(page, address)
    page.open(f"{office.url}/exceptions/?group=put-off")
    page.wait_for_text("Tilda")
    page.open(address)
    page.wait_for_text(f"Back in the queue {chosen}")


def test_update_shows_banner_and_moves_nothing(page: Browser, office: Office) -> None:
    order = create_exception(office, EXCEPTION_STATUSES[0], "Wilma")
    office.back_office.sync()
    page.open(f"{office.url}/exceptions/delivery/{order}/")
    page.type("#note", "Half a sentence")
    top = page.run("return document.querySelector('.callcard').getBoundingClientRect().top")
    with office.sandbox.service() as service:
        service.orders.simulate(order, "collecting_sample.testkit.with_customer")
    office.back_office.sync()
    page.find("[data-live]:not([hidden])", WAIT_SECONDS)
    page.wait_for_text("update")
    assert page.url.endswith(f"/{order}/")
    assert page.run("return document.querySelector('#note').value") == "Half a sentence"
    now = page.run("return document.querySelector('.callcard').getBoundingClientRect().top")
    assert now == top
    page.run("document.activeElement.blur()")
    press_keys(page, "1")
    page.wait_for_text("This order changed since you opened it")
    assert page.run("return document.querySelector('#note').value") == "Half a sentence"
    assert (
        office.back_office.query("SELECT 1 FROM orders_handling WHERE order_id = %s", [order]) == []
    )
