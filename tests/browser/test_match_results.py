"""Journey 8, second half: an unmatched result is assigned to its patient."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.browser import Browser, browser, needs_browser
from tests.browser.office import Office, running_office
from tests.outbox.unmatched_results import create_unmatched_result
from tests.waiting import wait_until

pytestmark = needs_browser
UNMATCHED_NAME = "Nemo Unmatched"


@pytest.fixture(scope="module")
def office(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Office]:
    with running_office(tmp_path_factory.mktemp("journey-8"), users=6, orders=20) as office:
        yield office


@pytest.fixture
def page(office: Office) -> Iterator[Browser]:
    with browser() as opened:
        office.log_in(opened, "clinician")
        yield opened


def test_accepting_suggested_order_opens_recreated_order(page: Browser, office: Office) -> None:
    """The service answers with a new order, not the suggested one."""
    result_id = create_unmatched_result(
        office.sandbox, "match_completed", interpretation="abnormal"
    )
    office.back_office.sync("unmatched")
    page.open(f"{office.url}/unmatched/{result_id}/")
    page.wait_for_text("Order has a result")
    page.click_text("Accept")
    wait_until(lambda: "/orders/" in page.url, 60, "the order is open")
    page.wait_for_text("Recreated")
    page.wait_for_text("Result in")
    order_id = page.url.rstrip("/").rpartition("/")[2]
    wait_until(
        lambda: bool(
            office.back_office.value(
                "SELECT count(*) FROM orders_result WHERE order_id = %s", [order_id]
            )
        ),
        60,
        "its values are read",
    )


def test_result_without_suggestion_is_assigned_to_patient(page: Browser, office: Office) -> None:
    create_unmatched_result(office.sandbox, "no_match")
    office.back_office.sync("unmatched")
    [(first, last)] = office.sandbox.query(
        "SELECT first_name, last_name FROM sandbox_userinfo ORDER BY user_id LIMIT 1"
    )
    page.click(".nav a[data-go=r]")
    page.click_text("Unmatched")
    page.click_text(UNMATCHED_NAME)
    page.click_text("Accept")
    page.wait_for_text("Say which order or patient it belongs to")
    page.type("#find-patient", f"{first} {last}")
    page.click(".other button[name=search]")
    page.wait_for_text(f"{first} {last}")
    assert last not in page.url, "the name is in the URL"
    page.click(".other input[type=radio]")
    page.click_text("Accept")
    wait_until(lambda: "/orders/" in page.url, 60, "the order is open")
    page.wait_for_text("Result in")
    page.wait_for_text(f"{first} {last}")
