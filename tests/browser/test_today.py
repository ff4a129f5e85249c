"""Today in a real browser: counts lead to lists of just that many and follow what happens; news is
seen and taken; a critical result shows on the open page; the sheet of a shift fits on paper."""

from __future__ import annotations

import base64
import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.browser import Browser, browser, needs_browser
from tests.browser.office import Office, at_work, press
from tests.sync.house import wait_until

pytestmark = needs_browser

PATIENCE = 40
"""Seconds for a machine that is shared with other tests."""
_CRITICAL = """
INSERT INTO orders_criticalresult
 (order_id, user_id, status, interpretation, first_heard_at, heard_at, event_number, message_id)
SELECT id, user_id, 'final', 'critical', now(), now(), 1, 'made-up' FROM orders_order
WHERE user_id IS NOT NULL AND bucket = 'at-lab'
 AND id NOT IN (SELECT order_id FROM orders_review WHERE critical_since IS NOT NULL)
ORDER BY id LIMIT 1 RETURNING order_id
"""


@pytest.fixture(scope="module")
def office(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Office]:
    with at_work(tmp_path_factory.mktemp("houses"), orders=60) as office:
        yield office


@pytest.fixture(scope="module")
def page(office: Office) -> Iterator[Browser]:
    with browser() as opened:
        office.log_in(opened, "clinician")
        yield opened


def number(text: str) -> int:
    found = re.search(r"[\d,]+", text)
    return int(found[0].replace(",", "")) if found else 0


def counts(page: Browser) -> dict[str, int]:
    """Tiles and buckets of the open page by their words."""
    told = page.run(
        "return [...document.querySelectorAll('#tiles a')].map("
        "a => [a.querySelector('span').textContent.trim(), a.querySelector('strong').textContent])"
    )
    return {words: number(count) for words, count in told}


def until(page: Browser, script: str, what: str) -> None:
    ends = time.monotonic() + PATIENCE
    while not page.run(f"return {script}"):
        assert time.monotonic() < ends, f"{what}: {page.text()[:800]}"
        time.sleep(0.1)


def test_a_shift_begins_here_and_every_count_leads_to_that_many(
    page: Browser, office: Office
) -> None:
    assert page.url == f"{office.url}/today/"
    told = counts(page)
    assert sum(count > 0 for count in told.values()) > 4
    for words in ("Needs action", "At the lab", "Result in"):
        page.open(f"{office.url}/today/")
        page.run(
            "[...document.querySelectorAll('#tiles a')]"
            ".find(a => a.querySelector('span').textContent.trim() === arguments[0]).click()",
            words,
        )
        page.find("[data-total]")
        assert number(page.text("[data-total]")) == told[words], words
    press(page, "gt")
    page.sees("Since you last looked")


def test_counts_follow_and_nothing_else_moves(page: Browser, office: Office) -> None:
    page.open(f"{office.url}/today/")
    before = counts(page)
    news = page.run("return document.querySelector('.digest')?.innerText")
    page.run("document.querySelector('#tiles a').focus()")
    office.sandbox.control("place", {"orders": 5})
    office.house.sync("orders")
    ends = time.monotonic() + PATIENCE
    while sum(counts(page).values()) == sum(before.values()):
        assert time.monotonic() < ends, "the counts do not follow"
        time.sleep(0.2)
    assert page.run("return document.querySelector('.digest')?.innerText") == news
    until(page, "!document.querySelector('[data-live]').hidden", "news are told")
    page.link("Show")
    until(page, f"document.querySelector('.digest')?.innerText !== {news!r}", "Show shows them")


def test_a_critical_result_is_told_on_the_open_page(page: Browser, office: Office) -> None:
    page.open(f"{office.url}/today/")
    before = int(page.run("return document.querySelector('#tiles').dataset.unacknowledged"))
    ((order,),) = office.house.query(_CRITICAL)
    page.sees(f"{before + 1} critical result", PATIENCE)
    until(
        page, f"/^(\\(\\d+\\) )?\\({before + 1}!\\) /.test(document.title)", "the title counts it"
    )
    assert "icon-critical" in page.run("return document.querySelector('link[rel=icon]').href")
    page.open(f"{office.url}/orders/")
    page.click(".critical-bar a")
    page.find(f"a[href*='{order}'], form[action*='{order}']")


ALL_SEEN = ".card form[action='/today/seen/all/'] button"


def test_news_is_seen_taken_back_and_taken(page: Browser, office: Office) -> None:
    page.open(f"{office.url}/today/")
    first = page.run("return document.querySelector('.digest > li').id")
    page.click(f"#{first} header button")
    page.find(f"#{first}.seen")
    page.open(f"{office.url}/today/")
    assert not page.all(f"#{first}")
    second = page.run("return document.querySelector('.digest > li').id")
    page.click(f"#{second} header button")
    page.click(f"#{second}.seen button")
    page.find(f"#{second} header button")
    page.click(f"#{second} [data-take]")
    page.sees("Yours since", PATIENCE)
    page.open(f"{office.url}/today/")
    page.sees("Taken")

    def nothing_is_new() -> bool:
        """What came after the page was opened stays new."""
        page.open(f"{office.url}/today/")
        if page.all(ALL_SEEN):
            page.click(ALL_SEEN)
            page.find("#tiles")
        return "Nothing new" in page.text()

    wait_until(nothing_is_new, 60, "all is seen")


def test_the_hand_over_fits_on_one_sheet(page: Browser, office: Office, tmp_path: Path) -> None:
    page.open(f"{office.url}/today/")
    page.link("Hand over the shift")
    page.sees("Still open")
    page.sees("change of who works on what")
    printed = page.devtools("Page.printToPDF", {"paperWidth": 8.27, "paperHeight": 11.69})
    pdf = base64.b64decode(printed["data"])
    (tmp_path / "sheet.pdf").write_bytes(pdf)
    assert len(re.findall(rb"/Type\s*/Page\b", pdf)) == 1
    entries = office.house.value("SELECT count(*) FROM backoffice_auditentry WHERE action='print'")
    assert entries == 1
