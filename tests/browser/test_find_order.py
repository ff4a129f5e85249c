"""Journey 1, "Where is my kit?": find an order in three interactions by what a caller knows."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.browser import WAIT_SECONDS, Browser, browser, needs_browser
from tests.browser.office import (
    ENTER,
    Office,
    assert_within,
    focused_name,
    press_keys,
    running_office,
)
from tests.outbox.draw_orders import place_order
from tests.waiting import wait_until

pytestmark = needs_browser

SECONDS = 10
"""From the first key to the sentence about the status."""
DOWN, ESCAPE = "\ue015", "\ue00c"


@pytest.fixture(scope="module")
def office(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Office]:
    with running_office(tmp_path_factory.mktemp("back_offices")) as office:
        yield office


@pytest.fixture(scope="module")
def order(office: Office) -> str:
    """An order of the only patient named González, with a phone number."""
    made = place_order(office.sandbox, "testkit", low_status="ordered", name="Maria")
    office.back_office.sync()
    patient = office.back_office.query("SELECT user_id FROM orders_order WHERE id = %s", (made,))[
        0
    ][0]
    office.back_office.query(
        "INSERT INTO patients_demographics (user_id, first_name, last_name, name_key, email,"
        " phone_number, phone_digits, gender, dob, first_line, second_line, city, state, zip,"
        " country, record, content_hash, as_of)"
        " VALUES (%s, 'María', 'González-Notreal', 'maria gonzalez-notreal',"
        " 'maria@example.invalid', '+15550107788', '88770105551', 'female', '1980-05-06', '', '',"
        " 'Phoenix', 'AZ', '85004', 'US', '{}', '', now()) ON CONFLICT (user_id) DO UPDATE SET"
        " first_name = EXCLUDED.first_name, last_name = EXCLUDED.last_name,"
        " name_key = EXCLUDED.name_key, phone_number = EXCLUDED.phone_number,"
        " phone_digits = EXCLUDED.phone_digits, city = EXCLUDED.city",
        (patient,),
    )
    return str(made)


@pytest.fixture(scope="module")
def page(office: Office, order: str) -> Iterator[Browser]:
    with browser() as opened:
        office.log_in(opened, "front-desk")
        yield opened


@pytest.mark.parametrize(
    "query",
    [
        "mar gon",
        "gonzález",
        "GONZALEZ",
        "gonzalez maria",
        "7788",
        "(555) 010-7788",
        "+1 555.010.7788",
        "gonz 6 May 1980",
        "order id",
    ],
)
def test_order_status_is_found_in_three_interactions(
    page: Browser, office: Office, order: str, query: str
) -> None:
    page.open(f"{office.url}/orders/")
    page.find("html[data-js]")
    began = time.monotonic()
    press_keys(page, "/")  # 1
    assert focused_name(page) == "q"
    press_keys(page, order[:6] if query == "order id" else query)  # 2
    press_keys(page, ENTER)  # 3
    page.find(".turn .sentence")
    assert_within(began, SECONDS)
    assert page.url.endswith(f"/orders/{order}/")
    sentence = page.text(".turn .sentence")
    assert "Order received" in sentence and "Waiting on the lab service." in sentence
    person = page.text(".person")
    assert "Maria" in person and "May 6, 1980" in person, "two facts that identify the caller"


def test_arrow_keys_choose_among_search_results(page: Browser, office: Office, order: str) -> None:
    page.open(f"{office.url}/orders/")
    page.find("html[data-js]")
    page.run("document.querySelector('.lead a').focus()")
    focused = focused_name(page)
    press_keys(page, "/")
    press_keys(page, "ma")
    page.find("#found [role=option]")
    assert page.run("return document.getElementById('find').ariaExpanded") == "true"
    press_keys(page, DOWN)
    chosen = page.run(
        "return document.getElementById('find').getAttribute('aria-activedescendant')"
    )
    address = page.run(f"return document.getElementById('{chosen}').href")
    press_keys(page, ESCAPE)
    assert focused_name(page) == focused
    press_keys(page, "/" + DOWN + DOWN)
    press_keys(page, "\ue013" + ENTER)
    wait_for_url(page, address)


def wait_for_url(page: Browser, address: str) -> None:
    wait_until(lambda: page.url == address, WAIT_SECONDS, address)


def test_searched_name_is_not_in_the_url(
    page: Browser, office: Office, order: str, tmp_path: Path
) -> None:
    page.open(f"{office.url}/orders/")
    page.find("html[data-js]")
    press_keys(page, "/")
    press_keys(page, "no")
    before = page.url
    press_keys(page, "treal" + ENTER)
    wait_until(lambda: page.url != before, 60, "what was found")
    assert "treal" not in page.url.lower()
    page.open(f"{office.url}/find/")
    page.type("#find", "ma")
    page.type("#find", ENTER)
    page.wait_for_text("Search results for “ma”")
    address = page.url
    page.click(".hits a")
    page.find("h1")
    page.run("history.back()")
    page.wait_for_text("Search results for “ma”")
    assert page.url == address
