"""Browser tests of sign-in: authenticator apps, passkeys, and sessions that end while typing."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from backoffice.management.commands.demo_users import PASSWORD
from tests.accounts.people import code
from tests.browser import Browser, browser, needs_browser
from tests.browser.office import save_screenshot
from tests.browser.test_accessibility import find_problems, script  # noqa: F401 - a fixture
from tests.sync.back_office import BackOffice, BackOffices
from tests.waiting import wait_until
from tests.webhooks.sending import receiving

pytestmark = needs_browser

IDLE = 40
"""Seconds. The warning appears after half of them."""
OTHER_SESSION = """
INSERT INTO accounts_staffsession
 (session_key, session_data, expire_date, user_id, began_at, seen_at, ip, agent)
SELECT 'elsewhere', '', now() + interval '1 hour', id, now(), now(), '192.0.2.7',
 'Firefox/1 Windows'
FROM accounts_user WHERE username = 'clinician'
"""
"""Creates a session of the clinician on another computer."""
SECRET_KEY = "return document.querySelector('.key').textContent"
TYPED_ZONE = "return document.querySelector('#id_time_zone').value"


@pytest.fixture(scope="module")
def back_office(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BackOffice]:
    back_offices = BackOffices(
        os.environ["DATABASE_URL"], tmp_path_factory.mktemp("door"), staffed=True
    )
    try:
        yield back_offices.build("http://127.0.0.1:1")
    finally:
        back_offices.close()


@pytest.fixture(scope="module")
def second_factor_url(back_office: BackOffice) -> Iterator[str]:
    """A web server that requires a second factor of clinicians. Passkeys need a host name."""
    with receiving(back_office, workers=1, SECOND_FACTOR_ROLES="clinician") as url:
        yield url.replace("127.0.0.1", "localhost")


@pytest.fixture(scope="module")
def short_session_url(back_office: BackOffice) -> Iterator[str]:
    """A web server whose sessions end soon."""
    with receiving(back_office, workers=1, SESSION_IDLE_SECONDS=str(IDLE)) as url:
        yield url


@pytest.fixture
def page() -> Iterator[Browser]:
    with browser() as opened:
        yield opened


def log_in(page: Browser, url: str, name: str) -> None:
    page.open(f"{url}/accounts/login/")
    page.type("#id_username", name)
    page.type("#id_password", PASSWORD)
    page.click("form[method=post] button[type=submit]")
    wait_until(lambda: not page.url.endswith("/accounts/login/"), 60, "the sign-in is answered")


def log_out(page: Browser) -> None:
    page.click(".topbar .account > summary")
    page.click(".topbar form[action='/accounts/logout/'] button")
    page.find("#id_password")  # The admin's user page has a user name field, too.


def assert_accessible(page: Browser, axe: str, where: str) -> None:
    """Assert that the page has no accessibility findings, and save a screenshot."""
    page.wait_for_text(where)
    save_screenshot(page, "".join(mark if mark.isalnum() else "-" for mark in where))
    assert find_problems(page, axe, where) == []


def test_authenticator_app_is_set_up_first_and_then_required(
    page: Browser,
    back_office: BackOffice,
    second_factor_url: str,
    script: str,  # noqa: F811
) -> None:
    log_in(page, second_factor_url, "clinician")
    assert_accessible(page, script, "Set up your second factor")
    page.open(f"{second_factor_url}/orders/")
    page.wait_for_text("Set up your second factor")
    page.click_text("Authenticator app")
    page.wait_for_text("Add an authenticator app")
    assert page.run("return document.querySelector('.qr').naturalWidth") > 50
    page.click("details > summary")
    secret = page.run(SECRET_KEY)
    page.type("#id_code", "000000")
    page.click("form[method=post] button[type=submit]")
    page.wait_for_text("Wrong code")
    assert page.run(SECRET_KEY) == secret
    assert_accessible(page, script, "Add an authenticator app")
    page.type("#id_code", code(secret))
    page.click("form[method=post] button[type=submit]")
    assert_accessible(page, script, "Recovery codes")
    codes = page.run("return [...document.querySelectorAll('.codes code')].map(c => c.textContent)")
    assert len(codes) == 10
    page.click_text("I saved the codes")
    page.wait_for_text("Find a patient")

    back_office.query(OTHER_SESSION)
    page.open(f"{second_factor_url}/accounts/")
    assert_accessible(page, script, "Where you are signed in")
    page.click("td a[href*='/sessions/end/']")
    assert_accessible(page, script, "Sign out on that device?")
    page.click("form[method=post] button.danger")
    page.wait_for_text("You are signed out on that device")
    page.open(f"{second_factor_url}/accounts/second-factor/app/remove/")
    assert_accessible(page, script, "Remove your authenticator app?")
    page.open(f"{second_factor_url}/accounts/second-factor/codes/new/")
    assert_accessible(page, script, "Create new recovery codes?")
    page.open(f"{second_factor_url}/accounts/proof/code/")
    assert_accessible(page, script, "Confirm it’s you")
    page.open(f"{second_factor_url}/accounts/")
    log_out(page)

    log_in(page, second_factor_url, "clinician")
    assert_accessible(page, script, "One more step")
    page.type("#id_code", code(secret, 1))
    page.click("form[method=post] button[type=submit]")
    page.wait_for_text("Find a patient")
    log_out(page)

    log_in(page, second_factor_url, "clinician")
    page.type("#id_code", codes[0])
    page.click("form[method=post] button[type=submit]")
    page.wait_for_text("Find a patient")


def test_first_password_must_be_replaced(
    page: Browser,
    second_factor_url: str,
    script: str,  # noqa: F811
) -> None:
    log_in(page, second_factor_url, "administrator")
    page.open(f"{second_factor_url}/admin/accounts/user/add/")
    for name, typed in (("first_name", "Nora"), ("last_name", "Madeup"), ("username", "nora")):
        page.type(f"#id_{name}", typed)
    page.type("#id_email", "nora@example.invalid")
    page.click("input[name=roles][value=viewer]")
    page.click("main form button[type=submit]")
    assert_accessible(page, script, "Temporary password for Nora Madeup")
    first = page.text("main dd code")
    page.click_text("I wrote it down")
    page.wait_for_text("nora@example.invalid")
    page.open(f"{second_factor_url}/admin/accounts/user/")
    page.click_text("Nora Madeup")
    assert_accessible(page, script, "Reset password")
    log_out(page)

    page.type("#id_username", "nora")
    page.type("#id_password", first)
    page.click("form[method=post] button[type=submit]")
    assert_accessible(page, script, "Choose your password")
    page.type("#id_old_password", first)
    for number in (1, 2):
        page.type(f"#id_new_password{number}", "my own and nobody knows")
    page.click("form[method=post] button[type=submit]")
    page.wait_for_text("Password changed")
    page.open(f"{second_factor_url}/orders/")
    page.wait_for_text("Orders")


def test_passkey_signs_in_and_is_a_second_factor(page: Browser, second_factor_url: str) -> None:
    device = {"protocol": "ctap2", "transport": "internal", "hasResidentKey": True}
    person = {"hasUserVerification": True, "isUserVerified": True}
    page.call("POST", "/webauthn/authenticator", {**device, **person})
    log_in(page, second_factor_url, "front-desk")
    page.open(f"{second_factor_url}/accounts/second-factor/passkey/")
    page.run("document.querySelector('#id_name').value = ''")
    page.type("#id_name", "Desk by the window")
    page.click("#passkey-button")
    page.wait_for_text("Recovery codes")
    page.open(f"{second_factor_url}/accounts/")
    page.wait_for_text("Desk by the window")
    page.wait_for_text("Signs in without password")
    log_out(page)

    page.click("#passkey-button")
    page.wait_for_text("Find a patient")
    page.open(f"{second_factor_url}/accounts/proof/passkey/?next=/preferences/")
    page.click("#passkey-button")
    page.wait_for_text("Row height")
    log_out(page)

    log_in(page, second_factor_url, "front-desk")
    page.wait_for_text("One more step")
    page.click("#passkey-button")
    page.wait_for_text("Find a patient")


def test_passkey_refused_by_browser_is_explained(page: Browser, second_factor_url: str) -> None:
    page.open(f"{second_factor_url.replace('localhost', '127.0.0.1')}/accounts/login/")
    page.click("#passkey-button")
    page.wait_for_text("Passkeys do not work at this address")


def dialog_is_open(page: Browser, dialog: str) -> bool:
    return bool(page.run(f"return document.getElementById('{dialog}').open"))


def current_window(page: Browser) -> str:
    return str(page.call("GET", "/window"))


def switch_window(page: Browser, handle: str) -> None:
    page.call("POST", "/window", {"handle": handle})


def type_time_zone(page: Browser, url: str, zone: str) -> None:
    page.open(f"{url}/preferences/")
    page.run("document.querySelector('#id_time_zone').value = ''")
    page.type("#id_time_zone", zone)


def test_session_is_extended_without_losing_input(
    page: Browser,
    short_session_url: str,
    script: str,  # noqa: F811
) -> None:
    log_in(page, short_session_url, "viewer")
    type_time_zone(page, short_session_url, "Asia/Tokyo")
    page.wait_for_text("You will be signed out in 0:", IDLE)
    assert page.run("return document.activeElement.textContent.trim()") == "Stay signed in"
    assert [*page.text("#session-ending .row").splitlines()] == ["Stay signed in", "Sign out"]
    assert "seconds left" in page.run(
        "return document.querySelector('#session-ending [data-spoken]').textContent"
    )
    page.click_text("Stay signed in")
    wait_until(lambda: not dialog_is_open(page, "session-ending"), 60, "the warning goes")
    assert page.run(TYPED_ZONE) == "Asia/Tokyo"
    # The session was extended, so the warning appears again later.
    page.wait_for_text("You will be signed out in 0:", IDLE)
    page.click_text("Stay signed in")
    wait_until(lambda: not dialog_is_open(page, "session-ending"), 60, "the warning goes")
    page.click_text("Save preferences")
    page.wait_for_text("Preferences saved")
    page.wait_for_text("You will be signed out in 0:", IDLE)
    page.run(script)
    assert page.run("return findings.axe('tag', ['wcag2a', 'wcag2aa', 'wcag22aa'])") == []


def test_typing_or_using_another_tab_prevents_warning(
    page: Browser, short_session_url: str
) -> None:
    log_in(page, short_session_url, "viewer")
    type_time_zone(page, short_session_url, "Asia/")
    began = time.monotonic()
    while time.monotonic() - began < 0.75 * IDLE:
        page.devtools("Input.insertText", {"text": "x"})
        page.run("return new Promise(done => setTimeout(done, 1200))")
        assert not dialog_is_open(page, "session-ending")
    first = current_window(page)
    second = page.call("POST", "/window/new", {"type": "tab"})["handle"]
    switch_window(page, second)
    began = time.monotonic()
    while time.monotonic() - began < 0.75 * IDLE:
        page.open(f"{short_session_url}/preferences/")
        page.run("return new Promise(done => setTimeout(done, 2000))")
    switch_window(page, first)
    wait_until(
        lambda: not dialog_is_open(page, "session-ending"), 60, "the other tab has put it off"
    )
    assert not dialog_is_open(page, "session-ended")


@pytest.mark.parametrize("next_user", ["viewer", "auditor"])
def test_ended_session_covers_page_until_same_user_returns(
    page: Browser,
    short_session_url: str,
    back_office: BackOffice,
    script: str,  # noqa: F811
    next_user: str,
) -> None:
    log_in(page, short_session_url, "viewer")
    type_time_zone(page, short_session_url, "Asia/Tokyo")
    first = current_window(page)
    back_office.query("DELETE FROM accounts_staffsession RETURNING 1")
    page.wait_for_text("You have been signed out", IDLE)
    assert page.run(
        "return getComputedStyle(document.getElementById('session-ended'), '::backdrop')"
        ".backgroundColor === getComputedStyle(document.body).backgroundColor"
    )
    if next_user == "viewer":
        assert_accessible(page, script, "You have been signed out")
    second = page.call("POST", "/window/new", {"type": "tab"})["handle"]
    switch_window(page, second)
    log_in(page, short_session_url, next_user)
    page.find(".topbar form[action='/accounts/logout/']")
    switch_window(page, first)
    wait_until(lambda: not dialog_is_open(page, "session-ended"), 60, "the page is there again")
    if next_user == "auditor":
        wait_until(lambda: page.run(TYPED_ZONE) != "Asia/Tokyo", 60, "it is not theirs")
        return
    assert page.run(TYPED_ZONE) == "Asia/Tokyo"
    page.click_text("Save preferences")
    page.wait_for_text("Preferences saved")


def test_polling_page_does_not_keep_session_alive(page: Browser, short_session_url: str) -> None:
    log_in(page, short_session_url, "lab-coordinator")
    page.open(f"{short_session_url}/today/")
    requests = page.run("return performance.getEntriesByType('resource').length")
    page.wait_for_text("You have been signed out", IDLE + 15)
    assert page.run("return performance.getEntriesByType('resource').length") > requests + 3


def test_response_of_ended_session_covers_the_page(
    page: Browser, short_session_url: str, back_office: BackOffice
) -> None:
    """The session ends elsewhere, and the page then polls for updates."""
    log_in(page, short_session_url, "lab-coordinator")
    page.open(f"{short_session_url}/orders/")
    page.find("[data-live]")
    back_office.query("DELETE FROM accounts_staffsession RETURNING 1")
    page.wait_for_text("You have been signed out", 90)
    assert "/orders/" in page.url
    first = current_window(page)
    switch_window(page, page.call("POST", "/window/new", {"type": "tab"})["handle"])
    log_in(page, short_session_url, "lab-coordinator")
    page.find("[data-live], .page")
    switch_window(page, first)
    wait_until(lambda: not dialog_is_open(page, "session-ended"), 60, "the page is there again")
    page.run("performance.clearResourceTimings()")
    polls = "return performance.getEntriesByType('resource').filter(r => r.name.includes('/live/'))"
    wait_until(lambda: page.run(f"{polls}.length") > 1, 90, "it asks for news again")


def test_saving_a_draft_notices_ended_session(
    page: Browser, second_factor_url: str, back_office: BackOffice
) -> None:
    log_in(page, second_factor_url, "administrator")
    page.open(f"{second_factor_url}/patients/register/")
    back_office.query("DELETE FROM accounts_staffsession RETURNING 1")
    page.type("#id_first_name", "Testa")
    page.wait_for_text("You have been signed out", 60)
    assert page.run("return document.querySelector('#id_first_name').value") == "Testa"


def test_sign_out_covers_tabs_that_do_not_poll(page: Browser, second_factor_url: str) -> None:
    log_in(page, second_factor_url, "administrator")
    page.open(f"{second_factor_url}/patients/register/")
    first = current_window(page)
    switch_window(page, page.call("POST", "/window/new", {"type": "tab"})["handle"])
    page.open(f"{second_factor_url}/preferences/")
    log_out(page)
    switch_window(page, first)
    page.wait_for_text("You have been signed out", 60)


def test_sign_out_ends_session_in_every_tab(short_session_url: str) -> None:
    with ExitStack() as stack:
        page: Any = stack.enter_context(browser())
        log_in(page, short_session_url, "viewer")
        first = current_window(page)
        switch_window(page, page.call("POST", "/window/new", {"type": "tab"})["handle"])
        page.open(f"{short_session_url}/preferences/")
        log_out(page)
        switch_window(page, first)
        page.wait_for_text("You have been signed out", IDLE)
