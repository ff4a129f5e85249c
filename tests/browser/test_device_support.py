"""Journey 10a, "My device data stopped": see what failed and copy the text for support.

Six interactions suffice for one patient. Another page shows failures of all patients.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from tests.browser import Browser, browser, needs_browser
from tests.browser.office import (
    ENTER,
    Office,
    assert_within,
    press_keys,
    running_office,
    save_screenshot,
)
from tests.waiting import wait_until

pytestmark = needs_browser
MAX_INTERACTIONS = 6
"""Interactions: clicks, shortcuts, and fields typed into."""
SECONDS = 30
PATIENT_WITH_FAILED_PULL = """
    SELECT p.user_id, d.first_name, d.last_name, p.provider, p.trace_id
    FROM wearables_historicalpull AS p
    JOIN patients_demographics AS d USING (user_id)
    JOIN patients_connection AS c ON c.user_id = p.user_id AND c.slug = p.provider
    WHERE p.status = 'failure' AND p.trace_id IS NOT NULL AND c.missing_since IS NULL AND (
        SELECT count(*) FROM orders_order AS o
        WHERE o.user_id = p.user_id AND o.bucket NOT IN ('result-in', 'closed')) <> 1
    ORDER BY p.user_id, p.resource LIMIT 1
"""


@pytest.fixture(scope="module")
def office(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Office]:
    with running_office(tmp_path_factory.mktemp("journey-10a"), users=12, orders=16) as office:
        backfill = {"users": 12, "outcome": "failure", "finished": True}
        office.sandbox.control("backfill", backfill)
        office.back_office.sync()
        office.back_office.query(
            "UPDATE accounts_user SET first_name = 'Ana', last_name = 'Notreal'"
            " WHERE username = 'lab-admin'"
        )
        yield office


@pytest.fixture(scope="module")
def page(office: Office) -> Iterator[Browser]:
    with browser() as opened:
        office.log_in(opened, "lab-admin")
        yield opened


def test_failed_pull_is_copied_for_support_in_six_interactions(
    page: Browser, office: Office
) -> None:
    ((patient, first, last, provider, trace_id),) = office.back_office.query(
        PATIENT_WITH_FAILED_PULL
    )
    page.open(f"{office.url}/orders/")
    page.find("html[data-js]")
    page.run(
        "window.copied = []; navigator.clipboard.writeText = async (t) => window.copied.push(t)"
    )
    began = time.monotonic()
    press_keys(page, "/")  # 1
    press_keys(page, f"{first} {last}")  # 2
    press_keys(page, ENTER)  # 3
    page.find(".person")
    interactions = 3
    if "/orders/" in page.url:  # With one order, the search opens it.
        page.click(".person a.name")
        interactions += 1
    page.wait_for_text("Overview")
    page.click_text("Devices")
    interactions += 1
    page.wait_for_text("Last data")
    assert page.url.endswith(f"/patients/{patient}/devices/")
    text = page.text("main")
    assert "Connected since" in text and "Failed" in text and "Days with data" in text
    page.run(
        "window.copied = []; navigator.clipboard.writeText = async (t) => window.copied.push(t)"
    )
    page.click(f"[data-copy*='Source: {provider}']")
    interactions += 1
    page.wait_for_text("Copied")
    assert interactions <= MAX_INTERACTIONS
    assert_within(began, SECONDS)
    (copied,) = page.run("return window.copied")
    assert "failure" in copied and f"trace {trace_id}" in copied and str(patient) in copied
    assert first not in copied and last not in copied
    page.click(f"[data-copy='{trace_id}']")
    assert page.run("return window.copied.at(-1)") == trace_id
    save_screenshot(page, "devices")


def test_device_is_disconnected_in_six_interactions(page: Browser, office: Office) -> None:
    ((patient, _, _, provider, _),) = office.back_office.query(PATIENT_WITH_FAILED_PULL)
    page.open(f"{office.url}/patients/{patient}/")  # 3, as above
    page.click_text("Devices")  # 4
    page.click(f"a[href$='/{provider}/disconnect/']")  # 5
    page.wait_for_text("stays connected until")
    save_screenshot(page, "disconnect")
    page.click("button.danger[type=submit]")  # 6
    page.wait_for_text("Disconnect")
    disconnected = (
        "SELECT count(*) FROM outbox_commandrecord WHERE kind = 'connection.end' AND state = 'done'"
    )
    wait_until(lambda: office.back_office.value(disconnected) == 1, 30, "it is disconnected")
    page.open(f"{office.url}/patients/{patient}/activity/?show=people")
    page.wait_for_text("Ana Notreal")
    assert "Disconnect" in page.text("main")


def test_failing_pulls_are_grouped_by_error(page: Browser, office: Office) -> None:
    page.click_text("System")
    page.open(f"{office.url}/system/pulls/")
    page.wait_for_text("What failed")
    head, first = page.text("#failing"), page.text(".table tbody tr")
    assert head and "Failed" in first
    save_screenshot(page, "pulls")
    page.click(".table tbody tr a")
    page.wait_for_text("Status: Failed")
    assert "status=failure" in page.url


def test_note_and_assignment_work_without_leaving_page(page: Browser, office: Office) -> None:
    ((patient, *_),) = office.back_office.query(
        "SELECT user_id, 1 FROM patients_demographics ORDER BY user_id LIMIT 1"
    )
    page.open(f"{office.url}/patients/{patient}/")
    page.click("[data-key='a']")
    page.wait_for_text("Assigned to you since")
    page.type("[data-key='n']", "Asked the caller to open the app once. @front-desk")
    page.click_text("Add note")
    page.find(".said .text strong")
    assert "@front-desk" in page.text(".said")
    assert page.run("return document.querySelector('[data-key=n]').value") == ""
    page.run("document.querySelector('#changes').closest('summary').click()")
    page.find(".log .said")
    assert "Assigned to self" in page.text(".log")
    save_screenshot(page, "patient")
    for tab in ("orders", "results", "insured", "activity"):
        page.click(f".tabs a[href$='/{tab}/']")
        page.find(f".tabs a[href$='/{tab}/'][aria-current]")
        save_screenshot(page, f"patient-{tab}")


def test_mentioned_user_finds_note_in_notifications(page: Browser, office: Office) -> None:
    with browser() as other:
        office.log_in(other, "front-desk")
        other.click(".bell")
        other.wait_for_text("You were mentioned in a note")
        save_screenshot(other, "notifications")
        other.click(".told a")
        other.wait_for_text("Asked the caller")
        assert "data-bell" not in other.run("return document.querySelector('.bell').outerHTML")
