"""Journey 8, second half: a stray result is given to its patient and does not vanish."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.browser import Browser, browser, needs_browser
from tests.browser.office import Office, at_work
from tests.outbox.matching import make
from tests.sync.house import wait_until

pytestmark = needs_browser
STRAY = "Nemo Unmatched"


@pytest.fixture(scope="module")
def office(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Office]:
    with at_work(tmp_path_factory.mktemp("journey-8"), users=6, orders=20) as found:
        yield found


@pytest.fixture
def page(office: Office) -> Iterator[Browser]:
    with browser() as opened:
        office.log_in(opened, "clinician")
        yield opened


def test_a_result_that_fits_is_accepted_and_its_order_opens(page: Browser, office: Office) -> None:
    """Two presses from the card; the order that comes back is another than was suggested."""
    stray = make(office.sandbox, "match_completed", interpretation="abnormal")
    office.house.sync("unmatched")
    page.open(f"{office.url}/unmatched/{stray}/")
    page.sees("Order has a result")
    page.link("Accept")
    wait_until(lambda: "/orders/" in page.url, 60, "the order is open")
    page.sees("Recreated")
    page.sees("Result in")
    new = page.url.rstrip("/").rpartition("/")[2]
    wait_until(
        lambda: bool(
            office.house.value("SELECT count(*) FROM orders_result WHERE order_id = %s", [new])
        ),
        60,
        "its values are read",
    )


def test_a_result_of_nobody_known_goes_to_a_patient(page: Browser, office: Office) -> None:
    make(office.sandbox, "no_match")
    office.house.sync("unmatched")
    [(first, last)] = office.sandbox.query(
        "SELECT first_name, last_name FROM sandbox_userinfo ORDER BY user_id LIMIT 1"
    )
    page.click(".nav a[data-go=r]")
    page.link("Unmatched")
    page.link(STRAY)
    page.link("Accept")
    page.sees("Say which order or patient it belongs to")
    page.type("#find-patient", f"{first} {last}")
    page.click(".other button[name=search]")
    page.sees(f"{first} {last}")
    assert last not in page.url, "names stay out of addresses"
    page.click(".other input[type=radio]")
    page.link("Accept")
    wait_until(lambda: "/orders/" in page.url, 60, "the order is open")
    page.sees("Result in")
    page.sees(f"{first} {last}")
