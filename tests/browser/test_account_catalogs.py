"""Orders and imports by what lab accounts offer, in a real browser, up to the sandbox."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from tests.browser import Browser, browser, needs_browser
from tests.browser.office import ENTER, Office, at_work, picture
from tests.sync.house import wait_until

pytestmark = needs_browser

SHARED, SECOND = "Made-up account south-shared", "Made-up account south-second"
PENDING = "Made-up account north-pending"
WAIT = 40
"""Seconds for a worker that shares the machine with other tests."""


@dataclass
class Place:
    """An office, a patient whom labs accept, and two accounts of one lab that offer unlike
    things."""

    office: Office
    patient: str

    def page(self, name: str) -> str:
        return f"{self.office.url}/orders/{name}/{self.patient}/"

    def account(self, name: str) -> str:
        rows = self.office.house.query(
            "SELECT id::text FROM labs_labaccount WHERE account_name = %s", (name,)
        )
        return str(rows[0][0])

    def tests(self, account: str, lab: str, *, offered: bool) -> list[tuple[str, str]]:
        """Ids and names of active tests at the lab that the account offers, or does not."""
        return self.office.house.query(
            "SELECT t.id::text, t.name FROM labs_labtest t JOIN labs_lab l ON l.id = t.lab_id"
            " WHERE l.slug = %s AND t.status = 'active' AND NOT t.auto_generated AND EXISTS ("
            "  SELECT 1 FROM labs_labaccounttest o WHERE o.lab_test_id = t.id"
            "  AND o.account_id = %s::uuid) = %s ORDER BY t.name",
            (lab, self.account(account), offered),
        )

    def writes(self) -> list[str]:
        """Paths of the writes that reached the service."""
        return [str(write["path"]) for write in self.office.sandbox.control("writes")["writes"]]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    with at_work(tmp_path_factory.mktemp("houses")) as office:
        office.sandbox.query(
            "UPDATE sandbox_labaccount SET status = 'active' WHERE account_name = %s RETURNING 1",
            (SECOND,),
        )
        office.house.sync()
        patient = office.house.query(
            "SELECT user_id::text FROM patients_demographics WHERE dob < '2000-01-01'"
            " AND zip <> '' AND email <> '' AND first_name || last_name ~ '^[A-Za-z]+$'"
            " ORDER BY user_id LIMIT 1"
        )[0][0]
        office.house.query("UPDATE orders_order SET created_at = created_at - interval '90 days'")
        yield Place(office, str(patient))


@pytest.fixture(scope="module")
def page(place: Place) -> Iterator[Browser]:
    with browser() as opened:
        place.office.log_in(opened, "clinician")
        yield opened


def choose(page: Browser, test: tuple[str, str]) -> None:
    """Search for a test by its name, and tick it."""
    key, name = test
    page.type("#id_panel", name)
    page.find(f'#choices input[value="{key}"]')
    page.type("#id_panel", ENTER)
    page.find(f'.chosen-tests input[value="{key}"]')


def test_order_under_account_that_lacks_test_is_not_sent(page: Browser, place: Place) -> None:
    test, other = place.tests(SECOND, "lab-south", offered=False)
    before = place.writes()
    page.open(place.page("new"))
    choose(page, test)
    page.sees(f"{SHARED}, the only account that offers everything ordered")
    page.sees("Nothing is in the way.")
    assert f"does not offer: {test[1]}" in page.text("#id_lab_account")
    page.click(f'#id_lab_account option[value="{place.account(SECOND)}"]')
    words = f"{SECOND} does not offer {test[1]}. Accounts that offer everything ordered: {SHARED}."
    page.sees(words)
    picture(page, "account-lacks-test")
    page.click("[data-review]")
    page.find("#id_lab_account[aria-invalid]")
    page.sees(words)
    assert "/review/" not in page.url
    page.type("#id_panel", other[1])
    page.sees(f"{other[1]} Not offered by {SECOND}")
    picture(page, "search-not-offered")
    assert place.writes() == before, "nothing is sent"
    assert place.office.house.query("SELECT count(*) FROM backoffice_commandrecord") == [(0,)]


def test_import_under_pending_account_succeeds(page: Browser, place: Place) -> None:
    test = place.tests(PENDING, "lab-north", offered=True)[0]
    page.open(place.page("import"))
    choose(page, test)
    page.type("#id_sample_id", "PENDING-1")
    page.sees("2 accounts can be used")
    page.click(f'#id_lab_account option[value="{place.account(PENDING)}"]')
    page.sees("Nothing is in the way.")
    picture(page, "import-under-pending-account")
    page.click("[data-review]")
    page.sees("Import this order?")
    assert PENDING in page.text("form.review")
    page.click("form.review button.primary")
    page.sees("The order is imported.", WAIT)
    rows = place.office.sandbox.query(
        "SELECT a.account_name, a.status FROM sandbox_order o"
        " JOIN sandbox_labaccount a ON a.id = o.lab_account_id WHERE o.sample_id = 'PENDING-1'"
    )
    assert rows == [(PENDING, "pending")]


def test_import_under_pending_account_that_lacks_test_is_not_sent(
    page: Browser, place: Place
) -> None:
    test = place.tests(PENDING, "lab-north", offered=False)[0]
    before = place.writes()
    page.open(place.page("import"))
    choose(page, test)
    page.click(f'#id_lab_account option[value="{place.account(PENDING)}"]')
    page.sees(f"{PENDING} does not offer {test[1]}.")
    page.click("[data-review]")
    page.find("#id_lab_account[aria-invalid]")
    assert place.writes() == before


def test_table_names_account_chosen_for_each_row(page: Browser, place: Place) -> None:
    lacking = place.tests(SECOND, "lab-south", offered=False)[0][1]
    page.open(f"{place.office.url}/orders/import/")
    rows = [
        "patient,test,sample_id,lab_account",
        f"{place.patient},{lacking},ROW-1,",
        f"{place.patient},{lacking},ROW-2,{SECOND}",
    ]
    page.type("#id_rows", "\n".join(rows))
    page.link("Check the rows")
    page.sees("only one that offers the test")
    page.sees(f"{SECOND} does not offer {lacking}.")
    picture(page, "import-table-accounts")
    page.link("Import 1 good row")
    wait_until(
        lambda: (
            place.office.sandbox.query(
                "SELECT a.account_name FROM sandbox_order o"
                " JOIN sandbox_labaccount a ON a.id = o.lab_account_id WHERE o.sample_id = 'ROW-1'"
            )
            == [(SHARED,)]
        ),
        WAIT,
        "the import under the account that offers the test",
    )
