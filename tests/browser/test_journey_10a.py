"""Journey 10a: "My device data stopped." What failed and why, and the text for support, within six
interactions; the same across patients."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from tests.browser import Browser, browser, needs_browser
from tests.browser.office import ENTER, Office, at_work, picture, press, within
from tests.sync.house import wait_until

pytestmark = needs_browser
MOST = 6
"""Interactions: clicks, shortcuts, and fields typed into."""
SECONDS = 30
CALLER = """
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
    with at_work(tmp_path_factory.mktemp("journey-10a"), users=12, orders=16) as found:
        failed = {"users": 12, "outcome": "failure", "finished": True}
        found.sandbox.control("backfill", failed)
        found.house.sync()
        found.house.query(
            "UPDATE backoffice_user SET first_name = 'Ana', last_name = 'Notreal'"
            " WHERE username = 'lab-admin'"
        )
        yield found


@pytest.fixture(scope="module")
def page(office: Office) -> Iterator[Browser]:
    with browser() as opened:
        office.log_in(opened, "lab-admin")
        yield opened


def test_what_failed_and_the_text_for_support_in_six(page: Browser, office: Office) -> None:
    ((patient, first, last, provider, trace),) = office.house.query(CALLER)
    page.open(f"{office.url}/orders/")
    page.find("html[data-js]")
    page.run(
        "window.copied = []; navigator.clipboard.writeText = async (t) => window.copied.push(t)"
    )
    began = time.monotonic()
    press(page, "/")  # 1
    press(page, f"{first} {last}")  # 2
    press(page, ENTER)  # 3
    page.find(".person")
    interactions = 3
    if "/orders/" in page.url:  # a caller with one order is led to it
        page.click(".person a.name")
        interactions += 1
    page.sees("Overview")
    page.link("Devices")
    interactions += 1
    page.sees("Last data")
    assert page.url.endswith(f"/patients/{patient}/devices/")
    shown = page.text("main")
    assert "Connected since" in shown and "Failed" in shown and "Days with data" in shown
    page.run(
        "window.copied = []; navigator.clipboard.writeText = async (t) => window.copied.push(t)"
    )
    page.click(f"[data-copy*='Source: {provider}']")
    interactions += 1
    page.sees("Copied")
    assert interactions <= MOST
    within(began, SECONDS)
    (copied,) = page.run("return window.copied")
    assert "failure" in copied and f"trace {trace}" in copied and str(patient) in copied
    assert first not in copied and last not in copied
    page.click(f"[data-copy='{trace}']")
    assert page.run("return window.copied.at(-1)") == trace
    picture(page, "devices")


def test_disconnecting_says_what_it_may_not_do_and_does_it_in_six(
    page: Browser, office: Office
) -> None:
    ((patient, _, _, provider, _),) = office.house.query(CALLER)
    page.open(f"{office.url}/patients/{patient}/")  # three, as above
    page.link("Devices")  # 4
    page.click(f"a[href$='/{provider}/disconnect/']")  # 5
    page.sees("keeps connected goes on")
    picture(page, "disconnect")
    page.click("button.danger[type=submit]")  # 6
    page.sees("Disconnect")
    gone = (
        "SELECT count(*) FROM backoffice_commandrecord"
        " WHERE kind = 'connection.end' AND state = 'done'"
    )
    wait_until(lambda: office.house.value(gone) == 1, 30, "it is disconnected")
    page.open(f"{office.url}/patients/{patient}/activity/?show=people")
    page.sees("Ana Notreal")
    assert "Disconnect" in page.text("main")


def test_across_patients_what_fails_is_grouped_by_error(page: Browser, office: Office) -> None:
    page.link("System")
    page.open(f"{office.url}/system/pulls/")
    page.sees("What failed")
    head, first = page.text("#failing"), page.text(".table tbody tr")
    assert head and "Failed" in first
    picture(page, "pulls")
    page.click(".table tbody tr a")
    page.sees("State: Failed")
    assert "status=failure" in page.url


def test_a_note_and_taking_it_work_in_place(page: Browser, office: Office) -> None:
    ((patient, *_),) = office.house.query(
        "SELECT user_id, 1 FROM patients_demographics ORDER BY user_id LIMIT 1"
    )
    page.open(f"{office.url}/patients/{patient}/")
    page.click("[data-key='a']")
    page.sees("Yours since")
    page.type("[data-key='n']", "Asked the caller to open the app once. @front-desk")
    page.link("Add note")
    page.find(".said .text strong")
    assert "@front-desk" in page.text(".said")
    assert page.run("return document.querySelector('[data-key=n]').value") == ""
    page.run("document.querySelector('#changes').closest('summary').click()")
    page.find(".log .said")
    assert "Took" in page.text(".log")
    picture(page, "patient")
    for tab in ("orders", "results", "insured", "activity"):
        page.click(f".tabs a[href$='/{tab}/']")
        page.find(f".tabs a[href$='/{tab}/'][aria-current]")
        picture(page, f"patient-{tab}")


def test_who_is_named_finds_it_by_the_bell(page: Browser, office: Office) -> None:
    with browser() as other:
        office.log_in(other, "front-desk")
        other.click(".bell")
        other.sees("You are mentioned in a note")
        picture(other, "notifications")
        other.click(".told a")
        other.sees("Asked the caller")
        assert "data-bell" not in other.run("return document.querySelector('.bell').outerHTML")
