"""Journey 10b: change which teams may use a lab account, after what follows was on screen."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.browser import Browser, browser, needs_browser
from tests.browser.office import Office, at_work, picture
from tests.sync.house import wait_until

pytestmark = needs_browser
ACCOUNT = "Made-up account east-main"
THIRD = "7ea00000-0000-4000-8000-000000000003"
OURS = "7ea00000-0000-4000-8000-000000000001"
SECOND = "7ea00000-0000-4000-8000-000000000002"
MOST = 6
"""Interactions: clicks, and fields typed into."""


@pytest.fixture(scope="module")
def office(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Office]:
    with at_work(tmp_path_factory.mktemp("journey-10b"), users=6, orders=20) as found:
        yield found


@pytest.fixture
def page(office: Office) -> Iterator[Browser]:
    with browser() as opened:
        office.log_in(opened, "lab-admin")
        yield opened


def teams(office: Office) -> set[str]:
    found = office.sandbox.query(
        "SELECT unnest(team_id_allowlist) FROM sandbox_labaccount WHERE account_name = %s",
        [ACCOUNT],
    )
    return {str(row[0]) for row in found}


class Counted:
    """The hands of a person: every press, and every field typed into, is one interaction."""

    def __init__(self, page: Browser) -> None:
        self._page = page
        self.interactions = 0

    def link(self, words: str) -> None:
        self.interactions += 1
        self._page.link(words)

    def click(self, css: str) -> None:
        self.interactions += 1
        self._page.click(css)

    def type(self, css: str, text: str) -> None:
        self.interactions += 1
        self._page.type(css, text)


def test_a_team_is_let_in_within_six_interactions(page: Browser, office: Office) -> None:
    before = teams(office)
    hands = Counted(page)
    hands.link("Catalogue & accounts")
    hands.link(ACCOUNT)
    page.sees("Add or remove a team to see what follows")
    hands.click(f"input[value='{THIRD}']")
    page.sees("One active account at this lab")
    hands.type("#id_reason", "the third clinic opens")
    picture(page, "allowlist")
    hands.link("Save")
    page.sees("Confirmed")
    assert hands.interactions <= MOST
    assert teams(office) == before | {THIRD}
    reasons = office.house.value(
        "SELECT string_agg(reason, '') FROM backoffice_auditentry"
        " WHERE object_type = 'lab_account.allowlist' AND action = 'change'"
    )
    assert reasons == "the third clinic opens"


def test_orders_are_replayed_before_our_team_leaves(page: Browser, office: Office) -> None:
    """Nothing is saved: the page shows which of our orders the change would have refused."""
    page.link("Catalogue & accounts")
    page.link("Made-up account north-main")
    page.click(f"[type=checkbox][value='{OURS}']")
    page.sees("orders would have been refused")
    rows = "return document.querySelectorAll('#replayed tbody a[href^=\"/orders/\"]').length"
    placed = office.house.value(
        "SELECT count(*) FROM orders_order WHERE lab_slug = 'lab-north'"
        " AND origin <> 'redraw' AND created_at > now() - interval '90 days'"
    )
    page.sees(f"{placed} of {placed} orders would have been refused")
    assert page.run(rows) == min(placed, 25)
    picture(page, "allowlist-replayed")


def test_account_page_names_tests_that_it_lacks(page: Browser, office: Office) -> None:
    page.link("Catalogue & accounts")
    page.link("Made-up account west-second")
    page.sees("Last checked")
    assert "Stress Kit" in page.text("[aria-labelledby=catalog]")
    picture(page, "account-catalog-card")
    page.link("See all")
    page.sees("Gut Kit")
    picture(page, "account-catalog")
    page.click("a[href='?show=missing-tests']")
    page.sees("Stress Kit")
    page.click("a[href='?show=missing-markers']")
    page.sees("Catalog of Made-up account west-second")


def test_a_save_that_failed_leaves_everything_as_it_was(page: Browser, office: Office) -> None:
    before = teams(office)
    page.link("Catalogue & accounts")
    page.link(ACCOUNT)
    page.click(f"input[value='{SECOND}']")
    page.sees("No active account at this lab is left")
    page.type("#id_reason", "the second clinic closed")
    page.link("Save")
    page.sees("Type which team is left without an account")
    picture(page, "allowlist-none-left")
    assert teams(office) == before
    typed = "return document.querySelector('#id_reason').value"
    ticked = f"return document.querySelector(\"input[value='{SECOND}']\").checked"
    assert page.run(typed) == "the second clinic closed" and page.run(ticked) is False


def test_a_team_left_with_nothing_is_named_within_six(page: Browser, office: Office) -> None:
    before = teams(office)
    assert SECOND in before
    hands = Counted(page)
    hands.link("Catalogue & accounts")
    hands.link(ACCOUNT)
    hands.click(f"input[value='{SECOND}']")
    page.sees("No active account at this lab is left")
    hands.type("#id_confirm", SECOND[-6:])
    hands.type("#id_reason", "the second clinic closed")
    hands.link("Save")
    assert hands.interactions <= MOST
    wait_until(lambda: SECOND not in teams(office), 60, "the list is written")
    assert teams(office) == before - {SECOND}


def test_a_stranger_changed_the_list_meanwhile(page: Browser, office: Office) -> None:
    page.link("Catalogue & accounts")
    page.link(ACCOUNT)
    page.click(f"input[value='{THIRD}']")
    page.sees("What follows")
    page.type("#id_reason", "mine")
    now = teams(office)
    with office.sandbox.service() as service:
        account = next(
            one.data for one in service.management.lab_accounts().records
            if one.data.account_name == ACCOUNT
        )  # fmt: skip
        service.management.set_allowlist(account.id, [])
    page.type("#id_confirm", THIRD[-6:])
    page.link("Save")
    page.sees("Somebody else changed the list meanwhile")
    page.link("Correct it")
    page.sees("There now")
    picture(page, "allowlist-conflict")
    assert now and not teams(office)
