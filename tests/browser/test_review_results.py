"""Journey 4: review and sign results by keyboard, and call about critical values."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any
from uuid import UUID

import pytest

from tests.browser import Browser, browser, needs_browser
from tests.browser.office import Office, assert_within, press_keys, running_office
from tests.waiting import wait_until

pytestmark = needs_browser
REPORTS = 30
BUDGET_SECONDS = 240
OPEN_ITEM = ".items a[aria-current]"
VALUE_ROWS = "[...document.querySelectorAll('.values tbody tr')]"


@pytest.fixture(scope="module")
def office(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Office]:
    with running_office(tmp_path_factory.mktemp("journey-4"), users=12, orders=150) as office:
        yield office


@pytest.fixture
def page(office: Office) -> Iterator[Browser]:
    with browser() as opened:
        office.log_in(opened, "clinician")
        yield opened


def open_report(page: Browser) -> str:
    """Return the order of the open report, which the queue marks."""
    return str(
        page.run(f"return document.querySelector('{OPEN_ITEM}')?.closest('li').dataset.row ?? ''")
    )


def open_queue(page: Browser, queue: str) -> str:
    """Open a queue. Return the order of the first report, which is open."""
    page.open(queue)
    page.find(OPEN_ITEM)
    return open_report(page)


def press_and_wait(page: Browser, keys: str, until: Callable[[], Any], what: str) -> None:
    """Press a shortcut, which is one interaction, and wait for its effect."""
    press_keys(page, keys)
    wait_until(until, 60, what)


def full_status(low_level_status: str, method: str) -> str:
    return {"partial_results": "sample_with_lab"}.get(
        low_level_status, "completed"
    ) + f".{method}.{low_level_status}"


@pytest.mark.parametrize("height", [500, 720])
def test_sign_bar_hides_no_values_on_low_screens(
    page: Browser, office: Office, height: int
) -> None:
    page.resize(1280, height)
    open_queue(page, f"{office.url}/results/?place=normal")
    page.run("window.scrollTo(0, document.querySelector('.panels').offsetTop - innerHeight + 99)")
    page.run("return new Promise(requestAnimationFrame)")
    panels_top, bar_bottom = page.run(
        "return ['.panels', '.signbar'].map(css => document.querySelector(css))"
        ".map((one, n) => one.getBoundingClientRect()[n ? 'top' : 'bottom'])"
    )
    assert panels_top <= bar_bottom


def test_thirty_normal_reports_are_signed_by_keyboard(page: Browser, office: Office) -> None:
    """One interaction signs a report and opens the next. At most two are allowed."""
    before = office.back_office.value("SELECT count(*) FROM orders_signature")
    open_queue(page, f"{office.url}/results/?place=normal")
    interactions = 0
    started = time.monotonic()
    for _ in range(REPORTS):
        previous = open_report(page)
        press_and_wait(
            page,
            "s",
            lambda previous=previous: open_report(page) not in ("", previous),  # type: ignore[misc]
            "the next one is open",
        )
        interactions += 1
    assert_within(started, BUDGET_SECONDS)
    signed = office.back_office.value("SELECT count(*) FROM orders_signature") - before
    assert signed == REPORTS and interactions <= 2 * REPORTS


def test_last_signature_is_undone_with_one_key(page: Browser, office: Office) -> None:
    page.open(f"{office.url}/")
    press_and_wait(
        page, "gr", lambda: "/results/" in page.url and open_report(page), "the first one is open"
    )
    previous = open_queue(page, f"{office.url}/results/?place=normal")
    press_and_wait(page, "s", lambda: open_report(page) not in ("", previous), "signed")
    press_and_wait(page, "u", lambda: open_report(page) == previous, "its report is open again")
    kinds = office.back_office.query(
        "SELECT kind FROM orders_signature WHERE order_id = %s ORDER BY id", [previous]
    )
    assert kinds == [("signed",), ("undone",)]


def test_undo_stays_visible_longer_than_other_messages(page: Browser, office: Office) -> None:
    previous = open_queue(page, f"{office.url}/results/?place=normal")
    press_and_wait(page, "s", lambda: open_report(page) not in ("", previous), "signed")
    page.wait_for_text("Signed.")
    page.run(
        "return new Promise(done => setTimeout(done, 7000))"
    )  # Other messages have disappeared by then.
    assert page.find_all(".undo")


def test_critical_value_is_acknowledged_called_and_signed(page: Browser, office: Office) -> None:
    """At most seven interactions lead from any page to the signature."""
    page.open(f"{office.url}/")
    press_and_wait(page, "gr", lambda: open_report(page), "the critical one is on top, and open")
    order_id = open_report(page)
    page.wait_for_text("Not yet acknowledged")
    page.wait_for_text("Acknowledge it before you sign")
    interactions = 1
    press_keys(page, "y")
    page.wait_for_text("Record call")
    page.type("#id_recipient", "Dr. Madeup")
    page.click("input[name=outcome][value=confirmed_read_back]")
    page.click("form.call button[type=submit]")
    page.wait_for_text("Acknowledged and notified")
    press_and_wait(
        page, "s", lambda: open_report(page) not in ("", order_id), "signed, and the next is open"
    )
    interactions += 5
    assert interactions <= 7
    [(values, outcome)] = office.back_office.query(
        "SELECT values, outcome FROM orders_criticalcall WHERE order_id = %s", [order_id]
    )
    assert outcome == "confirmed_read_back" and values and values[0]["flag"] == "critical"


def test_critical_result_stays_on_top_when_call_not_reached(page: Browser, office: Office) -> None:
    order_id = open_queue(page, f"{office.url}/results/")
    press_keys(page, "y")
    page.wait_for_text("Record call")
    page.type("#id_recipient", "Dr. Madeup")
    page.click("input[name=outcome][value=not_reached]")
    page.click("form.call button[type=submit]")
    page.find("li[data-call]")
    open_calls = (
        "SELECT count(*) FROM orders_review WHERE called < critical_since AND order_id = %s"
    )
    assert office.back_office.value(open_calls, [order_id]) == 1


def test_corrected_report_returns_with_its_changes(page: Browser, office: Office) -> None:
    order_id = open_queue(page, f"{office.url}/results/?place=normal")
    press_and_wait(page, "s", lambda: open_report(page) != order_id, "signed")
    [(method,)] = office.sandbox.query("SELECT method FROM sandbox_order WHERE id = %s", [order_id])
    with office.sandbox.service() as service:
        service.orders.simulate(UUID(order_id), full_status("corrected", method))
    office.back_office.sync("orders")
    wait_until(
        lambda: office.back_office.value(
            "SELECT version > signed FROM orders_review WHERE order_id = %s", [order_id]
        ),
        60,
        "it is in the queue again",
    )
    page.open(f"{office.url}/results/?mine=on")
    wait_until(lambda: open_report(page) == order_id, 60, "for who signed it")
    page.wait_for_text("Changes in this correction")
    press_and_wait(page, "s", lambda: open_report(page) != order_id, "signed again")


def test_normal_values_are_hidden_and_original_is_shown(page: Browser, office: Office) -> None:
    open_queue(page, f"{office.url}/results/?place=abnormal")
    rows = f"return {VALUE_ROWS}.filter(row => row.checkVisibility()).length"
    for _ in range(20):
        if page.run("return Boolean(document.querySelector('#only-flagged'))"):
            break
        previous = open_report(page)
        press_and_wait(
            page,
            "j",
            lambda previous=previous: open_report(page) not in ("", previous),  # type: ignore[misc]
            "the next one",
        )
    all_rows = page.run(rows)
    press_keys(page, "f")
    wait_until(lambda: 0 < page.run(rows) < all_rows, 60, "normal rows are hidden")
    press_keys(page, "f")
    wait_until(lambda: page.run(rows) == all_rows, 60, "and shown")
    press_keys(page, "p")
    page.find("details.original[open] iframe")
    order_id = open_report(page)
    wait_until(
        lambda: office.back_office.value(
            "SELECT count(*) FROM audit_auditentry WHERE object_type = 'result document'"
            " AND %s = ANY(object_ids)",
            [order_id],
        ),
        60,
        "the document request is recorded",
    )
