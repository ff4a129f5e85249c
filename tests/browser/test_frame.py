"""What is the same on every page, in a real browser: news without anything moving, shortcuts, the
drawer, preferences."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from tests.browser import Browser, browser, needs_browser
from tests.browser.office import ENTER, Office, at_work, press
from tests.sync.house import SYNC, running, wait_until

pytestmark = needs_browser
ESCAPE = "\ue00c"
NEWS_SECONDS = 2.0
ROWS = (
    "return [...document.querySelectorAll('[data-rows] .lead a, tbody .lead a')].map(a => a.href)"
)


@pytest.fixture(scope="module")
def office(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Office]:
    with at_work(tmp_path_factory.mktemp("frame"), users=6, orders=16) as made:
        yield made


@pytest.fixture(scope="module")
def opened(office: Office) -> Iterator[Browser]:
    with browser() as page:
        office.log_in(page, "lab-coordinator")
        yield page


@pytest.fixture
def page(opened: Browser, office: Office) -> Browser:
    office.house.query("UPDATE backoffice_user SET single_keys = true RETURNING 1")
    opened.open(f"{office.url}/orders/")
    return opened


def change(office: Office) -> None:
    """Orders change at the service, and the mirror learns of it."""
    before = office.house.value("SELECT count(*) FROM backoffice_change")
    office.sandbox.control("change", {"orders": 3})
    with running(office.house.start(*SYNC, "orders")):
        wait_until(
            lambda: office.house.value("SELECT count(*) FROM backoffice_change") > before,
            60,
            "the mirror has it",
        )


def test_news_are_told_within_two_seconds_and_nothing_moves(page: Browser, office: Office) -> None:
    rows = page.run(ROWS)
    page.run("document.querySelectorAll('tbody .lead a')[3].focus()")
    at = page.run("return document.activeElement.getBoundingClientRect().top")
    change(office)
    page.find("[data-live]:not([hidden])")
    assert "update" in page.text("[data-live]")
    assert page.run("return document.title").startswith("(")
    assert page.run(ROWS) == rows
    assert page.run("return document.activeElement.getBoundingClientRect().top") == at
    focused = page.run("return document.activeElement.href")
    page.run("document.querySelector('[data-show-news]').click()")
    wait_until(
        lambda: page.run("return document.querySelector('[data-live]').hidden"),
        10,
        "news are shown",
    )
    assert not page.run("return document.title").startswith("(")
    assert page.run("return document.activeElement.href") == focused


def test_a_page_knows_within_two_seconds(page: Browser, office: Office) -> None:
    """Counted in the page, from the commit on: what the test itself takes does not count."""
    page.run(
        "new MutationObserver((_, watch) => { window.knew = Date.now(); watch.disconnect(); })"
        ".observe(document.querySelector('[data-live]'), {attributeFilter: ['hidden']})"
    )
    office.house.query(
        "INSERT INTO backoffice_change (xact, topic, rows, subjects)"
        " VALUES (pg_current_xact_id()::text::bigint, 'orders_order', 1, '{}') RETURNING 1"
    )
    committed = page.run("return Date.now()")
    page.find("[data-live]:not([hidden])")
    took = (page.run("return window.knew") - committed) / 1000
    assert took < NEWS_SECONDS, took


def test_filters_and_ticks_stay_when_news_are_shown(page: Browser, office: Office) -> None:
    page.open(f"{office.url}/orders/?order_key=updated_at&order_direction=desc")
    tick = "tbody input[type=checkbox]"
    if not page.all(tick):
        pytest.skip("no ticks in this list")
    chosen = page.run(
        f"const one = document.querySelectorAll('{tick}')[2]; one.click(); return one.value"
    )
    change(office)
    page.run(f"document.querySelectorAll('{tick}')[2].blur()")
    # Chosen rows hold the question back; whoever presses Show has it answered all the same.
    page.run("document.querySelector('[data-show-news]').click()")
    wait_until(
        lambda: page.run("return document.getElementById('live').textContent") == "Updated",
        10,
        "loaded",
    )
    assert "order_key=updated_at" in page.url
    kept = page.run(f"return [...document.querySelectorAll('{tick}:checked')].map(o => o.value)")
    assert kept == [chosen]


def test_without_answers_the_page_says_how_old_it_is(page: Browser) -> None:
    page.run("document.querySelector('[data-live]').dataset.url = '/nowhere-at-all/'")
    page.sees("Not live at the moment: updated", 20)
    page.run("document.querySelector('[data-live]').dataset.url = '/live/'")
    page.link("Try again")
    wait_until(
        lambda: page.run("return document.querySelector('[data-live]').hidden"), 10, "live again"
    )


def test_places_and_rows_by_keyboard(page: Browser, office: Office) -> None:
    press(page, "ga")
    wait_until(lambda: "/appointments/" in page.url, 10, "g a goes to appointments")
    press(page, "go")
    wait_until(lambda: page.url.endswith("/orders/"), 10, "g o goes to orders")
    rows = page.run(ROWS)
    press(page, "jjk")
    assert page.run("return document.activeElement.href") == rows[0]
    press(page, ENTER)
    wait_until(lambda: page.url == rows[0], 10, "Enter opens")
    page.sees("Journey")
    press(page, ESCAPE)
    wait_until(lambda: page.url.endswith("/orders/"), 10, "Escape leads back")


def test_keys_rest_while_one_types_and_with_modifiers(page: Browser) -> None:
    press(page, "/")
    assert page.run("return document.activeElement.matches('[data-find]')")
    press(page, "ga?j")
    assert page.run("return document.activeElement.value") == "ga?j"
    assert not page.all("dialog[open]")
    press(page, ESCAPE + ESCAPE)  # The first one may shut what the box suggests.
    assert not page.run("return document.activeElement.matches('[data-find]')")
    assert page.url.endswith("/orders/")


def test_help_lists_what_the_page_declares(page: Browser) -> None:
    page.run(
        "const one = document.createElement('button'); one.dataset.key = 'q';"
        "one.textContent = 'Made-up verb'; one.onclick = () => { document.title = 'pressed'; };"
        "document.querySelector('main').append(one)"
    )
    press(page, "?")
    told = page.text("dialog[open]")
    assert "Made-up verb" in told
    assert "Next row" in told
    press(page, "q")
    assert page.run("return document.title") != "pressed", "a key of the page under a dialog"
    press(page, ESCAPE)
    wait_until(lambda: not page.all("dialog[open]"), 5, "the dialog is shut")
    press(page, "q")
    assert page.run("return document.title") == "pressed"


def test_shortcuts_can_be_switched_off(page: Browser, office: Office) -> None:
    page.open(f"{office.url}/preferences/")
    page.click("[name=single_keys]")
    page.link("Save preferences")
    page.sees("Preferences saved")
    assert page.run("return document.documentElement.dataset.keys") == "off"
    press(page, "go")
    press(page, "?")
    time.sleep(0.3)
    assert page.url.endswith("/preferences/")
    assert not page.all("dialog[open]")


@pytest.mark.parametrize("width", [320, 390, 700])
def test_the_places_are_at_hand_on_small_screens(page: Browser, width: int) -> None:
    page.resize(width, 700)
    try:
        box = page.run(
            "const b = document.querySelector('.nav').getBoundingClientRect();"
            "return [b.top, b.bottom, innerHeight, document.documentElement.scrollWidth]"
        )
        assert box[3] <= width
        if width < 640:
            assert box[1] >= box[2] - 1, "under the thumb"
        links = "return [...document.querySelectorAll('.nav li > a:not(.alarm)')].map(a => {"
        links += "const b = a.getBoundingClientRect(); return [b.left, b.right, b.height]})"
        places = page.run(links)
        assert all(right - left >= 24 and height >= 24 for left, right, height in places)
        assert all(left >= 0 and right <= width for left, right, _ in places), "none is cut"
        page.click('.nav a[data-go="p"]')
        wait_until(lambda: page.url.endswith("/patients/"), 10, "the place opens")
    finally:
        page.resize(1280, 900)
