"""The event log in a real browser: the sandbox delivers, a worker applies, a person looks, filters,
replays, and is shown no more than the role allows."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from tests.browser import Browser, browser, needs_browser
from tests.browser.office import log_in
from tests.sandboxes import Sandbox
from tests.sandboxes import running as sandbox_running
from tests.sync.back_office import BackOffice, BackOffices, running
from tests.waiting import wait_until
from tests.webhooks.sending import attempt, receiving, send
from tests.webhooks.signed import Message

pytestmark = needs_browser


@dataclass
class Place:
    """A running back office with its sandbox."""

    url: str
    back_office: BackOffice
    sandbox: Sandbox
    poison: Message


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    folder = tmp_path_factory.mktemp("back_offices")
    back_offices = BackOffices(os.environ["DATABASE_URL"], folder, staffed=True)
    try:
        with sandbox_running(users=8, orders=24, seed=11) as sandbox:
            back_office = back_offices.build(sandbox.url)
            back_office.sync()
            with receiving(back_office, workers=1) as url:
                sandbox.control("webhooks", {"url": f"{url}/webhooks/"})
                poison = _poison(back_office)
                send(f"{url}/webhooks/", [attempt(poison)])
                with running(back_office.start("-m", "tests.webhooks.drainer")):
                    sandbox.control("change", {"orders": 6})
                    _settle(back_office)
                    yield Place(url, back_office, sandbox, poison)
    finally:
        back_offices.close()


def _poison(back_office: BackOffice) -> Message:
    """An order as the service has it, but for one moment that is none."""
    record, user, team = back_office.query(
        "SELECT record, user_id, team_id FROM orders_order ORDER BY created_at LIMIT 1"
    )[0]
    body = {
        "event_type": "labtest.order.updated",
        "data": {**json.loads(record), "created_at": "canary-moment"},
        "user_id": str(user),
        "team_id": str(team),
    }
    return Message(json.dumps(body).encode())


def _settle(back_office: BackOffice) -> None:
    """All is applied, and the poisonous one has had its last attempt without waiting for it."""
    wait_until(
        lambda: (
            back_office.value("SELECT count(*) FROM webhooks_event WHERE outcome = 'applied'") >= 3
        ),
        60,
        "the sandbox's events are applied",
    )

    def dead() -> bool:
        back_office.query("UPDATE webhooks_event SET due_at = now() WHERE state = 'retry'")
        return bool(back_office.value("SELECT count(*) FROM webhooks_event WHERE state = 'dead'"))

    wait_until(dead, 30, "the poisonous event is dead", every=0.3)


@pytest.fixture
def page(place: Place) -> Iterator[Browser]:
    with browser() as opened:
        yield opened


def test_staff_filter_preview_and_replay_an_event(page: Browser, place: Place) -> None:
    log_in(page, place.url, "lab-admin")
    page.click_text("System")
    page.wait_for_text("Lab service events")
    page.click_text("Events")
    page.wait_for_text("Order updated")
    page.wait_for_text("Applied")

    # A filter swaps the table; the address can be sent to a colleague.
    page.click(".filters details.pop > summary")
    page.click('input[name="type"][value="labtest.order"]')
    page.click(".filters details.pop[open] button[type=submit]")
    page.wait_for_text("Type: Orders (all)")
    assert "type=labtest.order" in page.url
    page.click_text("Failed 1")
    page.wait_for_text("1 match")
    assert "show=failed" in page.url

    page.click_text("Order updated")
    page.wait_for_text("$.data.created_at")
    page.wait_for_text("canary-moment")
    page.click_text("Preview replay…")
    page.wait_for_text("Would fail again")
    assert place.back_office.value("SELECT count(*) FROM webhooks_event WHERE state = 'dead'") == 1
    page.click_text("Replay this event")
    page.wait_for_text("The event will be replayed within seconds.")
    assert place.back_office.query(
        "SELECT reason, object_type FROM audit_auditentry WHERE action = 'change'"
    ) == [("replay", "event")]
    _settle(place.back_office)


def test_page_masks_values_without_permission(page: Browser, place: Place) -> None:
    log_in(page, place.url, "lab-coordinator")
    page.open(f"{place.url}/system/events/?show=failed")
    page.click_text("Order updated")
    page.wait_for_text("Your role can see the structure, not the values.")
    shown = page.run("return document.documentElement.outerHTML")
    assert "created_at" in shown
    assert "canary-moment" not in shown
    assert "Replay" not in shown


def test_order_links_to_the_event_of_its_status(page: Browser, place: Place) -> None:
    log_in(page, place.url, "lab-admin")
    order = place.back_office.value(
        "SELECT subject_id FROM webhooks_event WHERE outcome = 'applied' ORDER BY id DESC LIMIT 1"
    )
    page.open(f"{place.url}/orders/{order}/")
    page.click_text("How do we know?")
    page.wait_for_text("Sent by the lab service")


def test_event_log_works_by_keyboard_and_on_phone(page: Browser, place: Place) -> None:
    log_in(page, place.url, "lab-admin")
    page.open(f"{place.url}/system/events/")
    page.type("body", "j")
    assert page.run("return document.activeElement.textContent.trim()") in (
        "Order updated",
        "Appointment updated",
    )
    page.resize(320, 700)
    for address in ("", "?show=failed", "replay/"):
        page.open(f"{place.url}/system/events/{address}")
        wide = page.run("return document.documentElement.scrollWidth")
        assert wide <= 320, f"{address} is {wide} px wide"
