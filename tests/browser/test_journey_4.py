"""Journey 4: results are reviewed and signed by keyboard; a critical value ends with a call."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any
from uuid import UUID

import pytest

from tests.browser import Browser, browser, needs_browser
from tests.browser.office import Office, at_work, press, within
from tests.sync.house import wait_until

pytestmark = needs_browser
REPORTS = 30
BUDGET_SECONDS = 240
OPEN = ".items a[aria-current]"
VALUES = "[...document.querySelectorAll('.values tbody tr')]"


@pytest.fixture(scope="module")
def office(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Office]:
    with at_work(tmp_path_factory.mktemp("journey-4"), users=12, orders=150) as found:
        yield found


@pytest.fixture
def page(office: Office) -> Iterator[Browser]:
    with browser() as opened:
        office.log_in(opened, "clinician")
        yield opened


def marked(page: Browser) -> str:
    """The order whose report is open, as the queue marks it."""
    return str(
        page.run(f"return document.querySelector('{OPEN}')?.closest('li').dataset.row ?? ''")
    )


def first_of(page: Browser, queue: str) -> str:
    """Open a queue, and the order whose report is open on top of it."""
    page.open(queue)
    page.find(OPEN)
    return marked(page)


def go(page: Browser, keys: str, until: Callable[[], Any], what: str) -> None:
    """One interaction: a shortcut. Then wait for what it does."""
    press(page, keys)
    wait_until(until, 60, what)


def dotted(low: str, method: str) -> str:
    return {"partial_results": "sample_with_lab"}.get(low, "completed") + f".{method}.{low}"


@pytest.mark.parametrize("height", [500, 720])
def test_on_low_screens_nothing_is_hidden_behind_the_bar(
    page: Browser, office: Office, height: int
) -> None:
    page.resize(1280, height)
    first_of(page, f"{office.url}/results/?place=normal")
    page.run("window.scrollTo(0, document.querySelector('.panels').offsetTop - innerHeight + 99)")
    page.run("return new Promise(requestAnimationFrame)")
    values, bar = page.run(
        "return ['.panels', '.signbar'].map(css => document.querySelector(css))"
        ".map((one, n) => one.getBoundingClientRect()[n ? 'top' : 'bottom'])"
    )
    assert values <= bar


def test_thirty_normal_reports_are_signed_by_keyboard(page: Browser, office: Office) -> None:
    """Two interactions each at most: one to sign, none to open the next."""
    before = office.house.value("SELECT count(*) FROM orders_signature")
    first_of(page, f"{office.url}/results/?place=normal")
    interactions = 0
    started = time.monotonic()
    for _ in range(REPORTS):
        was = marked(page)
        go(page, "s", lambda was=was: marked(page) not in ("", was), "the next one is open")  # type: ignore[misc]
        interactions += 1
    within(started, BUDGET_SECONDS)
    signed = office.house.value("SELECT count(*) FROM orders_signature") - before
    assert signed == REPORTS and interactions <= 2 * REPORTS


def test_the_last_signature_is_taken_back_with_one_key(page: Browser, office: Office) -> None:
    page.open(f"{office.url}/")
    go(page, "gr", lambda: "/results/" in page.url and marked(page), "the first one is open")
    was = first_of(page, f"{office.url}/results/?place=normal")
    go(page, "s", lambda: marked(page) not in ("", was), "signed")
    go(page, "u", lambda: marked(page) == was, "its report is open again")
    kinds = office.house.query(
        "SELECT kind FROM orders_signature WHERE order_id = %s ORDER BY id", [was]
    )
    assert kinds == [("signed",), ("undone",)]


def test_the_way_back_is_there_as_long_as_the_server_allows_it(
    page: Browser, office: Office
) -> None:
    was = first_of(page, f"{office.url}/results/?place=normal")
    go(page, "s", lambda: marked(page) not in ("", was), "signed")
    page.sees("Signed.")
    page.run("return new Promise(done => setTimeout(done, 7000))")  # Other toasts are gone by now.
    assert page.all(".undo")


def test_a_critical_value_is_acknowledged_and_called_about(page: Browser, office: Office) -> None:
    """At most seven interactions from anywhere to signed."""
    page.open(f"{office.url}/")
    go(page, "gr", lambda: marked(page), "the critical one is on top, and open")
    order_id = marked(page)
    page.sees("Nobody has acknowledged this yet")
    page.sees("acknowledge it before you sign")
    interactions = 1
    press(page, "y")
    page.sees("Record the call")
    page.type("#id_recipient", "Dr. Madeup")
    page.click("input[name=outcome][value=confirmed_read_back]")
    page.click("form.call button[type=submit]")
    page.sees("Acknowledged and told")
    go(page, "s", lambda: marked(page) not in ("", order_id), "signed, and the next is open")
    interactions += 5
    assert interactions <= 7
    [(kept, outcome)] = office.house.query(
        "SELECT values, outcome FROM orders_criticalcall WHERE order_id = %s", [order_id]
    )
    assert outcome == "confirmed_read_back" and kept and kept[0]["flag"] == "critical"


def test_one_that_was_not_reached_stays_on_top(page: Browser, office: Office) -> None:
    order_id = first_of(page, f"{office.url}/results/")
    press(page, "y")
    page.sees("Record the call")
    page.type("#id_recipient", "Dr. Madeup")
    page.click("input[name=outcome][value=not_reached]")
    page.click("form.call button[type=submit]")
    page.find("li[data-call]")
    open_ones = "SELECT count(*) FROM orders_review WHERE called < critical_since AND order_id = %s"
    assert office.house.value(open_ones, [order_id]) == 1


def test_a_corrected_report_comes_back_with_what_changed(page: Browser, office: Office) -> None:
    order_id = first_of(page, f"{office.url}/results/?place=normal")
    go(page, "s", lambda: marked(page) != order_id, "signed")
    [(method,)] = office.sandbox.query("SELECT method FROM sandbox_order WHERE id = %s", [order_id])
    with office.sandbox.service() as service:
        service.orders.simulate(UUID(order_id), dotted("corrected", method))
    office.house.sync("orders")
    wait_until(
        lambda: office.house.value(
            "SELECT version > signed FROM orders_review WHERE order_id = %s", [order_id]
        ),
        60,
        "it is in the queue again",
    )
    page.open(f"{office.url}/results/?mine=on")
    wait_until(lambda: marked(page) == order_id, 60, "for who signed it")
    page.sees("What the correction changed")
    go(page, "s", lambda: marked(page) != order_id, "signed again")


def test_only_what_is_out_of_range_and_the_document_beside(page: Browser, office: Office) -> None:
    first_of(page, f"{office.url}/results/?place=abnormal")
    rows = f"return {VALUES}.filter(row => row.checkVisibility()).length"
    for _ in range(20):
        if page.run("return Boolean(document.querySelector('#only-flagged'))"):
            break
        was = marked(page)
        go(page, "j", lambda was=was: marked(page) not in ("", was), "the next one")  # type: ignore[misc]
    every = page.run(rows)
    press(page, "f")
    wait_until(lambda: 0 < page.run(rows) < every, 60, "normal rows are hidden")
    press(page, "f")
    wait_until(lambda: page.run(rows) == every, 60, "and shown")
    press(page, "p")
    page.find("details.original[open] iframe")
    order_id = marked(page)
    wait_until(
        lambda: office.house.value(
            "SELECT count(*) FROM backoffice_auditentry WHERE object_type = 'result document'"
            " AND %s = ANY(object_ids)",
            [order_id],
        ),
        60,
        "the document was asked for, and that is recorded",
    )
