"""Journey 10b: change which teams may use a lab account, after a preview of the effects."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.browser import Browser, browser, needs_browser
from tests.browser.office import Office, running_office, save_screenshot
from tests.waiting import wait_until

pytestmark = needs_browser
ACCOUNT = "Made-up account east-main"
THIRD_TEAM = "7ea00000-0000-4000-8000-000000000003"
OUR_TEAM = "7ea00000-0000-4000-8000-000000000001"
SECOND_TEAM = "7ea00000-0000-4000-8000-000000000002"
MAX_INTERACTIONS = 6
"""Clicks, and fields typed into."""


@pytest.fixture(scope="module")
def office(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Office]:
    with running_office(tmp_path_factory.mktemp("journey-10b"), users=6, orders=20) as office:
        yield office


@pytest.fixture
def page(office: Office) -> Iterator[Browser]:
    with browser() as opened:
        office.log_in(opened, "lab-admin")
        yield opened


def allowed_teams(office: Office) -> set[str]:
    found = office.sandbox.query(
        "SELECT unnest(team_id_allowlist) FROM sandbox_labaccount WHERE account_name = %s",
        [ACCOUNT],
    )
    return {str(row[0]) for row in found}


class InteractionCounter:
    """Count interactions: each click and each field typed into is one."""

    def __init__(self, page: Browser) -> None:
        self._page = page
        self.interactions = 0

    def click_text(self, text: str) -> None:
        self.interactions += 1
        self._page.click_text(text)

    def click(self, css: str) -> None:
        self.interactions += 1
        self._page.click(css)

    def type(self, css: str, text: str) -> None:
        self.interactions += 1
        self._page.type(css, text)


def test_team_is_added_within_six_interactions(page: Browser, office: Office) -> None:
    before = allowed_teams(office)
    person = InteractionCounter(page)
    person.click_text("Catalog & accounts")
    person.click_text(ACCOUNT)
    page.wait_for_text("Add or remove a team to see the effect")
    person.click(f"input[value='{THIRD_TEAM}']")
    page.wait_for_text("One active account at this lab")
    person.type("#id_reason", "the third clinic opens")
    save_screenshot(page, "allowlist")
    person.click_text("Save")
    page.wait_for_text("Confirmed")
    assert person.interactions <= MAX_INTERACTIONS
    assert allowed_teams(office) == before | {THIRD_TEAM}
    reasons = office.back_office.value(
        "SELECT string_agg(reason, '') FROM audit_auditentry"
        " WHERE object_type = 'lab_account.allowlist' AND action = 'change'"
    )
    assert reasons == "the third clinic opens"


def test_preview_shows_orders_that_removal_would_have_refused(
    page: Browser, office: Office
) -> None:
    """The preview saves nothing. It shows which of our orders the change would have refused."""
    page.click_text("Catalog & accounts")
    page.click_text("Made-up account north-main")
    page.click(f"[type=checkbox][value='{OUR_TEAM}']")
    page.wait_for_text("orders would have been refused")
    rows = "return document.querySelectorAll('#replayed tbody a[href^=\"/orders/\"]').length"
    placed = office.back_office.value(
        "SELECT count(*) FROM orders_order WHERE lab_slug = 'lab-north'"
        " AND origin <> 'redraw' AND created_at > now() - interval '90 days'"
    )
    page.wait_for_text(f"{placed} of {placed} orders would have been refused")
    assert page.run(rows) == min(placed, 25)
    save_screenshot(page, "allowlist-replayed")


def test_account_page_shows_tests_it_lacks(page: Browser, office: Office) -> None:
    page.click_text("Catalog & accounts")
    page.click_text("Made-up account west-second")
    page.wait_for_text("Last checked")
    assert "Stress Kit" in page.text("[aria-labelledby=catalog]")
    save_screenshot(page, "account-catalog-card")
    page.click_text("See all")
    page.wait_for_text("Gut Kit")
    save_screenshot(page, "account-catalog")
    page.click("a[href='?show=missing-tests']")
    page.wait_for_text("Stress Kit")
    page.click("a[href='?show=missing-markers']")
    page.wait_for_text("Catalog of Made-up account west-second")


def test_failed_save_changes_nothing_and_keeps_input(page: Browser, office: Office) -> None:
    before = allowed_teams(office)
    page.click_text("Catalog & accounts")
    page.click_text(ACCOUNT)
    page.click(f"input[value='{SECOND_TEAM}']")
    page.wait_for_text("No active account left at this lab")
    page.type("#id_reason", "the second clinic closed")
    page.click_text("Save")
    page.wait_for_text("To confirm, type the name of each team")
    save_screenshot(page, "allowlist-none-left")
    assert allowed_teams(office) == before
    typed = "return document.querySelector('#id_reason').value"
    ticked = f"return document.querySelector(\"input[value='{SECOND_TEAM}']\").checked"
    assert page.run(typed) == "the second clinic closed" and page.run(ticked) is False


def test_team_without_account_is_confirmed_in_six_interactions(
    page: Browser, office: Office
) -> None:
    before = allowed_teams(office)
    assert SECOND_TEAM in before
    person = InteractionCounter(page)
    person.click_text("Catalog & accounts")
    person.click_text(ACCOUNT)
    person.click(f"input[value='{SECOND_TEAM}']")
    page.wait_for_text("No active account left at this lab")
    person.type("#id_confirm", SECOND_TEAM[-6:])
    person.type("#id_reason", "the second clinic closed")
    person.click_text("Save")
    assert person.interactions <= MAX_INTERACTIONS
    wait_until(lambda: SECOND_TEAM not in allowed_teams(office), 60, "the list is written")
    assert allowed_teams(office) == before - {SECOND_TEAM}


def test_concurrent_allowlist_change_is_a_conflict(page: Browser, office: Office) -> None:
    page.click_text("Catalog & accounts")
    page.click_text(ACCOUNT)
    page.click(f"input[value='{THIRD_TEAM}']")
    page.wait_for_text("Effect of this change")
    page.type("#id_reason", "mine")
    before = allowed_teams(office)
    with office.sandbox.service() as service:
        account = next(
            record.data for record in service.management.lab_accounts().records
            if record.data.account_name == ACCOUNT
        )  # fmt: skip
        service.management.set_allowlist(account.id, [])
    page.type("#id_confirm", THIRD_TEAM[-6:])
    page.click_text("Save")
    page.wait_for_text("Someone else changed the allowed teams")
    page.click_text("Correct and resend")
    page.wait_for_text("Your change")
    save_screenshot(page, "allowlist-conflict")
    assert before and not allowed_teams(office)
