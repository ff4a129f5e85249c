"""Browser tests of the page that shows what was known of an order at a past moment."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import pytest

from backoffice.service.orders import SimulationFlags
from tests.browser import Browser, browser, needs_browser
from tests.browser.office import (
    Office,
    focused_name,
    log_in,
    press_keys,
    running_office,
    save_screenshot,
)
from tests.browser.test_accessibility import find_problems, script  # noqa: F401
from tests.outbox.draw_orders import place_order
from tests.sync.back_office import running
from tests.waiting import wait_until

pytestmark = needs_browser

HOME, RIGHT = "\ue011", "\ue014"
METHOD = "at_home_phlebotomy"


@pytest.fixture(scope="module")
def office(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Office]:
    with running_office(tmp_path_factory.mktemp("back_offices")) as office:
        office.sandbox.control("webhooks", {"url": f"{office.url}/webhooks/"})
        with running(office.back_office.start("-m", "tests.webhooks.drainer")):
            yield office


@pytest.fixture(scope="module")
def page(office: Office) -> Iterator[Browser]:
    with browser() as opened:
        office.log_in(opened, "lab-coordinator")
        yield opened


def is_applied(office: Office, order: str, status: str) -> bool:
    """Return whether an event set this status, and was applied more than a second ago."""
    return bool(
        office.back_office.query(
            "SELECT 1 FROM orders_order o JOIN webhooks_event e ON e.received_at = o.as_of"
            " WHERE o.id = %s AND o.low_level_status = %s AND e.outcome = 'applied'"
            " AND e.applied_at < now() - interval '1 second'",
            [order, status],
        )
    )


@pytest.fixture(scope="module")
def order(office: Office) -> str:
    """An order whose three statuses each arrived by an event."""
    key = str(place_order(office.sandbox, low_status="ordered"))
    for status in ("ordered", "requisition_created", "cancelled"):
        if status != "ordered":
            with office.sandbox.service() as service:
                phase = "received" if status == "requisition_created" else "cancelled"
                service.orders.simulate(key, f"{phase}.{METHOD}.{status}", flags=SimulationFlags())
        wait_until(partial(is_applied, office, key, status), 60, f"{status} is applied")
    return key


def wait_for_past_text(page: Browser, text: str) -> None:
    wait_until(lambda: text in page.text("#then"), 60, text)


def test_keyboard_moves_slider_through_past_states(
    page: Browser, office: Office, order: str
) -> None:
    page.open(f"{office.url}/orders/{order}/why/")
    stops = int(page.run("return document.getElementById('id_stop').max"))
    assert stops >= 2
    page.run("document.getElementById('id_stop').focus()")
    press_keys(page, HOME)
    wait_for_past_text(page, "As known")
    wait_until(lambda: "?at=" in page.url, 30, "the address names the moment")
    first = page.url
    assert first.endswith("Z") and focused_name(page) == "stop"
    steps = "Steps 1 3"
    wait_for_past_text(page, steps)
    spoken = page.run("return document.getElementById('id_stop').getAttribute('aria-valuetext')")
    assert spoken and spoken in page.text("#stop-words")
    for _ in range(stops):
        press_keys(page, RIGHT)
    wait_for_past_text(page, "This is the current version.")
    assert page.run("return document.getElementById('id_stop').value") == str(stops)
    with browser() as other:
        log_in(other, office.url, "viewer")
        other.open(first)
        wait_for_past_text(other, steps)
        assert "Notreal" not in other.text("#then")


def test_moment_before_first_record_is_shown_as_unknown(
    page: Browser, office: Office, order: str
) -> None:
    page.open(f"{office.url}/orders/{order}/why/?at=2020-01-01T12:00:00Z")
    wait_for_past_text(page, "Unknown: nothing received before")


def test_past_state_works_without_scripts(page: Browser, office: Office, order: str) -> None:
    page.devtools("Emulation.setScriptExecutionDisabled", {"value": True})
    try:
        page.open(f"{office.url}/orders/{order}/why/")
        page.type("#id_stop", HOME)
        page.click(".stops button")
        wait_until(lambda: "?at=" in page.url, 30, "the address names the moment")
        assert page.find_all("section.past tbody tr")
    finally:
        page.devtools("Emulation.setScriptExecutionDisabled", {"value": False})


def test_past_state_has_no_accessibility_findings(
    page: Browser,
    office: Office,
    order: str,
    script: str,  # noqa: F811
) -> None:
    page.open(f"{office.url}/orders/{order}/why/")
    first = page.run("return document.querySelector('#stops a').href")
    page.open(first)
    save_screenshot(page, "past")
    assert find_problems(page, script, "past") == []
