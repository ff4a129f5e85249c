"""Journey 10b: change which teams may use a lab account, after what follows was on screen."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.browser import Browser, browser, needs_browser
from tests.browser.office import Office, at_work
from tests.sync.house import wait_until

pytestmark = needs_browser
ACCOUNT = "Made-up account east-main"
THIRD = "7ea00000-0000-4000-8000-000000000003"
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


def picture(page: Browser, name: str) -> None:
    """For people who want to see it: set PICTURES to a folder."""
    folder = os.environ.get("PICTURES")
    if folder:
        for width in (1280, 390):
            page.resize(width, 900)
            for scheme in ("light", "dark"):
                page.prefer(scheme)
                page.screenshot(Path(folder) / f"{name}-{width}-{scheme}.png")
        page.resize(1280, 900)
        page.prefer("light")


def teams(office: Office) -> set[str]:
    found = office.sandbox.query(
        "SELECT unnest(team_id_allowlist) FROM sandbox_labaccount WHERE account_name = %s",
        [ACCOUNT],
    )
    return {str(row[0]) for row in found}


def test_a_team_is_let_in_within_six_interactions(page: Browser, office: Office) -> None:
    before = teams(office)
    page.link("Labs")
    page.link(ACCOUNT)
    page.sees("Add or remove a team to see what follows")
    page.click(f"input[value='{THIRD}']")
    page.sees("One active account at this lab")
    page.type("#id_reason", "the third clinic opens")
    picture(page, "allowlist")
    page.link("Save")
    interactions = 5
    assert interactions <= MOST
    page.sees("Confirmed")
    assert teams(office) == before | {THIRD}
    reasons = office.house.value(
        "SELECT string_agg(reason, '') FROM backoffice_auditentry"
        " WHERE object_type = 'lab_account.allowlist' AND action = 'change'"
    )
    assert reasons == "the third clinic opens"


def test_a_team_left_with_nothing_is_typed_in_the_sixth(page: Browser, office: Office) -> None:
    page.link("Labs")
    page.link(ACCOUNT)
    page.click(f"input[value='{SECOND}']")
    page.sees("No active account at this lab is left")
    page.type("#id_reason", "the second clinic closed")
    picture(page, "allowlist-none-left")
    page.link("Save")
    page.sees("Type which team is left without an account")
    assert SECOND in teams(office)
    assert page.run("return document.querySelector('#id_reason').value") == (
        "the second clinic closed"
    )
    page.type("#id_confirm", SECOND[-6:])
    page.link("Save")
    wait_until(lambda: SECOND not in teams(office), 20, "the list is written")
    page.sees("Confirmed")


def test_a_stranger_changed_the_list_meanwhile(page: Browser, office: Office) -> None:
    page.link("Labs")
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
