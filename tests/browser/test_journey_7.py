"""Journey 7: a person with insurance, by keyboard alone, on one page, without dead ends."""

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
    at_work,
    focus,
    idle,
    picture,
    press,
    tab_to,
    within,
)
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
    office.house.query("DELETE FROM patients_registrationdraft")
    with browser() as opened:
        office.log_in(opened, "front-desk")
        yield opened


def fill(page: Browser, *given: tuple[str, str]) -> None:
    for name, text in given:
        tab_to(page, name)
        press(page, text)


def payors(page: Browser, word: str, words: str) -> None:
    """Look for a payor; once more where the service took too long to answer."""
    fill(page, ("payor_query", word))

    def told() -> bool:
        idle(page)
        text = page.text("#payors")
        if "does not answer" in text:
            press(page, BACKSPACE)
            press(page, word[-1])
        return words in text

    wait_until(told, 60, words, every=0.5)


def a_person(office: Office) -> tuple[Any, ...]:
    """First and last name and birth date of somebody grown-up, as they are typed."""
    return office.house.query(
        "SELECT first_name, last_name, to_char(dob, 'MMDDYYYY') FROM patients_demographics"
        " WHERE dob < '2000-01-01' AND first_name ~ '^[A-Za-z]+$' AND last_name ~ '^[A-Za-z]+$'"
        " ORDER BY user_id LIMIT 1"
    )[0]


def test_a_person_with_insurance_by_keyboard(page: Browser, office: Office) -> None:
    press(page, "cp")
    page.sees("Possible duplicates")
    began = time.monotonic()
    assert focus(page) == "first_name"
    fill(page, *PERSON)
    payors(page, "mutual", "Made-up Mutual")
    picture(page, "register")
    press(page, ENTER)  # Looking is not sending.
    tab_to(page, "payor")
    press(page, SPACE)
    fill(page, ("member_id", "M-1001"), ("group_id", "G-7"))
    press(page, ENTER)
    page.sees("Add primary insurance: Made-up Mutual")
    page.sees("M-1001")
    within(began, SECONDS)
    page.sees("Nadia Notreal-Sample")
    wait_until(
        lambda: office.house.value(
            "SELECT count(*) FROM backoffice_commandrecord WHERE state = 'done'"
        ) == 3, 60, "all three steps are done",
    )  # fmt: skip
    assert office.sandbox.query(
        "SELECT count(*) FROM sandbox_insurance i JOIN sandbox_userinfo u USING (user_id)"
        " WHERE u.last_name = 'Notreal-Sample' AND i.member_id = 'M-1001'"
    ) == [(1,)]
    picture(page, "patient")


def test_a_swapped_name_is_offered_and_can_be_told_apart(page: Browser, office: Office) -> None:
    first, last, born = a_person(office)
    page.open(f"{office.url}/patients/register/")
    page.sees("Possible duplicates")
    fill(page, ("first_name", last), ("last_name", first), ("dob", born))
    tab_to(page, "gender")
    page.sees("First and last name swapped, same birth date")
    # Another number than Nadia's: whoever shares one is shown, and must be looked at, too.
    reached = ("phone_number", "555 010 0177"), ("email", "swapped@example.invalid")
    fill(page, PERSON[3], *reached, *PERSON[6:])
    picture(page, "alike")
    idle(page)
    tab_to(page, "not_same", 40)
    press(page, SPACE)
    page.click("#id_first_name")
    press(page, ENTER)
    page.sees("Save the patient's details")
    wait_until(
        lambda: office.house.value("SELECT count(*) FROM patients_differentpeople") == 1,
        60, "it is remembered",
    )  # fmt: skip


def shown_as_a_duplicate(page: Browser, office: Office) -> None:
    """The form of somebody who is registered already."""
    first, last, born = a_person(office)
    page.open(f"{office.url}/patients/register/")
    page.sees("Possible duplicates")
    fill(page, ("first_name", first), ("last_name", last), ("dob", born))
    tab_to(page, "gender")
    page.sees("Not the same person")


def test_whoever_is_at_a_possible_duplicate_stays_there_when_they_are_drawn_again(
    page: Browser, office: Office
) -> None:
    shown_as_a_duplicate(page, office)
    for there in ("section[aria-labelledby=alike] a", "[name=not_same]"):
        page.run(
            "window.old = document.querySelector(arguments[0]); old.focus();"
            "document.getElementById('id_email').dispatchEvent(new Event('change'))",
            there,
        )
        wait_until(lambda: page.run("return !old.isConnected"), 60, "they are drawn again")
        at = page.run(
            "return document.activeElement === document.querySelector(arguments[0])", there
        )
        assert at, there


def test_a_tick_outlives_an_answer_that_was_under_way(page: Browser, office: Office) -> None:
    shown_as_a_duplicate(page, office)
    idle(page)
    for ticked in (True, False):
        page.run(
            "window.old = document.querySelector('[name=not_same]');"
            "document.getElementById('id_email').dispatchEvent(new Event('change')); old.click()"
        )
        wait_until(lambda: page.run("return !old.isConnected"), 60, "they are drawn again")
        assert page.run("return document.querySelector('[name=not_same]').checked") is ticked
        idle(page)
    # What is answered without being shown, as a draft that is kept, takes no tick back either.
    changed = (
        "document.getElementById(arguments[0]).dispatchEvent(new Event('change', {bubbles: true}))"
    )
    page.run(changed, "id_gender")
    idle(page)
    page.run("document.querySelector('[name=not_same]').click()")
    page.run(changed, "id_first_name")
    idle(page)
    assert page.run("return document.querySelector('[name=not_same]').checked")


