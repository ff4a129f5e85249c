"""In a real browser: a patient whom only orders name is found by phone and by email, and ordered
for."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.browser import Browser, browser, needs_browser
from tests.browser.office import ENTER, Office, at_work, picture

pytestmark = needs_browser
ONLY_ORDERS = """
SELECT id, first_name, last_name, phone_number, email FROM patients_patient AS one
WHERE fields_from_order @> '{name,phone,email}'
AND NOT EXISTS (SELECT FROM patients_patient AS other WHERE other.id <> one.id
 AND (other.phone_digits = one.phone_digits OR other.email = one.email))
AND NOT EXISTS (SELECT FROM patients_demographics WHERE user_id = one.id)
ORDER BY name_key LIMIT 1
"""


@pytest.fixture(scope="module")
def office(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Office]:
    with at_work(tmp_path_factory.mktemp("houses"), users=60, orders=150) as office:
        yield office


@pytest.fixture
def page(office: Office) -> Iterator[Browser]:
    with browser() as opened:
        office.log_in(opened, "clinician")
        yield opened


@pytest.fixture
def patient(office: Office) -> tuple[Any, ...]:
    """Id, first name, last name, phone number, email."""
    found: tuple[Any, ...] = office.house.query(ONLY_ORDERS)[0]
    return found


def test_found_by_phone_and_ordered_for(
    page: Browser, office: Office, patient: tuple[Any, ...]
) -> None:
    key, first, last, number, _ = patient
    digits = number[-10:]
    page.open(f"{office.url}/patients/")
    page.type("#id_q", f"({digits[:3]}) {digits[3:6]}-{digits[6:]}{ENTER}")
    page.sees("1 match")
    page.sees("From order of")
    picture(page, "found by phone")
    page.link(f"{first} {last}")
    page.sees("No demographics on file")
    picture(page, "patient of an order")
    page.open(f"{office.url}/orders/new/{key}/")
    page.sees(f"{first} {last}")
    assert page.run("return document.getElementById('id_last_name').value") == last
    picture(page, "order for a patient of an order")


def test_found_by_email_in_the_search_box(
    page: Browser, office: Office, patient: tuple[Any, ...]
) -> None:
    _, first, last, _, email = patient
    page.type("#find", email)
    page.find("#found-p1")
    assert f"{first} {last}" in page.text("#found-p1")
    assert "From order of" in page.text("#found-p1")
    assert not page.all("#found-p2")
    page.type("#find", ENTER)
    page.sees("No demographics on file")
    picture(page, "found by email")
