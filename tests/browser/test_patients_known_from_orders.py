"""A patient known only from orders is found by phone and email and can be ordered for."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.browser import Browser, browser, needs_browser
from tests.browser.office import ENTER, Office, running_office, save_screenshot

pytestmark = needs_browser
PATIENT_KNOWN_FROM_ORDERS = """
SELECT id, first_name, last_name, phone_number, email FROM patients_patient AS one
WHERE fields_from_order @> '{name,phone,email}'
AND NOT EXISTS (SELECT FROM patients_patient AS other WHERE other.id <> one.id
 AND (other.phone_digits = one.phone_digits OR other.email = one.email))
AND NOT EXISTS (SELECT FROM patients_demographics WHERE user_id = one.id)
ORDER BY name_key LIMIT 1
"""


@pytest.fixture(scope="module")
def office(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Office]:
    with running_office(tmp_path_factory.mktemp("back_offices"), users=60, orders=150) as office:
        yield office


@pytest.fixture
def page(office: Office) -> Iterator[Browser]:
    with browser() as opened:
        office.log_in(opened, "clinician")
        yield opened


@pytest.fixture
def patient(office: Office) -> tuple[Any, ...]:
    """Return id, first name, last name, phone number and email of such a patient."""
    found: tuple[Any, ...] = office.back_office.query(PATIENT_KNOWN_FROM_ORDERS)[0]
    return found


def test_patient_is_found_by_phone_and_can_be_ordered_for(
    page: Browser, office: Office, patient: tuple[Any, ...]
) -> None:
    key, first, last, number, _ = patient
    digits = number[-10:]
    page.open(f"{office.url}/patients/")
    page.type("#id_q", f"({digits[:3]}) {digits[3:6]}-{digits[6:]}{ENTER}")
    page.wait_for_text("1 match")
    page.wait_for_text("From order of")
    save_screenshot(page, "found by phone")
    page.click_text(f"{first} {last}")
    page.wait_for_text("No demographics on file")
    save_screenshot(page, "patient of an order")
    page.open(f"{office.url}/orders/new/{key}/")
    page.wait_for_text(f"{first} {last}")
    assert page.run("return document.getElementById('id_last_name').value") == last
    save_screenshot(page, "order for a patient of an order")


def test_patient_is_found_by_email_in_search_box(
    page: Browser, office: Office, patient: tuple[Any, ...]
) -> None:
    _, first, last, _, email = patient
    page.type("#find", email)
    page.find("#found-p1")
    assert f"{first} {last}" in page.text("#found-p1")
    assert "From order of" in page.text("#found-p1")
    assert not page.find_all("#found-p2")
    page.type("#find", ENTER)
    page.wait_for_text("No demographics on file")
    save_screenshot(page, "found by email")
