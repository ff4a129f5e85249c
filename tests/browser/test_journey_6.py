"""Journey 6 in a real browser: book the first draw in at most five interactions; where nobody comes
there is an explanation, and no empty grid."""

from __future__ import annotations

import time
from collections.abc import Iterator
from uuid import UUID

import pytest

from tests.browser import Browser, browser, needs_browser
from tests.browser.office import Office, at_work, offered, press, within
from tests.outbox.draws import placed

pytestmark = needs_browser

ESCAPE = "\ue00c"
BUDGET, SECONDS = 5, 20
"""Interactions are numbered in the comments; the time ends with the last of them."""
PATIENCE = 40
"""Seconds for a worker that shares the machine with other tests."""


@pytest.fixture(scope="module")
def office(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Office]:
    with at_work(tmp_path_factory.mktemp("houses")) as office:
        yield office


@pytest.fixture(scope="module")
def orders(office: Office) -> dict[str, UUID]:
    made = {
        "home": placed(office.sandbox, name="Hilde"),
        "center": placed(office.sandbox, "walk_in_test", name="Walda"),
        "nobody": placed(office.sandbox, zip_code="10001", name="Nelly"),
        "hasty": placed(office.sandbox, name="Hanna"),
    }
    office.house.sync()
    return made


@pytest.fixture(scope="module")
def page(office: Office, orders: dict[str, UUID]) -> Iterator[Browser]:
    with browser() as opened:
        office.log_in(opened, "front-desk")
        yield opened


@pytest.mark.parametrize("kind", ["home", "center"])
def test_the_first_draw_is_booked_within_the_budget(
    page: Browser, office: Office, orders: dict[str, UUID], kind: str
) -> None:
    order = orders[kind]
    page.open(f"{office.url}/appointments/")
    began = time.monotonic()
    page.click('.tabs a[href*="show=book"]')  # 1
    page.sees("What we book")
    if kind == "center":  # Patients of these may walk in: they stand apart.
        page.link("Service centre")  # 2
        page.sees("may walk in")
    page.click(f'a[href="/orders/{order}/visit/book/"]')  # 2 or 3
    offered(page)
    told = page.text(".drawer")
    assert "MST" in told and ("EST" in told or "EDT" in told)
    if kind == "center":
        assert "within 25 miles" in told
    page.press(page.all(".drawer .slot input")[2])  # 4
    page.click(".drawer .picking .primary")  # 5
    within(began, SECONDS)
    page.sees("Confirmed", PATIENCE)
    page.sees("Booked")
    there = office.sandbox.query(
        "SELECT count(*) FROM sandbox_appointment v JOIN sandbox_order o ON o.number = v.order_id"
        " WHERE o.id = %s AND v.is_current",
        [str(order)],
    )
    assert there == [(1,)]


def test_where_nobody_comes_the_alternatives_are_told(
    page: Browser, office: Office, orders: dict[str, UUID]
) -> None:
    page.open(f"{office.url}/orders/{orders['nobody']}/")
    page.link("Book")
    page.sees("Nobody draws blood at home in 10001")
    page.sees("centres within 25 miles")
    assert not page.all(".slot")
    # The address is looked up anew in place, and stays out of the address of the page.
    page.click(".drawer .fold > summary")
    for name, text in (("zip_code", "85004"), ("city", "Phoenix"), ("state", "AZ")):
        page.run(f"document.querySelector('.drawer [name={name}]').value = ''")
        page.type(f".drawer [name={name}]", text)
    page.link("Look up times there")
    offered(page, ".drawer .slot")
    assert "85004" not in page.url


def test_what_is_refused_comes_back_into_the_drawer(
    page: Browser, office: Office, orders: dict[str, UUID]
) -> None:
    address = f"{office.url}/orders/{orders['hasty']}/"
    page.open(address)
    page.link("Book")
    offered(page)
    page.type(".drawer textarea[name=notes]", "the blue door")
    page.click(".drawer .picking .primary")
    page.find(".drawer [role=alert]")
    assert page.url == address, "still over the order"
    kept = "return document.querySelector('.drawer textarea[name=notes]').value"
    assert page.run(kept) == "the blue door"
    press(page, ESCAPE)
    page.link("Book")
    offered(page)
    assert page.run(kept) == "the blue door", "shut by mistake, nothing is lost"
    page.press(page.all(".drawer .slot input")[2])
    page.click(".drawer .picking .primary")
    page.sees("Confirmed", PATIENCE)
    assert page.url == address and not page.all(".drawer")
