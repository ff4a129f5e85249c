"""Journey 3 in a real browser: the exception queue is cleared by keyboard alone, in two to four
interactions each; news that arrives meanwhile shows a banner and moves nothing."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import cycle
from uuid import UUID

import pytest

from tests.browser import Browser, browser, needs_browser
from tests.browser.office import ENTER, TAB, Office, at_work, press, within
from tests.outbox.draws import placed

pytestmark = needs_browser

SEEDED, MOST, SECONDS = 20, 4, 15
"""Cards; interactions and seconds for each of them, talking left out."""
PATIENCE = 40
"""Seconds for a machine that is shared with other tests."""
TROUBLES = (
    "collecting_sample.testkit.problem_in_transit_customer",
    "failed.testkit.failure_to_deliver_to_customer",
    "failed.testkit.lost",
    "failed.testkit.sample_error",
    "sample_with_lab.testkit.lab_processing_blocked",
)
WAYS = (("1",), ("2",), ("3",), ("4",), ("5", "On a trip", ENTER), ("6", "Sent again", ENTER))
"""Each part is one interaction: a key, or a field filled."""


@pytest.fixture(scope="module")
def office(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Office]:
    with at_work(tmp_path_factory.mktemp("houses"), users=2, orders=0) as office:
        troubles = cycle(TROUBLES)
        wanted = [next(troubles) for _ in range(SEEDED)]
        with ThreadPoolExecutor(4) as threads:
            list(threads.map(lambda told: trouble(office, told), wanted))
        office.house.sync()
        yield office


@pytest.fixture(scope="module")
def page(office: Office) -> Iterator[Browser]:
    with browser() as opened:
        office.log_in(opened, "lab-coordinator")
        yield opened


def trouble(office: Office, status: str, name: str = "Nora") -> UUID:
    order = placed(office.sandbox, "testkit", name=name)
    with office.sandbox.service() as service:
        service.orders.simulate(order, status)
    return order


def waiting(page: Browser) -> int:
    """How many wait, by the counts of the causes; what was put off does not."""
    return int(
        page.run(
            "return [...document.querySelectorAll('.causes li:not(:last-child) .count')]"
            ".reduce((sum, one) => sum + Number(one.textContent), 0)"
        )
    )


def gone_from(page: Browser, address: str) -> None:
    ends = time.monotonic() + PATIENCE
    while page.url == address:
        assert time.monotonic() < ends, page.text()[:800]
        time.sleep(0.02)


def test_twenty_exceptions_are_cleared_by_keyboard_alone(page: Browser, office: Office) -> None:
    press(page, "ge")
    page.find(".waiting")
    assert waiting(page) == SEEDED
    press(page, ENTER)
    page.find(".callcard")
    ways = cycle(WAYS)
    for number in range(SEEDED):
        page.find(".callcard .outcomes")
        assert waiting(page) == SEEDED - number
        address, way, began = page.url, next(ways), time.monotonic()
        for part in way:
            press(page, part)
        assert len(way) <= MOST
        gone_from(page, address)
        within(began, SECONDS)
    page.sees("All clear")
    assert waiting(page) == 0
    kept = office.house.query("SELECT outcome, count(*) FROM orders_handling GROUP BY 1 ORDER BY 1")
    assert dict(kept) == {
        "handled": 3, "reship_asked": 3, "snoozed": 3, "spoke": 4, "voicemail": 4,
        "wrong_number": 3,
    }  # fmt: skip
    assert office.house.value("SELECT count(*) FROM backoffice_contact") == SEEDED - 3
    assert office.house.value("SELECT count(*) FROM backoffice_note") == 3


def test_take_and_another_time_by_keyboard(page: Browser, office: Office) -> None:
    trouble(office, TROUBLES[0], "Tilda")
    office.house.sync()
    press(page, "ge")
    page.sees("Tilda")
    press(page, ENTER)
    page.find(".callcard")
    press(page, "a")
    page.sees("Yours since")
    assert "Yours" in page.text(".waiting")
    address = page.url
    press(page, "5")
    press(page, "Asked for later")
    press(page, TAB)
    press(page, "\ue015")  # arrow down: the next moment of the list
    chosen = page.run("return document.querySelector('#until').selectedOptions[0].textContent")
    press(page, TAB * 2 + ENTER)
    gone_from(page, address)
    page.open(f"{office.url}/exceptions/put-off/")
    page.sees("Tilda")
    page.open(address)
    page.sees(f"Back {chosen}")


def test_news_shows_a_banner_and_moves_nothing(page: Browser, office: Office) -> None:
    order = trouble(office, TROUBLES[0], "Wilma")
    office.house.sync()
    page.open(f"{office.url}/exceptions/delivery/{order}/")
    page.type("#note", "Half a sentence")
    where = page.run("return document.querySelector('.callcard').getBoundingClientRect().top")
    with office.sandbox.service() as service:
        service.orders.simulate(order, "collecting_sample.testkit.with_customer")
    office.house.sync()
    page.find("[data-live]:not([hidden])", PATIENCE)
    page.sees("update")
    assert page.url.endswith(f"/{order}/")
    assert page.run("return document.querySelector('#note').value") == "Half a sentence"
    now = page.run("return document.querySelector('.callcard').getBoundingClientRect().top")
    assert now == where
    page.run("document.activeElement.blur()")
    press(page, "1")
    page.sees("Something happened to this order since you opened it")
    assert page.run("return document.querySelector('#note').value") == "Half a sentence"
    assert office.house.query("SELECT 1 FROM orders_handling WHERE order_id = %s", [order]) == []
