"""Journey 9 in a real browser: cancel an order, or replace it, without loose ends, in at most five
interactions."""

from __future__ import annotations

import time
from collections.abc import Iterator
from uuid import UUID

import pytest

from tests.browser import Browser, browser, needs_browser
from tests.browser.office import ENTER, Office, at_work, within
from tests.outbox.draws import TESTS, booked_there, placed
from tests.sandbox.ordering import open_second_account

pytestmark = needs_browser

BUDGET, SECONDS = 5, 20
"""Interactions are numbered in the comments; the time ends with the last of them."""
WRONG, RIGHT = "Made-up account south-shared", "Made-up account south-second"
PATIENCE = 40
"""Seconds for a worker that shares the machine with other tests."""


@pytest.fixture(scope="module")
def office(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Office]:
    with at_work(tmp_path_factory.mktemp("houses")) as office:
        yield office


@pytest.fixture(scope="module")
def orders(office: Office) -> dict[str, UUID]:
    made = {
        "visited": placed(office.sandbox, name="Vera"),
        "kit": placed(office.sandbox, "testkit", name="Kitty"),
    }
    booked_there(office.sandbox, made["visited"])
    with office.sandbox.service() as service:
        service.orders.simulate(made["kit"], "collecting_sample.testkit.transit_customer")
    # Since a moment ago, the lab of the wrong order has two accounts.
    open_second_account(office.sandbox)
    office.house.sync()
    return made


def known_patient(office: Office) -> UUID:
    """A patient whom labs accept, without an order of the test that went to the wrong lab."""
    found = office.house.query(
        "SELECT user_id FROM patients_demographics WHERE dob < '2000-01-01' AND zip <> ''"
        " AND email <> '' AND first_name || last_name ~ '^[A-Za-z]+$' AND NOT EXISTS (SELECT 1"
        " FROM orders_order o WHERE o.user_id = patients_demographics.user_id"
        " AND o.lab_test_name = %s) ORDER BY user_id LIMIT 1",
        (TESTS["on_site_collection"],),
    )
    return UUID(str(found[0][0]))


@pytest.fixture(scope="module")
def page(office: Office, orders: dict[str, UUID]) -> Iterator[Browser]:
    with browser() as opened:
        office.log_in(opened, "lab-coordinator")
        yield opened


def status(office: Office, order: object) -> str:
    row = office.sandbox.query(
        "SELECT low_level_status FROM sandbox_order WHERE id = %s", [str(order)]
    )
    return str(row[0][0])


def test_an_order_and_its_visit_are_cancelled_within_the_budget(
    page: Browser, office: Office, orders: dict[str, UUID]
) -> None:
    order = orders["visited"]
    page.open(f"{office.url}/orders/")
    began = time.monotonic()
    page.click(f'.lead a[href="/orders/{order}/"]')  # 1
    page.link("Cancel…")  # 2
    page.sees("The at-home visit is cancelled too")
    page.click("#id_why option[value=patient]")  # 3
    page.link("Cancel the order for Vera N.")  # 4
    within(began, SECONDS)
    page.sees("Confirmed", PATIENCE)
    assert status(office, order) == "cancelled"
    page.sees("Cancelled")
    stands = "SELECT count(*) FROM sandbox_appointment v JOIN sandbox_order o"
    stands += " ON o.number = v.order_id WHERE o.id = %s AND v.is_current"
    assert office.sandbox.query(stands, [str(order)]) == [(0,)]


def place_under(page: Browser, office: Office, account_name: str) -> str:
    """Order the test of the wrong lab under this account; the id of the order."""
    name = TESTS["on_site_collection"]
    page.open(f"{office.url}/orders/new/{known_patient(office)}/")
    page.type("#id_panel", name)
    page.find("#choices input[name=tests]")
    page.type("#id_panel", ENTER)
    page.sees("2 accounts can be used")
    choose_account(page, office, account_name)
    page.click("[data-review]")
    page.click("form.review button.primary")
    page.sees("The order is placed", PATIENCE)
    return page.url.partition("/orders/")[2].partition("/")[0]


def choose_account(page: Browser, office: Office, name: str) -> None:
    [(key,)] = office.house.query(
        "SELECT id::text FROM labs_labaccount WHERE account_name = %s", (name,)
    )
    page.click(f'#id_lab_account option[value="{key}"]')
    page.sees("Nothing is in the way.")


def test_an_order_at_the_wrong_lab_is_replaced(
    page: Browser, office: Office, orders: dict[str, UUID]
) -> None:
    order = place_under(page, office, WRONG)
    page.open(f"{office.url}/orders/{order}/")
    page.link("Cancel…")  # 1
    page.click("#id_why option[value=wrong_lab]")  # 2
    page.link("Cancel and re-order")  # 3
    page.sees("New order, in place of another", PATIENCE)
    assert status(office, order) == "cancelled", "only then"
    assert f"replaces={order}" in page.url
    page.sees(TESTS["on_site_collection"])
    page.sees("This order replaces one at the wrong lab: choose the account again.")
    assert f"{WRONG}, number" in page.text("#id_lab_account"), "it is named, and why it is not one"
    assert "used for the canceled order" in page.text("#id_lab_account")
    choose_account(page, office, RIGHT)  # 4
    page.click("[data-review]")  # 5
    page.sees("which went to the wrong lab")
    page.click("form.review button.primary")  # 6
    page.sees("The order is placed", PATIENCE)
    made = page.url.partition("/orders/")[2].partition("/")[0]
    assert account(office, order) == WRONG
    assert account(office, made) == RIGHT
    assert status(office, order) == "cancelled"
    for shown, other in ((made, order), (order, made)):
        page.open(f"{office.url}/orders/{shown}/")
        card = page.text('section[aria-labelledby="siblings"]')
        assert "First order" in card and "Cancelled" in card and "Recreated" in card, card
        for one in (WRONG, RIGHT):
            assert f"Requested under {one}" in card, card
        assert page.all(f'section[aria-labelledby="siblings"] a[href="/orders/{other}/"]')


def account(office: Office, order: object) -> str:
    """The lab account under which the service has an order."""
    row = office.sandbox.query(
        "SELECT a.account_name FROM sandbox_order o JOIN sandbox_labaccount a"
        " ON a.id = o.lab_account_id WHERE o.id = %s",
        [str(order)],
    )
    return str(row[0][0])


def test_a_kit_under_way_is_not_cancelled_and_the_page_says_why(
    page: Browser, office: Office, orders: dict[str, UUID]
) -> None:
    page.open(f"{office.url}/orders/{orders['kit']}/")
    assert "Cancel…" not in page.text("main")
    page.open(f"{office.url}/orders/{orders['kit']}/cancel/")
    page.sees("The kit has been shipped")
    assert not page.all("main form button")
