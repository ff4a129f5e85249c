"""Getting in and staying in, in a real browser: an authenticator app, a passkey, a session that is
about to end, and one that has ended while something was being typed."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from backoffice.management.commands.demo_users import PASSWORD
from tests.accounts.people import code
from tests.browser import Browser, browser, needs_browser
from tests.browser.office import picture
from tests.browser.test_axe import look, script  # noqa: F401 - a fixture
from tests.sync.house import House, Houses, wait_until
from tests.webhooks.sending import receiving

pytestmark = needs_browser

IDLE = 40
"""Seconds; half of them before the end people are warned."""
ELSEWHERE = """
INSERT INTO backoffice_staffsession
 (session_key, session_data, expire_date, user_id, began_at, seen_at, ip, agent)
SELECT 'elsewhere', '', now() + interval '1 hour', id, now(), now(), '192.0.2.7',
 'Firefox/1 Windows'
FROM backoffice_user WHERE username = 'clinician'
"""
"""The clinician at another desk."""
KEY = "return document.querySelector('.key').textContent"
TYPED = "return document.querySelector('#id_time_zone').value"


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    houses = Houses(os.environ["DATABASE_URL"], tmp_path_factory.mktemp("door"), staffed=True)
    try:
        yield houses.build("http://127.0.0.1:1")
    finally:
        houses.close()


@pytest.fixture(scope="module")
def strict(house: House) -> Iterator[str]:
    """A back office that asks clinicians for a second factor. By name: passkeys need one."""
    with receiving(house, workers=1, SECOND_FACTOR_ROLES="clinician") as url:
        yield url.replace("127.0.0.1", "localhost")


@pytest.fixture(scope="module")
def short(house: House) -> Iterator[str]:
    """One in which sessions end soon."""
    with receiving(house, workers=1, SESSION_IDLE_SECONDS=str(IDLE)) as url:
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
    wait_until(lambda: not page.url.endswith("/accounts/login/"), 60, "the log-in is answered")


def log_out(page: Browser) -> None:
    page.click(".topbar form[action='/accounts/logout/'] button")
    page.find("#id_password")  # the admin's page of a person has a user name, too


def clean(page: Browser, axe: str, where: str) -> None:
    """Nothing for axe to find, in any theme and width; and a picture for people."""
    page.sees(where)
    picture(page, "".join(mark if mark.isalnum() else "-" for mark in where))
    assert look(page, axe, where) == []


def test_an_app_is_set_up_before_any_page_shows_and_asked_for_ever_after(
    page: Browser,
    house: House,
    strict: str,
    script: str,  # noqa: F811
) -> None:
    log_in(page, strict, "clinician")
    clean(page, script, "Set up your second factor")
    page.open(f"{strict}/orders/")
    page.sees("Set up your second factor")
    page.link("An authenticator app")
    page.sees("Add an authenticator app")
    assert page.run("return document.querySelector('.qr').naturalWidth") > 50
    page.click("details > summary")
    secret = page.run(KEY)
    page.type("#id_code", "000000")
    page.click("form[method=post] button[type=submit]")
    page.sees("This code is not right")
    assert page.run(KEY) == secret
    clean(page, script, "Add an authenticator app")
    page.type("#id_code", code(secret))
    page.click("form[method=post] button[type=submit]")
    clean(page, script, "Recovery codes")
    codes = page.run("return [...document.querySelectorAll('.codes code')].map(c => c.textContent)")
    assert len(codes) == 10
    page.link("I have kept them")
    page.sees("Find a patient")

    house.query(ELSEWHERE)
    page.open(f"{strict}/accounts/")
    clean(page, script, "Where you are logged in")
    page.click("td a[href*='/sessions/end/']")
    clean(page, script, "Log out there?")
    page.click("form[method=post] button.danger")
    page.sees("You are logged out there")
    page.open(f"{strict}/accounts/second-factor/app/remove/")
    clean(page, script, "Remove your authenticator app?")
    page.open(f"{strict}/accounts/second-factor/codes/new/")
    clean(page, script, "Create new recovery codes?")
    page.open(f"{strict}/accounts/proof/code/")
    clean(page, script, "Confirm that it is you")
    page.open(f"{strict}/accounts/")
    log_out(page)

    log_in(page, strict, "clinician")
    clean(page, script, "One more step")
    page.type("#id_code", code(secret, 1))
    page.click("form[method=post] button[type=submit]")
    page.sees("Find a patient")
    log_out(page)

    log_in(page, strict, "clinician")
    page.type("#id_code", codes[0])
    page.click("form[method=post] button[type=submit]")
    page.sees("Find a patient")


def test_a_first_password_is_handed_over_and_replaced(
    page: Browser,
    strict: str,
    script: str,  # noqa: F811
) -> None:
    log_in(page, strict, "administrator")
    page.open(f"{strict}/admin/backoffice/user/add/")
    for name, typed in (("first_name", "Nora"), ("last_name", "Madeup"), ("username", "nora")):
        page.type(f"#id_{name}", typed)
    page.type("#id_email", "nora@example.invalid")
    page.click("input[name=roles][value=viewer]")
    page.click("main form button[type=submit]")
    clean(page, script, "First password of Nora Madeup")
    first = page.text("main dd code")
    page.link("I have noted it")
    page.sees("nora@example.invalid")
    page.open(f"{strict}/admin/backoffice/user/")
    page.link("Nora Madeup")
    clean(page, script, "Reset their password")
    log_out(page)

    page.type("#id_username", "nora")
    page.type("#id_password", first)
    page.click("form[method=post] button[type=submit]")
    clean(page, script, "Choose your password")
    page.type("#id_old_password", first)
    for number in (1, 2):
        page.type(f"#id_new_password{number}", "my own and nobody knows")
    page.click("form[method=post] button[type=submit]")
    page.sees("Password changed")
    page.open(f"{strict}/orders/")
    page.sees("Orders")


def test_a_passkey_logs_in_alone_and_is_a_second_factor(page: Browser, strict: str) -> None:
    device = {"protocol": "ctap2", "transport": "internal", "hasResidentKey": True}
    person = {"hasUserVerification": True, "isUserVerified": True}
    page.call("POST", "/webauthn/authenticator", {**device, **person})
    log_in(page, strict, "front-desk")
    page.open(f"{strict}/accounts/second-factor/passkey/")
    page.run("document.querySelector('#id_name').value = ''")
    page.type("#id_name", "Desk by the window")
    page.click("#passkey-button")
    page.sees("Recovery codes")
    page.open(f"{strict}/accounts/")
    page.sees("Desk by the window")
    page.sees("logs in alone")
    log_out(page)

    page.click("#passkey-button")
    page.sees("Find a patient")
    page.open(f"{strict}/accounts/proof/passkey/?next=/preferences/")
    page.click("#passkey-button")
    page.sees("Row height")
    log_out(page)

    log_in(page, strict, "front-desk")
    page.sees("One more step")
    page.click("#passkey-button")
    page.sees("Find a patient")


def test_a_passkey_that_the_browser_refuses_is_said(page: Browser, strict: str) -> None:
    page.open(f"{strict.replace('localhost', '127.0.0.1')}/accounts/login/")
    page.click("#passkey-button")
    page.sees("Passkeys do not work at this address")


def shown(page: Browser, dialog: str) -> bool:
    return bool(page.run(f"return document.getElementById('{dialog}').open"))


def window(page: Browser) -> str:
    return str(page.call("GET", "/window"))


def switch(page: Browser, handle: str) -> None:
    page.call("POST", "/window", {"handle": handle})


def type_a_zone(page: Browser, url: str, zone: str) -> None:
    page.open(f"{url}/preferences/")
    page.run("document.querySelector('#id_time_zone').value = ''")
    page.type("#id_time_zone", zone)


def test_a_session_is_put_off_and_nothing_typed_is_lost(
    page: Browser,
    short: str,
    script: str,  # noqa: F811
) -> None:
    log_in(page, short, "viewer")
    type_a_zone(page, short, "Asia/Tokyo")
    page.sees("You will be logged out in 0:", IDLE)
    assert page.run("return document.activeElement.textContent.trim()") == "Stay logged in"
    assert [*page.text("#session-ending .row").splitlines()] == ["Stay logged in", "Log out"]
    assert "seconds left" in page.run(
        "return document.querySelector('#session-ending [data-spoken]').textContent"
    )
    page.link("Stay logged in")
    wait_until(lambda: not shown(page, "session-ending"), 60, "the warning goes")
    assert page.run(TYPED) == "Asia/Tokyo"
    # Put off, it is not ended when it would have been, and the warning comes again.
    page.sees("You will be logged out in 0:", IDLE)
    page.link("Stay logged in")
    wait_until(lambda: not shown(page, "session-ending"), 60, "the warning goes")
    page.link("Save preferences")
    page.sees("Preferences saved")
    page.sees("You will be logged out in 0:", IDLE)
    page.run(script)
    assert page.run("return findings.axe('tag', ['wcag2a', 'wcag2aa', 'wcag22aa'])") == []


def test_whoever_types_or_works_in_another_tab_is_not_warned(page: Browser, short: str) -> None:
    log_in(page, short, "viewer")
    type_a_zone(page, short, "Asia/")
    for mark in "Tokyo" * 5:
        wait_until(lambda: True, 1, "a moment")
        page.devtools("Input.insertText", {"text": mark})
        page.run("return new Promise(done => setTimeout(done, 1200))")
        assert not shown(page, "session-ending")
    first = window(page)
    second = page.call("POST", "/window/new", {"type": "tab"})["handle"]
    switch(page, second)
    for _ in range(14):
        page.open(f"{short}/preferences/")
        page.run("return new Promise(done => setTimeout(done, 2000))")
    switch(page, first)
    wait_until(lambda: not shown(page, "session-ending"), 60, "the other tab has put it off")
    assert not shown(page, "session-ended")


@pytest.mark.parametrize("again", ["viewer", "auditor"])
def test_an_ended_session_covers_the_page_until_the_same_person_is_back(
    page: Browser,
    short: str,
    house: House,
    script: str,  # noqa: F811
    again: str,
) -> None:
    log_in(page, short, "viewer")
    type_a_zone(page, short, "Asia/Tokyo")
    first = window(page)
    house.query("DELETE FROM backoffice_staffsession RETURNING 1")
    page.sees("You have been logged out", IDLE)
    assert page.run(
        "return getComputedStyle(document.getElementById('session-ended'), '::backdrop')"
        ".backgroundColor === getComputedStyle(document.body).backgroundColor"
    )
    if again == "viewer":
        clean(page, script, "You have been logged out")
    second = page.call("POST", "/window/new", {"type": "tab"})["handle"]
    switch(page, second)
    log_in(page, short, again)
    page.find(".topbar form[action='/accounts/logout/']")
    switch(page, first)
    wait_until(lambda: not shown(page, "session-ended"), 60, "the page is there again")
    if again == "auditor":
        wait_until(lambda: page.run(TYPED) != "Asia/Tokyo", 60, "it is not theirs")
        return
    assert page.run(TYPED) == "Asia/Tokyo"
    page.link("Save preferences")
    page.sees("Preferences saved")


def test_a_page_that_asks_by_itself_is_signed_out_like_any_other(page: Browser, short: str) -> None:
    log_in(page, short, "lab-coordinator")
    page.open(f"{short}/today/")
    asked = page.run("return performance.getEntriesByType('resource').length")
    page.sees("You have been logged out", IDLE + 15)
    assert page.run("return performance.getEntriesByType('resource').length") > asked + 3


def test_an_answer_that_says_ended_covers_the_page(page: Browser, short: str, house: House) -> None:
    """A swap of a list, after the session was ended elsewhere."""
    log_in(page, short, "lab-coordinator")
    page.open(f"{short}/orders/")
    page.find("[data-live]")
    house.query("DELETE FROM backoffice_staffsession RETURNING 1")
    page.sees("You have been logged out", 90)
    assert "/orders/" in page.url
    first = window(page)
    switch(page, page.call("POST", "/window/new", {"type": "tab"})["handle"])
    log_in(page, short, "lab-coordinator")
    page.find("[data-live], .page")
    switch(page, first)
    wait_until(lambda: not shown(page, "session-ended"), 60, "the page is there again")
    page.run("performance.clearResourceTimings()")
    asked = "return performance.getEntriesByType('resource').filter(r => r.name.includes('/live/'))"
    wait_until(lambda: page.run(f"{asked}.length") > 1, 90, "it asks for news again")


def test_what_a_form_keeps_by_itself_notices_that_the_session_has_ended(
    page: Browser, strict: str, house: House
) -> None:
    log_in(page, strict, "administrator")
    page.open(f"{strict}/patients/register/")
    house.query("DELETE FROM backoffice_staffsession RETURNING 1")
    page.type("#id_first_name", "Testa")
    page.sees("You have been logged out", 60)
    assert page.run("return document.querySelector('#id_first_name').value") == "Testa"


def test_a_log_out_ends_it_at_once_in_tabs_that_ask_for_no_news(page: Browser, strict: str) -> None:
    log_in(page, strict, "administrator")
    page.open(f"{strict}/patients/register/")
    first = window(page)
    switch(page, page.call("POST", "/window/new", {"type": "tab"})["handle"])
    page.open(f"{strict}/preferences/")
    log_out(page)
    switch(page, first)
    page.sees("You have been logged out", 60)


def test_a_log_out_ends_it_in_every_tab(short: str) -> None:
    with ExitStack() as stack:
        page: Any = stack.enter_context(browser())
        log_in(page, short, "viewer")
        first = window(page)
        switch(page, page.call("POST", "/window/new", {"type": "tab"})["handle"])
        page.open(f"{short}/preferences/")
        log_out(page)
        switch(page, first)
        page.sees("You have been logged out", IDLE)
