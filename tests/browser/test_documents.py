"""Browser tests of printing documents of one order and of several orders as one PDF."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.browser import Browser, browser, needs_browser
from tests.browser.office import Office, running_office, save_screenshot
from tests.outbox.draw_orders import book_visit_at_service, place_order
from tests.waiting import wait_until

pytestmark = needs_browser

READY = "low_level_status = 'requisition_created' AND patient_dob IS NOT NULL"
PRINTED = (
    "SELECT count(*) FROM audit_auditentry WHERE object_type = 'requisition'"
    " AND action = 'print' AND '{}' = ANY(object_ids)"
)


@pytest.fixture(scope="module")
def office(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Office]:
    with running_office(tmp_path_factory.mktemp("back_offices")) as office:
        for name in ("Nora", "Olga", "Paul"):
            place_order(office.sandbox, "walk_in_test", name=name)
        visited = place_order(office.sandbox, "at_home_phlebotomy", name="Vera")
        book_visit_at_service(office.sandbox, visited)
        office.back_office.sync()
        yield office


@pytest.fixture(scope="module")
def page(office: Office) -> Iterator[Browser]:
    with browser() as opened:
        office.log_in(opened, "clinician")
        yield opened


def order_of_patient(office: Office, name: str) -> str:
    statement = f"SELECT id FROM orders_order WHERE patient_first_name = '{name}' LIMIT 1"
    return str(office.back_office.value(statement))


def url_of_new_tab(page: Browser, css: str) -> str:
    """Click a link that opens a tab. Close the tab and return its URL."""
    before = page.call("GET", "/window/handles")
    page.click(css)
    found: list[str] = []

    def tab_is_open() -> bool:
        found[:] = [
            handle for handle in page.call("GET", "/window/handles") if handle not in before
        ]
        return bool(found)

    wait_until(tab_is_open, 30, "a new tab", every=0.05)
    page.call("POST", "/window", {"handle": found[0]})
    wait_until(lambda: page.url != "about:blank", 30, "the tab has an address", every=0.05)
    address = page.url
    page.call("DELETE", "/window")
    page.call("POST", "/window", {"handle": before[0]})
    page.resize(1280, 900)
    return address


def wait_for_print(office: Office, order_id: str, times: int = 1) -> None:
    statement = PRINTED.format(order_id)
    wait_until(lambda: office.back_office.value(statement) == times, 30, "the print is recorded")


def test_requisition_is_printed_from_order_list_and_visit(page: Browser, office: Office) -> None:
    order_id = order_of_patient(office, "Vera")
    link = f'a[href="/orders/{order_id}/documents/requisition/"][target]'
    page.open(f"{office.url}/orders/{order_id}/")
    save_screenshot(page, "documents-order")
    assert url_of_new_tab(page, link).endswith(f"/{order_id}/documents/requisition/")
    wait_for_print(office, order_id)

    row = f'th a[href="/orders/{order_id}/documents/"]'
    page.open(f"{office.url}/orders/")
    right = page.run(
        "return document.querySelector(arguments[0]).getBoundingClientRect().right", row
    )
    assert right < 640, "visible without scrolling in a window of 1280 px"
    page.click(row)
    page.find(f".drawer {link}")
    save_screenshot(page, "documents-list")
    url_of_new_tab(page, f".drawer {link}")
    wait_for_print(office, order_id, 2)

    page.open(f"{office.url}/appointments/")
    if not page.find_all(f'a[href="/orders/{order_id}/documents/"]'):
        page.open(f"{office.url}/appointments/?show=upcoming")
    page.click(f'details:has(a[href="/orders/{order_id}/documents/"]) > summary')
    page.click(f'a[href="/orders/{order_id}/documents/"]')
    page.find(f".drawer {link}")
    assert page.find_all("#list tbody tr"), "the list stays under the drawer"
    save_screenshot(page, "documents-visit")
    url_of_new_tab(page, f".drawer {link}")
    wait_for_print(office, order_id, 3)


def test_response_that_is_not_a_pdf_is_explained(page: Browser, office: Office) -> None:
    order_id = order_of_patient(office, "Nora")
    address = f"{office.url}/orders/{order_id}/documents/requisition/"
    answers: list[tuple[dict[str, Any], str]] = [
        ({"status": 404, "body": {"detail": "none"}}, "The service has no requisition"),
        ({"status": 403, "body": {"detail": "closed beta"}}, "refused to send this document"),
        ({"body": "<html>", "headers": {"Content-Type": "application/pdf"}}, "a readable PDF"),
    ]
    for answer, message in answers:
        office.sandbox.prepare_answer("/requisition/pdf", **answer)
        page.open(address)
        page.wait_for_text(message)
    save_screenshot(page, "documents-none")
    assert office.back_office.value(PRINTED.format(order_id)) == 0


def test_several_orders_are_printed_as_one_pdf(page: Browser, office: Office) -> None:
    names = ("Nora", "Olga", "Paul")
    orders = [order_of_patient(office, name) for name in names]
    unready = office.back_office.value(
        "SELECT id FROM orders_order WHERE low_level_status = 'completed' AND NOT has_abn LIMIT 1"
    )
    office.sandbox.prepare_answer(
        f"/v3/order/{orders[1]}/requisition/pdf", status=404, body={"detail": "none"}
    )
    page.open(f"{office.url}/orders/?size=100")
    for order_id in (*orders, unready):
        page.run("document.querySelector(arguments[0]).click()", f'input[value="{order_id}"]')
    page.click('button[formaction="/orders/documents/print/"]')
    page.wait_for_text("Prepare PDF for 4 orders")
    page.click('input[value="abn"]')
    save_screenshot(page, "documents-choose")
    page.click('button[name="go"]')
    page.wait_for_text("Skipped", 60)
    page.wait_for_text("No ABN is needed for this order.")
    page.wait_for_text("The service has no requisition for this order")
    save_screenshot(page, "documents-job")
    link = 'a[href$="/file/"]'
    assert "/orders/documents/" in url_of_new_tab(page, link)
    wait_for_print(office, orders[0])
    page.click('form[action$="/retry/"] button')
    page.wait_for_text("4 documents", 60)
    page.open(f"{office.url}/orders/documents/")
    page.wait_for_text("Your print jobs")
    save_screenshot(page, "documents-jobs")