def test_on_a_phone_possible_duplicates_stand_before_the_button(page: Browser) -> None:
    for width, before in ((390, True), (1280, False)):
        page.resize(width, 900)
        page.open(f"{page.run('return location.origin')}/patients/register/")
        page.sees("Possible duplicates")
        panel, button = (
            f"document.querySelector('{name}').getBoundingClientRect()"
            for name in ("section[aria-labelledby=alike]", "form[data-person] button.primary")
        )
        assert page.run(f"return {panel}.bottom <= {button}.top")
        assert page.run(f"return {panel}.left < {button}.right") == before


def test_faults_are_told_with_their_number_and_the_way_there(page: Browser, office: Office) -> None:
    page.open(f"{office.url}/patients/register/")
    page.sees("Possible duplicates")
    child = f"0506{time.localtime().tm_year - 9}"
    fill(page, ("first_name", "Zoe-"), ("last_name", "-Sample"), ("dob", child))
    tab_to(page, "gender")
    page.sees("Begin with a letter or a digit.")  # On leaving the field, before anything is sent.
    page.sees("Medical proxy")
    assert "Guarantor" not in page.text()
    tab_to(page, "phone_number")
    press(page, ENTER)
    page.sees("things to look at. Nothing typed is lost.")
    assert focus(page) == "wrong"
    told = page.run("return document.querySelector('#wrong').getAttribute('role')")
    assert told == "alert"
    field = "return document.querySelector('#id_last_name')"
    assert page.run(f"{field}.value") == "-Sample"
    assert page.run(f"{field}.getAttribute('aria-invalid')") == "true"
    described = page.run(f"{field}.getAttribute('aria-describedby')")
    assert page.text(f"#{described}") == "Begin with a letter or a digit."
    picture(page, "faults")


def test_a_payor_of_our_own_on_the_same_page(page: Browser, office: Office) -> None:
    page.open(f"{office.url}/patients/register/")
    page.sees("Possible duplicates")
    unique = (("first_name", "Ivo"), ("last_name", "Invented"), ("dob", "03041975"))
    fill(page, *unique, *PERSON[3:4], ("phone_number", "555 010 0177"))
    fill(page, ("email", "ivo@example.invalid"), *PERSON[6:])
    payors(page, "Nowhere Mutuals", "Nothing found for")
    tab_to(page, "payor_new")
    press(page, SPACE)
    fill(page, ("payor_name", "Village Fund"), ("payor_first_line", "1 Fund Road"))
    fill(page, ("payor_city", "Phoenix"), ("payor_state", "AZ"), ("payor_zip", "85001"))
    fill(page, ("member_id", "V-1"), ("relationship", "Sp"))
    page.sees("Guarantor")
    fill(page, ("guarantor_first_name", "Ida"), ("guarantor_last_name", "Invented"))
    fill(page, ("guarantor_phone_number", "555 010 0178"))
    picture(page, "own-payor")
    press(page, ENTER)
    page.sees("Add primary insurance: Village Fund")
    wait_until(
        lambda: office.sandbox.query(
            "SELECT count(*) FROM sandbox_insurance i JOIN sandbox_payor p"
            " ON p.payor_code = i.payor_id WHERE p.name = 'Village Fund'"
        ) == [(1,)], 60, "the insurance is there",
    )  # fmt: skip
    patient = office.house.value(
        "SELECT user_id FROM patients_demographics WHERE last_name = 'Invented'"
    )
    for name in ("details", "insurance"):
        page.open(f"{office.url}/patients/{patient}/{name}/")
        page.sees("Back")
        picture(page, name)
    user, slug = office.house.query(
        "SELECT user_id, slug FROM patients_connection WHERE missing_since IS NULL LIMIT 1"
    )[0]
    page.open(f"{office.url}/patients/{user}/devices/{slug}/disconnect/")
    page.sees("Disconnect it")
    picture(page, "disconnect")


def test_what_was_typed_waits_while_another_page_is_open(page: Browser, office: Office) -> None:
    page.open(f"{office.url}/patients/register/")
    page.sees("Possible duplicates")
    fill(page, ("first_name", "Halfa"), ("last_name", "Typed"))
    page.open(f"{office.url}/today/")  # At once: the last word was not kept by itself yet.
    page.sees("Today")
    field = "return document.querySelector('#id_{}').value"

    def is_kept() -> bool:
        page.open(f"{office.url}/patients/register/")
        return bool(page.run(field.format("last_name")) == "Typed")

    wait_until(is_kept, 60, "what was sent on leaving is kept")
    page.sees("Kept from")
    assert page.run(field.format("first_name")) == "Halfa"
    page.click("button[value=discard]")
    page.sees("As soon as a name and birth date")
    assert page.run(field.format("first_name")) == ""
