"""Browser tests of diagnosis codes, text messages of an order and links to connect a device."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.browser import Browser, browser, needs_browser
from tests.browser.office import (
    ENTER,
    Office,
    focused_name,
    press_keys,
    running_office,
    save_screenshot,
)
from tests.waiting import wait_until

pytestmark = needs_browser

DOWN, ESCAPE = "\ue015", "\ue00c"


@pytest.fixture(scope="module")
def office(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Office]:
    with running_office(tmp_path_factory.mktemp("back_offices")) as office:
        yield office


@pytest.fixture(scope="module")
def page(office: Office) -> Iterator[Browser]:
    with browser() as opened:
        office.log_in(opened, "clinician")
        yield opened


@pytest.fixture(scope="module")
def patient(office: Office) -> str:
    return str(
        office.back_office.value(
            "SELECT user_id FROM patients_demographics ORDER BY user_id LIMIT 1"
        )
    )


def field_value(page: Browser, name: str) -> str:
    return str(page.run("return document.getElementById(arguments[0]).value", f"id_{name}"))


def wait_for_codes(page: Browser, codes: str) -> None:
    wait_until(
        lambda: field_value(page, "icd_codes") == codes, 30, f"codes are {codes}", every=0.05
    )


def test_diagnosis_codes_are_chosen_by_keyboard(
    page: Browser, office: Office, patient: str
) -> None:
    page.open(f"{office.url}/orders/new/{patient}/")
    page.type("#id_diagnosis", f"vitamin d{ENTER}")
    wait_for_codes(page, "E55.9")
    wait_until(lambda: field_value(page, "diagnosis") == "", 30, "the search is empty", every=0.05)
    press_keys(page, "hyperlip")
    page.find('#diagnoses [data-word="hyperlip"] .pick[value="E78.5"]')
    save_screenshot(page, "diagnoses")
    press_keys(page, DOWN)
    chosen = "return document.activeElement.value"
    wait_until(lambda: page.run(chosen) == "E78.5", 30, "the first code has the focus", every=0.05)
    press_keys(page, ESCAPE)
    assert focused_name(page) == "diagnosis"
    press_keys(page, DOWN + ENTER)
    wait_for_codes(page, "E55.9 E78.5")

    # The page saves the draft when it is left. The next page may load before the draft is saved.
    def draft_codes() -> str:
        page.open(f"{office.url}/orders/new/{patient}/")
        return field_value(page, "icd_codes")

    wait_until(lambda: draft_codes() == "E55.9 E78.5", 30, "both codes are in the draft")


def test_code_search_survives_choosing_tests(page: Browser, office: Office, patient: str) -> None:
    page.open(f"{office.url}/orders/new/{patient}/")
    page.type("#id_diagnosis", "iron")
    page.find('#diagnoses [data-word="iron"] .pick[value="E61.1"]')
    page.click("#choices input[type=checkbox]")
    page.find(".chosen-tests input")
    assert field_value(page, "diagnosis") == "iron"
    page.click('#diagnoses .pick[value="E61.1"]')
    wait_until(
        lambda: "E61.1" in field_value(page, "icd_codes"), 30, "the code is added", every=0.05
    )


def test_codes_can_be_typed_while_code_search_fails(
    page: Browser, office: Office, patient: str
) -> None:
    fault = {"rate": 1, "kinds": ["status"], "statuses": [500], "paths": "/search/diagnosis$"}
    office.sandbox.control("faults", {**fault, "times": 100})
    page.open(f"{office.url}/orders/new/{patient}/")
    page.type("#id_diagnosis", "r53.83")
    page.wait_for_text("Codes could not be looked up")
    page.find('#diagnoses [data-word="r53.83"] .pick[value="R53.83"]')
    press_keys(page, ENTER)
    wait_until(
        lambda: "R53.83" in field_value(page, "icd_codes"), 30, "the code is added", every=0.05
    )
    office.sandbox.control("faults", method="DELETE")


def test_text_messages_of_an_order_are_turned_off(page: Browser, office: Office) -> None:
    order = office.sandbox.query(
        "SELECT id::text FROM sandbox_order WHERE sms_enabled AND NOT registrable LIMIT 1"
    )[0][0]
    page.open(f"{office.url}/orders/{order}/")
    page.run("document.querySelector('[hx-get$=\"/messages/state/\"]').scrollIntoView()")
    page.wait_for_text("Text messages\nOn")
    page.open(f"{office.url}/orders/{order}/messages/")
    page.wait_for_text("Now: On.")
    page.type("#id_sms_enabled", "Off")
    page.click("main button[type=submit].primary")
    page.wait_for_text("Turn off text messages")
    page.wait_for_text("Confirmed")
    page.run("document.querySelector('[hx-get$=\"/messages/state/\"]').scrollIntoView()")
    page.wait_for_text("Text messages\nOff")


def assert_prints(page: Browser) -> None:
    """The printout shows the QR code, instructions and the URL, and no buttons."""
    page.run("window.printed = 0; window.print = () => { window.printed += 1 }")
    page.click_text("Print QR code")
    assert page.run("return window.printed") == 1
    page.devtools("Emulation.setEmulatedMedia", {"media": "print"})
    try:
        text = page.text("main")
        assert "Point your phone camera at the square" in text
        assert "https://link.service.invalid/?token=" in text
        assert "Copy link" not in text and "shown only once" not in text
        width = page.run("return document.querySelector('svg.qr').getBoundingClientRect().width")
        assert width > 150
        save_screenshot(page, "connect-link-print")
    finally:
        page.devtools("Emulation.setEmulatedMedia", {"media": ""})


def test_link_to_connect_a_device_is_shown_once(
    page: Browser, office: Office, patient: str
) -> None:
    page.open(f"{office.url}/patients/{patient}/")
    page.click_text("Connect a device")
    page.wait_for_text("shown only once, only to you")
    slug = page.run("return document.getElementById('id_provider').options[1].value")
    page.run("document.getElementById('id_provider').value = arguments[0]", slug)
    save_screenshot(page, "connect-device")
    page.click("main form button.primary")
    page.wait_for_text("The link is ready")
    assert page.url == f"{office.url}/patients/{patient}/devices/connect/link/"
    page.click("main form button.primary")
    page.wait_for_text("Copy or print the link now")
    link = page.text("code.wrap")
    assert link.startswith("https://link.service.invalid/?token=")
    assert page.run("return document.querySelector('svg.qr').getBoundingClientRect().width") > 150
    page.run(
        "window.copied = []; navigator.clipboard.writeText = async (t) => window.copied.push(t)"
    )
    page.click_text("Copy link")
    page.wait_for_text("Copied")
    assert page.run("return window.copied[0]") == link and "token" not in page.url
    assert link.endswith(f"&provider={slug}")
    assert_prints(page)
    save_screenshot(page, "connect-link")
    page.open(page.url)
    page.wait_for_text("cannot be shown again")
    assert link not in page.text()
