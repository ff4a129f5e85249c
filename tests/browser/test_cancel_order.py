"""Journey 9: cancel or replace an order and its visit in at most five interactions."""

from __future__ import annotations

import time
from collections.abc import Iterator
from uuid import UUID

import pytest

from tests.browser import Browser, browser, needs_browser
from tests.browser.office import ENTER, Office, assert_within, running_office
from tests.outbox.draw_orders import TEST_NAMES, book_visit_at_service, place_order
from tests.sandbox.ordering import open_second_account

pytestmark = needs_browser

BUDGET, SECONDS = 5, 20
"""Interactions are numbered in comments. The time ends with the last of them."""
WRONG_ACCOUNT, RIGHT_ACCOUNT = "Made-up account south-shared", "Made-up account south-second"
WORKER_SECONDS = 40
"""Seconds. The worker shares the machine with other tests."""


@pytest.fixture(scope="module")
def office(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Office]:
    with running_office(tmp_path_factory.mktemp("back_offices")) as office:
        yield office


@pytest.fixture(scope="module")
def orders(office: Office) -> dict[str, UUID]:
    orders = {
        "visited": place_order(office.sandbox, name="Vera"),
        "kit": place_order(office.sandbox, "testkit", name="Kitty"),
    }
    book_visit_at_service(office.sandbox, orders["visited"])
    with office.sandbox.service() as service:
        service.orders.simulate(orders["kit"], "collecting_sample.testkit.transit_customer")
    # From now on, the lab of the wrong order has two accounts.
    open_second_account(office.sandbox)
    office.back_office.sync()
    return orders


def known_patient(office: Office) -> UUID:
    """Return a patient whom labs accept and who has no order of the test used below."""
    found = office.back_office.query(
        "SELECT user_id FROM patients_demographics WHERE dob < '2000-01-01' AND zip <> ''"
        " AND email <> '' AND first_name || last_name ~ '^[A-Za-z]+$' AND NOT EXISTS (SELECT 1"
        " FROM orders_order o WHERE o.user_id = patients_demographics.user_id"
        " AND o.lab_test_name = %s) ORDER BY user_id LIMIT 1",
        (TEST_NAMES["on_site_collection"],),
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


def test_order_and_visit_are_cancelled_within_budget(
    page: Browser, office: Office, orders: dict[str, UUID]
) -> None:
    order = orders["visited"]
    page.open(f"{office.url}/orders/")
    began = time.monotonic()
    page.click(f'.lead a[href="/orders/{order}/"]')  # 1
    page.click_text("Cancel order…")  # 2
    page.wait_for_text("The home visit is canceled too")
    page.click("#id_why option[value=patient]")  # 3
    page.click_text("Cancel order for Vera N.")  # 4
    assert_within(began, SECONDS)
    page.wait_for_text("Confirmed", WORKER_SECONDS)
    assert status(office, order) == "cancelled"
    page.wait_for_text("Canceled")
    current_visits = "SELECT count(*) FROM sandbox_appointment v JOIN sandbox_order o"
    current_visits += " ON o.number = v.order_id WHERE o.id = %s AND v.is_current"
    assert office.sandbox.query(current_visits, [str(order)]) == [(0,)]


def place_under(page: Browser, office: Office, account_name: str) -> str:
    """Order the test under this account and return the id of the order."""
    name = TEST_NAMES["on_site_collection"]
    page.open(f"{office.url}/orders/new/{known_patient(office)}/")
    page.type("#id_panel", name)
    page.find("#choices input[name=tests]")
    page.type("#id_panel", ENTER)
    page.wait_for_text("2 accounts can be used")
    choose_account(page, office, account_name)
    page.click("[data-review]")
    page.click("form.review button.primary")
    page.wait_for_text("Order placed", WORKER_SECONDS)
    return page.url.partition("/orders/")[2].partition("/")[0]


def choose_account(page: Browser, office: Office, name: str) -> None:
    [(key,)] = office.back_office.query(
        "SELECT id::text FROM labs_labaccount WHERE account_name = %s", (name,)
    )
    page.click(f'#id_lab_account option[value="{key}"]')
    page.wait_for_text("No problems found.")


def test_order_at_wrong_lab_is_replaced(
    page: Browser, office: Office, orders: dict[str, UUID]
) -> None:
    order = place_under(page, office, WRONG_ACCOUNT)
    page.open(f"{office.url}/orders/{order}/")
    page.click_text("Cancel order…")  # 1
    page.click("#id_why option[value=wrong_lab]")  # 2
    page.click_text("Cancel and reorder")  # 3
    page.wait_for_text("New order, replacing another", WORKER_SECONDS)
    assert status(office, order) == "cancelled", "the old order is not canceled"
    assert f"replaces={order}" in page.url
    page.wait_for_text(TEST_NAMES["on_site_collection"])
    page.wait_for_text("This order replaces one at the wrong lab. Choose the account again.")
    assert f"{WRONG_ACCOUNT}, number" in page.text("#id_lab_account"), (
        "the old account is not named"
    )
    assert "used for the canceled order" in page.text("#id_lab_account")
    choose_account(page, office, RIGHT_ACCOUNT)  # 4
    page.click("[data-review]")  # 5
    page.wait_for_text("which went to the wrong lab")
    page.click("form.review button.primary")  # 6
    page.wait_for_text("Order placed", WORKER_SECONDS)
    replacement = page.url.partition("/orders/")[2].partition("/")[0]
    assert account_name(office, order) == WRONG_ACCOUNT
    assert account_name(office, replacement) == RIGHT_ACCOUNT
    assert status(office, order) == "cancelled"
    for shown, other in ((replacement, order), (order, replacement)):
        page.open(f"{office.url}/orders/{shown}/")
        card = page.text('section[aria-labelledby="siblings"]')
        assert "First order" in card and "Canceled" in card and "Recreated" in card, card
        for name in (WRONG_ACCOUNT, RIGHT_ACCOUNT):
            assert f"Requested under {name}" in card, card
        assert page.find_all(f'section[aria-labelledby="siblings"] a[href="/orders/{other}/"]')


def account_name(office: Office, order: object) -> str:
    """Return the name of the lab account of an order at the service."""
    row = office.sandbox.query(
        "SELECT a.account_name FROM sandbox_order o JOIN sandbox_labaccount a"
        " ON a.id = o.lab_account_id WHERE o.id = %s",
        [str(order)],
    )
    return str(row[0][0])


def test_shipped_kit_cannot_be_cancelled_and_page_says_why(
    page: Browser, office: Office, orders: dict[str, UUID]
) -> None:
    page.open(f"{office.url}/orders/{orders['kit']}/")
    assert "Cancel order…" not in page.text("main")
    page.open(f"{office.url}/orders/{orders['kit']}/cancel/")
    page.wait_for_text("The kit has shipped")
    assert not page.find_all("main form button")
