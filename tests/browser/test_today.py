"""Browser tests of the Today page: counts, updates, critical results and the shift handover."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.browser import Browser, browser, needs_browser
from tests.browser.office import Office, press_keys, running_office
from tests.waiting import wait_until

pytestmark = needs_browser

WAIT_SECONDS = 40
"""Seconds. The machine is shared with other tests."""
INSERT_CRITICAL_RESULT = """
INSERT INTO orders_criticalannouncement
 (order_id, user_id, status, interpretation, first_heard_at, heard_at, event_number, message_id)
SELECT id, user_id, 'final', 'critical', now(), now(), 1, 'made-up' FROM orders_order
WHERE user_id IS NOT NULL AND bucket = 'at-lab'
 AND id NOT IN (SELECT order_id FROM orders_review WHERE critical_since IS NOT NULL)
ORDER BY id LIMIT 1 RETURNING order_id
"""


@pytest.fixture(scope="module")
def office(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Office]:
    with running_office(tmp_path_factory.mktemp("back_offices"), orders=60) as office:
        yield office


@pytest.fixture(scope="module")
def page(office: Office) -> Iterator[Browser]:
    with browser() as opened:
        office.log_in(opened, "clinician")
        yield opened


def first_number(text: str) -> int:
    found = re.search(r"[\d,]+", text)
    return int(found[0].replace(",", "")) if found else 0


def counts(page: Browser) -> dict[str, int]:
    """Return the counts of tiles and status groups on the open page by their labels."""
    rows = page.run(
        "return [...document.querySelectorAll('#tiles a:has(strong)')].map("
        "a => [a.querySelector('span').textContent.trim(), a.querySelector('strong').textContent])"
    )
    return {label: first_number(count) for label, count in rows}


def wait_until_true(page: Browser, script: str, what: str) -> None:
    wait_until(lambda: page.run(f"return {script}"), WAIT_SECONDS, what)


def test_each_count_leads_to_list_of_that_many_orders(page: Browser, office: Office) -> None:
    assert page.url == f"{office.url}/today/"
    expected = counts(page)
    assert sum(count > 0 for count in expected.values()) > 4
    for label in ("Needs action", "At the lab", "Result in"):
        page.open(f"{office.url}/today/")
        page.run(
            "[...document.querySelectorAll('#tiles a')]"
            ".find(a => a.querySelector('span')?.textContent.trim() === arguments[0]).click()",
            label,
        )
        page.find("[data-total]")
        assert first_number(page.text("[data-total]")) == expected[label], label
    press_keys(page, "gt")
    page.wait_for_text("Since you last checked")


def test_counts_update_and_nothing_else_moves(page: Browser, office: Office) -> None:
    page.open(f"{office.url}/today/")
    before = counts(page)
    updates = page.run("return document.querySelector('.digest')?.innerText")
    page.run("document.querySelector('#tiles a').focus()")
    office.sandbox.control("place", {"orders": 5})
    office.back_office.sync("orders")
    wait_until(
        lambda: sum(counts(page).values()) != sum(before.values()), WAIT_SECONDS, "the new counts"
    )
    assert page.run("return document.querySelector('.digest')?.innerText") == updates
    wait_until_true(
        page, "!document.querySelector('[data-live]').hidden", "the update notice appears"
    )
    page.click_text("Show")
    wait_until_true(
        page, f"document.querySelector('.digest')?.innerText !== {updates!r}", "Show shows them"
    )


def test_critical_result_appears_on_open_page(page: Browser, office: Office) -> None:
    page.open(f"{office.url}/today/")
    before = int(page.run("return document.querySelector('#tiles').dataset.unacknowledged"))
    ((order,),) = office.back_office.query(INSERT_CRITICAL_RESULT)
    page.wait_for_text(f"{before + 1} critical result", WAIT_SECONDS)
    wait_until_true(
        page, f"/^(\\(\\d+\\) )?\\({before + 1}!\\) /.test(document.title)", "the title counts it"
    )
    assert "icon-critical" in page.run("return document.querySelector('link[rel=icon]').href")
    page.open(f"{office.url}/orders/")
    page.click(".critical-bar a")
    page.find(f"a[href*='{order}'], form[action*='{order}']")


ALL_SEEN = ".card form[action='/today/seen/all/'] button"


def test_update_is_marked_seen_unmarked_and_assigned(page: Browser, office: Office) -> None:
    page.open(f"{office.url}/today/")
    first = page.run("return document.querySelector('.digest > li').id")
    page.click(f"#{first} header button")
    page.find(f"#{first}.seen")
    page.open(f"{office.url}/today/")
    assert not page.find_all(f"#{first}")
    second = page.run("return document.querySelector('.digest > li').id")
    page.click(f"#{second} header button")
    page.click(f"#{second}.seen button")
    page.find(f"#{second} header button")
    page.click(f"#{second} [data-take]")
    page.wait_for_text("Assigned to you since", WAIT_SECONDS)
    page.open(f"{office.url}/today/")
    page.wait_for_text("Assigned to me")

    def nothing_is_new() -> bool:
        """Mark all as seen. Updates that arrived after the page was opened stay new."""
        page.open(f"{office.url}/today/")
        if page.find_all(ALL_SEEN):
            page.click(ALL_SEEN)
            page.find("#tiles")
        return "Nothing new" in page.text()

    wait_until(nothing_is_new, 60, "all is seen")


def test_shift_handover_fits_on_one_page(page: Browser, office: Office, tmp_path: Path) -> None:
    page.open(f"{office.url}/today/")
    page.click_text("Shift handoff")
    page.wait_for_text("Still open")
    page.wait_for_text("assignment change")
    printed = page.devtools("Page.printToPDF", {"paperWidth": 8.27, "paperHeight": 11.69})
    pdf = base64.b64decode(printed["data"])
    (tmp_path / "sheet.pdf").write_bytes(pdf)
    assert len(re.findall(rb"/Type\s*/Page\b", pdf)) == 1
    entries = office.back_office.value("SELECT count(*) FROM audit_auditentry WHERE action='print'")
    assert entries == 1
