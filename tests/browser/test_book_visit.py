"""Journey 6: book the first visit in at most five interactions.

An area without home visits shows an explanation instead of an empty grid.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from uuid import UUID

import pytest

from orders.rules.appointment_rules import CENTER
from tests.browser import Browser, browser, needs_browser
from tests.browser.office import Office, assert_within, press_keys, running_office, wait_for_times
from tests.outbox.draw_orders import place_order

pytestmark = needs_browser

ESCAPE = "\ue00c"
BUDGET, SECONDS = 5, 20
"""Interactions are numbered in comments. The time ends with the last of them."""
WORKER_SECONDS = 40
"""Seconds. The worker shares the machine with other tests."""


@pytest.fixture(scope="module")
def office(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Office]:
    with running_office(tmp_path_factory.mktemp("back_offices")) as office:
        yield office


@pytest.fixture(scope="module")
def orders(office: Office) -> dict[str, UUID]:
    orders = {
        "home": place_order(office.sandbox, name="Hilde"),
        "center": place_order(office.sandbox, "walk_in_test", name="Walda"),
        "nobody": place_order(office.sandbox, zip_code="10001", name="Nelly"),
        "hasty": place_order(office.sandbox, name="Hanna"),
    }
    office.back_office.sync()
    return orders


@pytest.fixture(scope="module")
def page(office: Office, orders: dict[str, UUID]) -> Iterator[Browser]:
    with browser() as opened:
        office.log_in(opened, "front-desk")
        yield opened


@pytest.mark.parametrize("kind", ["home", "center"])
def test_first_visit_is_booked_within_interaction_budget(
    page: Browser, office: Office, orders: dict[str, UUID], kind: str
) -> None:
    order = orders[kind]
    page.open(f"{office.url}/appointments/")
    began = time.monotonic()
    page.click('.tabs a[href*="show=book"]')  # 1
    page.wait_for_text("Last visit")
    if kind == "center":  # Patients may walk in, so these have a tab of their own.
        page.click(f'#views a[href="?type={CENTER}"]')  # 2
        page.wait_for_text("can walk in")
    page.click(f'a[href="/orders/{order}/visit/book/"]')  # 2 or 3
    wait_for_times(page)
    text = page.text(".drawer")
    assert "MST" in text and ("EST" in text or "EDT" in text)
    if kind == "center":
        assert "within 25 miles" in text
    page.click_element(page.find_all(".drawer .slot input")[2])  # 4
    page.click(".drawer .picking .primary")  # 5
    assert_within(began, SECONDS)
    page.wait_for_text("Confirmed", WORKER_SECONDS)
    page.wait_for_text("Booked")
    stored = office.sandbox.query(
        "SELECT count(*) FROM sandbox_appointment v JOIN sandbox_order o ON o.number = v.order_id"
        " WHERE o.id = %s AND v.is_current",
        [str(order)],
    )
    assert stored == [(1,)]


def test_area_without_visits_shows_alternatives(
    page: Browser, office: Office, orders: dict[str, UUID]
) -> None:
    page.open(f"{office.url}/orders/{orders['nobody']}/")
    page.click_text("Book visit")
    page.wait_for_text("No home draws are available in 10001")
    page.wait_for_text("centers within 25 miles")
    assert not page.find_all(".slot")
    # The new address is looked up without leaving the page and does not appear in its URL.
    page.click(".drawer .fold > summary")
    for name, text in (("zip_code", "85004"), ("city", "Phoenix"), ("state", "AZ")):
        page.run(f"document.querySelector('.drawer [name={name}]').value = ''")
        page.type(f".drawer [name={name}]", text)
    page.click_text("Find times at this address")
    wait_for_times(page, ".drawer .slot")
    assert "85004" not in page.url


def test_invalid_booking_stays_in_drawer_with_its_input(
    page: Browser, office: Office, orders: dict[str, UUID]
) -> None:
    address = f"{office.url}/orders/{orders['hasty']}/"
    page.open(address)
    page.click_text("Book visit")
    wait_for_times(page)
    page.type(".drawer textarea[name=notes]", "the blue door")
    page.click(".drawer .picking .primary")
    page.find(".drawer [role=alert]")
    assert page.url == address, "the order page was left"
    notes = "return document.querySelector('.drawer textarea[name=notes]').value"
    assert page.run(notes) == "the blue door"
    press_keys(page, ESCAPE)
    page.click_text("Book visit")
    wait_for_times(page)
    assert page.run(notes) == "the blue door", "the notes are lost after closing the drawer"
    page.click_element(page.find_all(".drawer .slot input")[2])
    page.click(".drawer .picking .primary")
    page.wait_for_text("Confirmed", WORKER_SECONDS)
    assert page.url == address and not page.find_all(".drawer")
