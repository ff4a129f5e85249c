"""Ctrl+K lists the actions of the record in view, pages, patients and orders."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.browser import WAIT_SECONDS, Browser, browser, needs_browser
from tests.browser.office import ENTER, Office, focused_name, press_keys, running_office
from tests.outbox.draw_orders import place_order
from tests.waiting import wait_until

pytestmark = needs_browser

CONTROL, ESCAPE = "\ue009", "\ue00c"
OPTIONS = "return [...document.querySelectorAll('#found [role=option]')].map(o => o.textContent)"


@pytest.fixture(scope="module")
def office(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Office]:
    with running_office(tmp_path_factory.mktemp("back_offices")) as office:
        yield office


@pytest.fixture(scope="module")
def order(office: Office) -> str:
    made = place_order(office.sandbox, "testkit", low_status="ordered", name="Paula")
    office.back_office.sync()
    return str(made)


@pytest.fixture(scope="module")
def page(office: Office) -> Iterator[Browser]:
    with browser() as opened:
        office.log_in(opened, "clinician")
        yield opened


def open_palette(page: Browser) -> None:
    kinds = [("keyDown", CONTROL), ("keyDown", "k"), ("keyUp", "k"), ("keyUp", CONTROL)]
    events = [{"type": kind, "value": key} for kind, key in kinds]
    page.call("POST", "/actions", {"actions": [{"type": "key", "id": "keys", "actions": events}]})
    page.find("#found-actions [aria-selected=true]")


def options(page: Browser) -> list[str]:
    return [str(text) for text in page.run(OPTIONS)]


def test_action_of_the_order_in_view_is_run(page: Browser, office: Office, order: str) -> None:
    page.open(f"{office.url}/orders/{order}/")
    page.find("[data-key=n]")
    open_palette(page)
    assert any(text.endswith("n") for text in options(page))
    press_keys(page, "note")
    wait_until(lambda: len(options(page)) == 1, WAIT_SECONDS, "one action fits")
    press_keys(page, ENTER)
    note = "return document.activeElement.matches('[data-key=n]')"
    wait_until(lambda: page.run(note), WAIT_SECONDS, "the field of the note has the focus")


def test_pages_without_a_key_are_listed(page: Browser, office: Office, order: str) -> None:
    page.open(f"{office.url}/orders/{order}/")
    open_palette(page)
    press_keys(page, "unmatched")
    wait_until(lambda: options(page) == ["Unmatched"], WAIT_SECONDS, "one page fits")
    press_keys(page, ENTER)
    wait_until(lambda: page.url.endswith("/unmatched/"), WAIT_SECONDS, "the page is open")


def test_patients_are_found_and_escape_leads_back(
    page: Browser, office: Office, order: str
) -> None:
    page.open(f"{office.url}/orders/{order}/")
    page.run("document.querySelector('[data-key=n]').focus()")
    field = focused_name(page)
    open_palette(page)
    press_keys(page, "paula")
    wait_until(lambda: any("Paula" in text for text in options(page)), WAIT_SECONDS, "found")
    press_keys(page, ESCAPE)
    wait_until(lambda: focused_name(page) == field, WAIT_SECONDS, "the focus is back")
    assert page.run("return document.getElementById('found').hidden")
    assert page.url.endswith(f"/orders/{order}/")
