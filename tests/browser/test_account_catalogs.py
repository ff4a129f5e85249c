"""Orders and imports under lab accounts that offer some tests only, in a real browser."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from tests.browser import Browser, browser, needs_browser
from tests.browser.office import ENTER, Office, running_office, save_screenshot
from tests.waiting import wait_until

pytestmark = needs_browser

SHARED, SECOND = "Made-up account south-shared", "Made-up account south-second"
PENDING = "Made-up account north-pending"
WORKER_SECONDS = 40
"""Seconds. The worker shares the machine with other tests."""


@dataclass
class OrderOffice:
    """An office, a patient whom labs accept, and two accounts of one lab with different tests."""

    office: Office
    patient: str

    def page(self, name: str) -> str:
        return f"{self.office.url}/orders/{name}/{self.patient}/"

    def account(self, name: str) -> str:
        rows = self.office.back_office.query(
            "SELECT id::text FROM labs_labaccount WHERE account_name = %s", (name,)
        )
        return str(rows[0][0])

    def tests(self, account: str, lab: str, *, offered: bool) -> list[tuple[str, str]]:
        """Return ids and names of the lab's active tests that the account offers, or lacks."""
        return self.office.back_office.query(
            "SELECT t.id::text, t.name FROM labs_labtest t JOIN labs_lab l ON l.id = t.lab_id"
            " WHERE l.slug = %s AND t.status = 'active' AND NOT t.auto_generated AND EXISTS ("
            "  SELECT 1 FROM labs_labaccounttest o WHERE o.lab_test_id = t.id"
            "  AND o.account_id = %s::uuid) = %s ORDER BY t.name",
            (lab, self.account(account), offered),
        )

    def writes(self) -> list[str]:
        """Return the paths of the writes that reached the service."""
        return [str(write["path"]) for write in self.office.sandbox.control("writes")["writes"]]


@pytest.fixture(scope="module")
def clinic(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OrderOffice]:
    with running_office(tmp_path_factory.mktemp("back_offices")) as office:
        office.sandbox.query(
            "UPDATE sandbox_labaccount SET status = 'active' WHERE account_name = %s RETURNING 1",
            (SECOND,),
        )
        office.back_office.sync()
        patient = office.back_office.query(
            "SELECT user_id::text FROM patients_demographics WHERE dob < '2000-01-01'"
            " AND zip <> '' AND email <> '' AND first_name || last_name ~ '^[A-Za-z]+$'"
            " ORDER BY user_id LIMIT 1"
        )[0][0]
        office.back_office.query(
            "UPDATE orders_order SET created_at = created_at - interval '90 days'"
        )
        yield OrderOffice(office, str(patient))


@pytest.fixture(scope="module")
def page(clinic: OrderOffice) -> Iterator[Browser]:
    with browser() as opened:
        clinic.office.log_in(opened, "clinician")
        yield opened


def choose(page: Browser, test: tuple[str, str]) -> None:
    """Search for a test by name and choose it."""
    key, name = test
    page.type("#id_panel", name)
    page.find(f'#choices input[value="{key}"]')
    page.type("#id_panel", ENTER)
    page.find(f'.chosen-tests input[value="{key}"]')


def test_order_under_account_lacking_the_test_is_not_sent(
    page: Browser, clinic: OrderOffice
) -> None:
    test, other = clinic.tests(SECOND, "lab-south", offered=False)
    before = clinic.writes()
    page.open(clinic.page("new"))
    choose(page, test)
    page.wait_for_text(f"{SHARED}, the only account that offers everything ordered")
    page.wait_for_text("No problems found.")
    assert f"does not offer: {test[1]}" in page.text("#id_lab_account")
    page.click(f'#id_lab_account option[value="{clinic.account(SECOND)}"]')
    message = (
        f"{SECOND} does not offer {test[1]}. Accounts that offer everything ordered: {SHARED}."
    )
    page.wait_for_text(message)
    save_screenshot(page, "account-lacks-test")
    page.click("[data-review]")
    page.find("#id_lab_account[aria-invalid]")
    page.wait_for_text(message)
    assert "/review/" not in page.url
    page.type("#id_panel", other[1])
    page.wait_for_text(f"{other[1]} Not offered by {SECOND}")
    save_screenshot(page, "search-not-offered")
    assert clinic.writes() == before, "nothing is sent"
    assert clinic.office.back_office.query("SELECT count(*) FROM outbox_commandrecord") == [(0,)]


def test_import_under_pending_account_succeeds(page: Browser, clinic: OrderOffice) -> None:
    test = clinic.tests(PENDING, "lab-north", offered=True)[0]
    page.open(clinic.page("import"))
    choose(page, test)
    page.type("#id_sample_id", "PENDING-1")
    page.wait_for_text("2 accounts can be used")
    page.click(f'#id_lab_account option[value="{clinic.account(PENDING)}"]')
    page.wait_for_text("No problems found.")
    save_screenshot(page, "import-under-pending-account")
    page.click("[data-review]")
    page.wait_for_text("Import this order?")
    assert PENDING in page.text("form.review")
    page.click("form.review button.primary")
    page.wait_for_text("Order imported.", WORKER_SECONDS)
    rows = clinic.office.sandbox.query(
        "SELECT a.account_name, a.status FROM sandbox_order o"
        " JOIN sandbox_labaccount a ON a.id = o.lab_account_id WHERE o.sample_id = 'PENDING-1'"
    )
    assert rows == [(PENDING, "pending")]


def test_import_under_account_lacking_the_test_is_not_sent(
    page: Browser, clinic: OrderOffice
) -> None:
    test = clinic.tests(PENDING, "lab-north", offered=False)[0]
    before = clinic.writes()
    page.open(clinic.page("import"))
    choose(page, test)
    page.click(f'#id_lab_account option[value="{clinic.account(PENDING)}"]')
    page.wait_for_text(f"{PENDING} does not offer {test[1]}.")
    page.click("[data-review]")
    page.find("#id_lab_account[aria-invalid]")
    assert clinic.writes() == before


def test_import_table_shows_account_chosen_for_each_row(page: Browser, clinic: OrderOffice) -> None:
    test_name = clinic.tests(SECOND, "lab-south", offered=False)[0][1]
    page.open(f"{clinic.office.url}/orders/import/")
    rows = [
        "patient,test,sample_id,lab_account",
        f"{clinic.patient},{test_name},ROW-1,",
        f"{clinic.patient},{test_name},ROW-2,{SECOND}",
    ]
    page.type("#id_rows", "\n".join(rows))
    page.click_text("Check rows")
    page.wait_for_text("only one that offers the test")
    page.wait_for_text(f"{SECOND} does not offer {test_name}.")
    save_screenshot(page, "import-table-accounts")
    page.click_text("Import 1 ready row")
    wait_until(
        lambda: (
            clinic.office.sandbox.query(
                "SELECT a.account_name FROM sandbox_order o"
                " JOIN sandbox_labaccount a ON a.id = o.lab_account_id WHERE o.sample_id = 'ROW-1'"
            )
            == [(SHARED,)]
        ),
        WORKER_SECONDS,
        "the import under the account that offers the test",
    )
