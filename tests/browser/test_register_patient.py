"""Journey 7: register a patient with insurance on one page, by keyboard."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest

from tests.browser import Browser, browser, needs_browser
from tests.browser.office import (
    BACKSPACE,
    ENTER,
    SPACE,
    Office,
    assert_within,
    focused_name,
    press_keys,
    running_office,
    save_screenshot,
    tab_to,
    wait_until_idle,
)
from tests.waiting import wait_until

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
    with running_office(tmp_path_factory.mktemp("journey-7")) as office:
        yield office


@pytest.fixture
def page(office: Office) -> Iterator[Browser]:
    office.back_office.query("DELETE FROM patients_registrationdraft")
    with browser() as opened:
        office.log_in(opened, "front-desk")
        yield opened


def fill(page: Browser, *fields: tuple[str, str]) -> None:
    for name, text in fields:
        tab_to(page, name)
        press_keys(page, text)


def search_payor(page: Browser, query: str, message: str) -> None:
    """Search for a payor. Search again where the service was too slow."""
    fill(page, ("payor_query", query))

    def message_is_shown() -> bool:
        wait_until_idle(page)
        text = page.text("#payors")
        if "is not responding" in text:
            press_keys(page, BACKSPACE)
            press_keys(page, query[-1])
        return message in text

    wait_until(message_is_shown, 60, message, every=0.5)


def registered_adult(office: Office) -> tuple[Any, ...]:
    """Return first name, last name and birth date of an adult, as typed into the form."""
    return office.back_office.query(
        "SELECT first_name, last_name, to_char(dob, 'MMDDYYYY') FROM patients_demographics"
        " WHERE dob < '2000-01-01' AND first_name ~ '^[A-Za-z]+$' AND last_name ~ '^[A-Za-z]+$'"
        " ORDER BY user_id LIMIT 1"
    )[0]


def test_patient_with_insurance_is_registered_by_keyboard(page: Browser, office: Office) -> None:
    press_keys(page, "cp")
    page.wait_for_text("Possible duplicates")
    began = time.monotonic()
    assert focused_name(page) == "first_name"
    fill(page, *PERSON)
    search_payor(page, "mutual", "Made-up Mutual")
    save_screenshot(page, "register")
    press_keys(page, ENTER)  # Enter in the search field does not send the form.
    tab_to(page, "payor")
    press_keys(page, SPACE)
    fill(page, ("member_id", "M-1001"), ("group_id", "G-7"))
    press_keys(page, ENTER)
    page.wait_for_text("Add primary insurance: Made-up Mutual")
    page.wait_for_text("M-1001")
    assert_within(began, SECONDS)
    page.wait_for_text("Nadia Notreal-Sample")
    wait_until(
        lambda: office.back_office.value(
            "SELECT count(*) FROM outbox_commandrecord WHERE state = 'done'"
        ) == 3, 60, "all three steps are done",
    )  # fmt: skip
    assert office.sandbox.query(
        "SELECT count(*) FROM sandbox_insurance i JOIN sandbox_userinfo u USING (user_id)"
        " WHERE u.last_name = 'Notreal-Sample' AND i.member_id = 'M-1001'"
    ) == [(1,)]
    save_screenshot(page, "patient")


def test_swapped_name_is_duplicate_candidate_and_dismissed(page: Browser, office: Office) -> None:
    first, last, born = registered_adult(office)
    page.open(f"{office.url}/patients/register/")
    page.wait_for_text("Possible duplicates")
    fill(page, ("first_name", last), ("last_name", first), ("dob", born))
    tab_to(page, "gender")
    page.wait_for_text("First and last name swapped, same birth date")
    # Not Nadia's phone number, which would make her a candidate, too.
    contact = ("phone_number", "555 010 0177"), ("email", "swapped@example.invalid")
    fill(page, PERSON[3], *contact, *PERSON[6:])
    save_screenshot(page, "alike")
    wait_until_idle(page)
    tab_to(page, "not_same", 40)
    press_keys(page, SPACE)
    page.click("#id_first_name")
    press_keys(page, ENTER)
    page.wait_for_text("Save the patient's details")
    wait_until(
        lambda: office.back_office.value("SELECT count(*) FROM patients_differentpeople") == 1,
        60, "it is remembered",
    )  # fmt: skip


def enter_registered_patient(page: Browser, office: Office) -> None:
    """Open the form with the details of a registered patient."""
    first, last, born = registered_adult(office)
    page.open(f"{office.url}/patients/register/")
    page.wait_for_text("Possible duplicates")
    fill(page, ("first_name", first), ("last_name", last), ("dob", born))
    tab_to(page, "gender")
    page.wait_for_text("Not the same person")


def test_focus_stays_when_duplicate_candidates_are_refreshed(page: Browser, office: Office) -> None:
    enter_registered_patient(page, office)
    for selector in ("section[aria-labelledby=alike] a", "[name=not_same]"):
        page.run(
            "window.old = document.querySelector(arguments[0]); old.focus();"
            "document.getElementById('id_email').dispatchEvent(new Event('change'))",
            selector,
        )
        wait_until(lambda: page.run("return !old.isConnected"), 60, "the candidates are refreshed")
        has_focus = page.run(
            "return document.activeElement === document.querySelector(arguments[0])", selector
        )
        assert has_focus, selector


def test_tick_survives_a_response_in_flight(page: Browser, office: Office) -> None:
    enter_registered_patient(page, office)
    wait_until_idle(page)
    for ticked in (True, False):
        page.run(
            "window.old = document.querySelector('[name=not_same]');"
            "document.getElementById('id_email').dispatchEvent(new Event('change')); old.click()"
        )
        wait_until(lambda: page.run("return !old.isConnected"), 60, "the candidates are refreshed")
        assert page.run("return document.querySelector('[name=not_same]').checked") is ticked
        wait_until_idle(page)
    # A response that replaces nothing, as that of saving a draft, does not remove the tick either.
    changed = (
        "document.getElementById(arguments[0]).dispatchEvent(new Event('change', {bubbles: true}))"
    )
    page.run(changed, "id_gender")
    wait_until_idle(page)
    page.run("document.querySelector('[name=not_same]').click()")
    page.run(changed, "id_first_name")
    wait_until_idle(page)
    assert page.run("return document.querySelector('[name=not_same]').checked")


def test_duplicate_candidates_precede_button_on_phones(page: Browser) -> None:
    for width, before in ((390, True), (1280, False)):
        page.resize(width, 900)
        page.open(f"{page.run('return location.origin')}/patients/register/")
        page.wait_for_text("Possible duplicates")
        panel, button = (
            f"document.querySelector('{name}').getBoundingClientRect()"
            for name in ("section[aria-labelledby=alike]", "form[data-person] button.primary")
        )
        assert page.run(f"return {panel}.bottom <= {button}.top")
        assert page.run(f"return {panel}.left < {button}.right") == before


def test_form_errors_are_summarized_and_linked_to_fields(page: Browser, office: Office) -> None:
    page.open(f"{office.url}/patients/register/")
    page.wait_for_text("Possible duplicates")
    child = f"0506{time.localtime().tm_year - 9}"
    fill(page, ("first_name", "Zoe-"), ("last_name", "-Sample"), ("dob", child))
    tab_to(page, "gender")
    page.wait_for_text(
        "Start with a letter or a number."
    )  # on leaving the field, before the form is sent
    page.wait_for_text("Medical proxy")
    assert "Guarantor" not in page.text()
    tab_to(page, "phone_number")
    press_keys(page, ENTER)
    page.wait_for_text("problems to fix. Your entries are still here.")
    assert focused_name(page) == "wrong"
    role = page.run("return document.querySelector('#wrong').getAttribute('role')")
    assert role == "alert"
    field = "return document.querySelector('#id_last_name')"
    assert page.run(f"{field}.value") == "-Sample"
    assert page.run(f"{field}.getAttribute('aria-invalid')") == "true"
    described = page.run(f"{field}.getAttribute('aria-describedby')")
    assert page.text(f"#{described}") == "Start with a letter or a number."
    save_screenshot(page, "faults")


def test_new_payor_is_created_while_registering(page: Browser, office: Office) -> None:
    page.open(f"{office.url}/patients/register/")
    page.wait_for_text("Possible duplicates")
    unique = (("first_name", "Ivo"), ("last_name", "Invented"), ("dob", "03041975"))
    fill(page, *unique, *PERSON[3:4], ("phone_number", "555 010 0177"))
    fill(page, ("email", "ivo@example.invalid"), *PERSON[6:])
    search_payor(page, "Nowhere Mutuals", "No results for")
    tab_to(page, "payor_new")
    press_keys(page, SPACE)
    fill(page, ("payor_name", "Village Fund"), ("payor_first_line", "1 Fund Road"))
    fill(page, ("payor_city", "Phoenix"), ("payor_state", "AZ"), ("payor_zip", "85001"))
    fill(page, ("member_id", "V-1"), ("relationship", "Sp"))
    page.wait_for_text("Guarantor")
    fill(page, ("guarantor_first_name", "Ida"), ("guarantor_last_name", "Invented"))
    fill(page, ("guarantor_phone_number", "555 010 0178"))
    save_screenshot(page, "own-payor")
    press_keys(page, ENTER)
    page.wait_for_text("Add primary insurance: Village Fund")
    wait_until(
        lambda: office.sandbox.query(
            "SELECT count(*) FROM sandbox_insurance i JOIN sandbox_payor p"
            " ON p.payor_code = i.payor_id WHERE p.name = 'Village Fund'"
        ) == [(1,)], 60, "the insurance is there",
    )  # fmt: skip
    patient = office.back_office.value(
        "SELECT user_id FROM patients_demographics WHERE last_name = 'Invented'"
    )
    for name in ("details", "insurance"):
        page.open(f"{office.url}/patients/{patient}/{name}/")
        page.wait_for_text("Back")
        save_screenshot(page, name)
    user, slug = office.back_office.query(
        "SELECT user_id, slug FROM patients_connection WHERE missing_since IS NULL LIMIT 1"
    )[0]
    page.open(f"{office.url}/patients/{user}/devices/{slug}/disconnect/")
    page.wait_for_text("Disconnect a device or app")
    save_screenshot(page, "disconnect")


def test_registration_draft_survives_leaving_the_page(page: Browser, office: Office) -> None:
    page.open(f"{office.url}/patients/register/")
    page.wait_for_text("Possible duplicates")
    fill(page, ("first_name", "Halfa"), ("last_name", "Typed"))
    page.open(f"{office.url}/today/")  # at once, before the last word is saved automatically
    page.wait_for_text("Today")
    field = "return document.querySelector('#id_{}').value"

    def draft_is_restored() -> bool:
        page.open(f"{office.url}/patients/register/")
        return bool(page.run(field.format("last_name")) == "Typed")

    wait_until(draft_is_restored, 60, "the draft is saved on leaving")
    page.wait_for_text("Draft saved")
    assert page.run(field.format("first_name")) == "Halfa"
    page.click("button[value=discard]")
    page.wait_for_text("Enter a name and birth date")
    assert page.run(field.format("first_name")) == ""
