"""Journey 7: register a person with insurance, by keyboard alone, on one page, without dead ends."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.browser import Browser, browser, needs_browser
from tests.browser.office import ENTER, SPACE, Office, at_work, focus, press, tab_to
from tests.sync.house import wait_until

pytestmark = needs_browser
SECONDS = 90
PERSON = (
    ("first_name", "Nadia"),
    ("last_name", "Notreal-Sample"),
    ("dob", "05061980"),
    ("gender", "F"),
    ("phone_number", "555 010 0123"),
    ("email", "nadia@example.invalid"),
    ("first_line", "5 Sample Street"),
    ("city", "Phoenix"),
    ("state", "AZ"),
    ("zip", "85004"),
)


@pytest.fixture(scope="module")
def office(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Office]:
    with at_work(tmp_path_factory.mktemp("journey-7")) as found:
        yield found


@pytest.fixture
def page(office: Office) -> Iterator[Browser]:
    with browser() as opened:
        office.log_in(opened, "front-desk")
        yield opened


def fill(page: Browser, *given: tuple[str, str]) -> None:
    for name, text in given:
        tab_to(page, name)
        press(page, text)


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


def test_a_person_with_insurance_by_keyboard(page: Browser, office: Office) -> None:
    press(page, "c")
    press(page, "p")
    page.sees("Possible duplicates")
    began = time.monotonic()
    assert focus(page) == "first_name"
    fill(page, *PERSON)
    fill(page, ("payor_query", "mutual"))
    page.sees("Made-up Mutual")
    picture(page, "register")
    press(page, ENTER)  # Looking is not sending.
    tab_to(page, "payor")
    press(page, SPACE)
    fill(page, ("member_id", "M-1001"), ("group_id", "G-7"))
    press(page, ENTER)
    page.sees("Add primary insurance: Made-up Mutual")
    page.sees("M-1001")
    assert time.monotonic() - began < SECONDS
    page.sees("Nadia Notreal-Sample")
    wait_until(
        lambda: office.house.value(
            "SELECT count(*) FROM backoffice_commandrecord WHERE state = 'done'"
        ) == 3, 20, "all three steps are done",
    )  # fmt: skip
    assert office.sandbox.query(
        "SELECT count(*) FROM sandbox_insurance i JOIN sandbox_userinfo u USING (user_id)"
        " WHERE u.last_name = 'Notreal-Sample' AND i.member_id = 'M-1001'"
    ) == [(1,)]
    picture(page, "patient")
