"""Browser tests of what all pages share: live updates, shortcuts, navigation and printing."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator

import pytest

from tests.browser import Browser, browser, needs_browser
from tests.browser.office import ENTER, Office, press_keys, running_office
from tests.sync.back_office import SYNC, running
from tests.waiting import wait_until

pytestmark = needs_browser
ESCAPE = "\ue00c"
SET_COUNT = (
    "const one = document.querySelector('.nav .tally'); one.firstChild.data = arguments[0];"
    "const b = one.getBoundingClientRect(), y = (b.top + b.bottom) / 2;"
    "const seen = x => one.contains(document.elementFromPoint(x, y));"
    "return [seen(b.left + 1), seen((b.left + b.right) / 2), seen(b.right - 1)]"
)
"""Set the count and return whether its start, middle and end are visible."""
SHOW_CRITICAL_BAR = (
    "document.querySelector('#critical').innerHTML ="
    ' \'<div class="banner critical-bar" data-st="critical"><p>3 critical results</p></div>\''
)
SHOW_UPDATE_NOTICE = (
    "const news = document.querySelector('[data-live]'); news.hidden = false;"
    "news.querySelector('p').textContent = '3 updates'"
)
COVERED = (
    "const n = document.querySelector('[data-live]').getBoundingClientRect();"
    "return [...document.querySelectorAll(arguments[0])].filter(one => {"
    " const b = one.getBoundingClientRect();"
    " return b.left < n.right && n.left < b.right && b.top < n.bottom && n.top < b.bottom"
    "}).map(one => one.textContent.trim())"
)
ROW_URLS = (
    "return [...document.querySelectorAll('[data-rows] .lead a, tbody .lead a')].map(a => a.href)"
)


@pytest.fixture(scope="module")
def office(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Office]:
    with running_office(tmp_path_factory.mktemp("frame"), users=6, orders=16) as office:
        yield office


@pytest.fixture(scope="module")
def opened(office: Office) -> Iterator[Browser]:
    with browser() as page:
        office.log_in(page, "lab-coordinator")
        yield page


@pytest.fixture
def page(opened: Browser, office: Office) -> Browser:
    office.back_office.query("UPDATE accounts_user SET single_keys = true RETURNING 1")
    opened.open(f"{office.url}/orders/")
    return opened


def sync_changed_orders(office: Office) -> None:
    """Change orders at the service and sync them into the mirror."""
    changes = "SELECT count(*) FROM core_change WHERE topic = 'orders_order'"
    before = office.back_office.value(changes)
    office.sandbox.control("change", {"orders": 3})
    with running(office.back_office.start(*SYNC, "orders")):
        wait_until(
            lambda: office.back_office.value(changes) > before,
            60,
            "the mirror has it",
        )


def test_update_notice_moves_neither_rows_nor_focus(page: Browser, office: Office) -> None:
    rows = page.run(ROW_URLS)
    page.run("document.querySelectorAll('tbody .lead a')[3].focus()")
    top = page.run("return document.activeElement.getBoundingClientRect().top")
    sync_changed_orders(office)
    page.find("[data-live]:not([hidden])")
    assert "update" in page.text("[data-live]")
    assert page.run("return document.title").startswith("(")
    assert page.run(ROW_URLS) == rows
    assert page.run("return document.activeElement.getBoundingClientRect().top") == top
    focused = page.run("return document.activeElement.href")
    page.run("document.querySelector('[data-show-news]').click()")
    wait_until(
        lambda: page.run("return document.querySelector('[data-live]').hidden"),
        60,
        "news are shown",
    )
    assert not page.run("return document.title").startswith("(")
    assert page.run("return document.activeElement.href") == focused


@pytest.mark.parametrize("width", [320, 800, 1280])
def test_update_notice_covers_no_headings_or_critical_bar(
    page: Browser, office: Office, width: int
) -> None:
    page.resize(width, 900)
    try:
        page.open(f"{office.url}/orders/")
        page.run(SHOW_CRITICAL_BAR)
        rows = "return [...document.querySelectorAll('tbody tr')].map(r => r.offsetTop)"
        before = page.run(rows)
        page.run(SHOW_UPDATE_NOTICE)
        assert page.run(rows) == before
        assert page.run(COVERED, ".topbar, .critical-bar, .subnav, h1, .tabs, thead, .nav li") == []
        if width == 1280:
            assert page.run(COVERED, "main :is(a, td, button:not([data-show-news]))") == []
    finally:
        page.resize(1280, 900)


@pytest.mark.parametrize("width", [320, 390, 800, 1280])
def test_navigation_count_is_fully_visible(page: Browser, office: Office, width: int) -> None:
    page.resize(width, 700)
    try:
        for section in ("patients", "appointments", "results"):
            page.open(f"{office.url}/{section}/")
            for count in ("7", "148", "1,234"):
                assert page.run(SET_COUNT, count) == [True] * 3, (section, count)
    finally:
        page.resize(1280, 900)


def test_page_notices_change_within_two_seconds(page: Browser, office: Office) -> None:
    """The page sees the change with the second poll at the latest, and polls every 1.5 s unless
    something delays it."""
    page.run(
        "new MutationObserver((_, watch) => { window.knew = Date.now(); watch.disconnect(); })"
        ".observe(document.querySelector('[data-live]'), {attributeFilter: ['hidden']})"
    )
    office.back_office.query(
        "INSERT INTO core_change (xact, topic, rows, subjects)"
        " VALUES (pg_current_xact_id()::text::bigint, 'orders_order', 1, '{}') RETURNING 1"
    )
    committed = page.run("return Date.now()")
    page.find("[data-live]:not([hidden])")
    requests = (
        "performance.getEntriesByType('resource').filter(one => one.name.includes('/live/'))"
        ".map(one => performance.timeOrigin + one.startTime)"
    )
    wait_until(lambda: page.run(f"return {requests}.length") > 2, 60, "it asks again and again")
    polls = page.run(
        f"return {requests}.filter(at => at > arguments[0] && at < window.knew)", committed
    )
    assert len(polls) <= 2, polls
    intervals = page.run(f"const all = {requests}; return all.slice(1).map((at, n) => at - all[n])")
    assert min(intervals) < 2_000, intervals


def test_showing_updates_keeps_filters_and_ticked_rows(page: Browser, office: Office) -> None:
    page.open(f"{office.url}/orders/?order_key=updated_at&order_direction=desc")
    tick = "tbody input[type=checkbox]"
    if not page.find_all(tick):
        pytest.skip("no ticks in this list")
    chosen = page.run(
        f"const one = document.querySelectorAll('{tick}')[2]; one.click(); return one.value"
    )
    sync_changed_orders(office)
    page.run(f"document.querySelectorAll('{tick}')[2].blur()")
    # Ticked rows pause polling. The Show button works nevertheless.
    page.run("document.querySelector('[data-show-news]').click()")
    wait_until(
        lambda: page.run("return document.getElementById('live').textContent") == "Updated",
        60,
        "loaded",
    )
    assert "order_key=updated_at" in page.url
    ticked = page.run(f"return [...document.querySelectorAll('{tick}:checked')].map(o => o.value)")
    assert ticked == [chosen]


def test_page_shows_its_age_while_updates_fail(page: Browser) -> None:
    page.run("document.querySelector('[data-live]').dataset.url = '/nowhere-at-all/'")
    page.wait_for_text("Live updates paused", 90)
    page.run("document.querySelector('[data-live]').dataset.url = '/live/'")
    page.click_text("Try again")
    wait_until(
        lambda: page.run("return document.querySelector('[data-live]').hidden"), 60, "live again"
    )


def test_keyboard_opens_pages_and_rows(page: Browser, office: Office) -> None:
    press_keys(page, "ga")
    wait_until(lambda: "/appointments/" in page.url, 60, "g a goes to appointments")
    press_keys(page, "go")
    wait_until(lambda: page.url.endswith("/orders/"), 60, "g o goes to orders")
    rows = page.run(ROW_URLS)
    press_keys(page, "jjk")
    assert page.run("return document.activeElement.href") == rows[0]
    press_keys(page, ENTER)
    wait_until(lambda: page.url == rows[0], 60, "Enter opens")
    page.wait_for_text("Journey")
    press_keys(page, ESCAPE)
    wait_until(lambda: page.url.endswith("/orders/"), 60, "Escape leads back")


def test_shortcuts_are_off_while_typing_in_a_field(page: Browser) -> None:
    press_keys(page, "/")
    assert page.run("return document.activeElement.matches('[data-find]')")
    press_keys(page, "ga?j")
    assert page.run("return document.activeElement.value") == "ga?j"
    assert not page.find_all("dialog[open]")
    press_keys(page, ESCAPE + ESCAPE)  # The first Escape may only close the suggestions.
    assert not page.run("return document.activeElement.matches('[data-find]')")
    assert page.url.endswith("/orders/")


def test_shortcut_help_lists_shortcuts_of_the_page(page: Browser) -> None:
    page.run(
        "const one = document.createElement('button'); one.dataset.key = 'q';"
        "one.textContent = 'Made-up verb'; one.onclick = () => { window.pressed = true; };"
        "document.querySelector('main').append(one)"
    )
    press_keys(page, "?")
    text = page.text("dialog[open]")
    assert "Made-up verb" in text
    assert "Next row" in text
    press_keys(page, "q")
    assert not page.run("return window.pressed"), "a shortcut of the page works under a dialog"
    press_keys(page, ESCAPE)
    wait_until(lambda: not page.find_all("dialog[open]"), 60, "the dialog is shut")
    press_keys(page, "q")
    assert page.run("return window.pressed")


def test_shortcuts_can_be_switched_off(page: Browser, office: Office) -> None:
    page.open(f"{office.url}/preferences/")
    page.click("[name=single_keys]")
    page.click_text("Save preferences")
    page.wait_for_text("Preferences saved")
    assert page.run("return document.documentElement.dataset.keys") == "off"
    press_keys(page, "go")
    press_keys(page, "?")
    time.sleep(0.3)
    assert page.url.endswith("/preferences/")
    assert not page.find_all("dialog[open]")


@pytest.mark.parametrize("width", [320, 390, 700])
def test_navigation_fits_small_screens(page: Browser, width: int) -> None:
    page.resize(width, 700)
    try:
        box = page.run(
            "const b = document.querySelector('.nav').getBoundingClientRect();"
            "return [b.top, b.bottom, innerHeight, document.documentElement.scrollWidth]"
        )
        assert box[3] <= width
        if width < 640:
            assert box[1] >= box[2] - 1, "the navigation is not at the bottom"
        links = "return [...document.querySelectorAll('.nav li > a:not(.alarm)')].map(a => {"
        links += "const b = a.getBoundingClientRect(); return [b.left, b.right, b.height]})"
        items = page.run(links)
        assert len(items) > 3
        assert all(right - left >= 24 and height >= 24 for left, right, height in items)
        assert all(left >= 0 and right <= width for left, right, _ in items), "an item is cut off"
        page.click('.nav a[data-go="p"]')
        wait_until(lambda: page.url.endswith("/patients/"), 60, "the place opens")
    finally:
        page.resize(1280, 900)


# Printing and narrow cards

VISIBLE_FORMS = (
    "return [...document.querySelectorAll('main form')].filter(f => f.checkVisibility()).length"
)


@pytest.fixture
def print_page(page: Browser) -> Iterator[Browser]:
    page.devtools("Emulation.setEmulatedMedia", {"media": "print"})
    yield page
    page.devtools("Emulation.setEmulatedMedia", {"media": ""})


def order_with_result(office: Office) -> str:
    return str(
        office.back_office.value("SELECT order_id FROM orders_result ORDER BY order_id LIMIT 1")
    )


@pytest.mark.parametrize("kind", ["orders", "patients", "results"])
def test_printed_record_has_no_forms(print_page: Browser, office: Office, kind: str) -> None:
    key = order_with_result(office)
    if kind == "patients":
        found = office.back_office.query("SELECT user_id FROM orders_order WHERE id = %s", [key])
        key = str(found[0][0])
    office.back_office.query(
        "UPDATE accounts_user SET first_name = 'Cora', last_name = 'Sample'"
        " WHERE username = 'lab-coordinator' RETURNING 1"
    )
    print_page.open(f"{office.url}/{kind}/{key}/")
    print_page.run(SHOW_CRITICAL_BAR)
    text = print_page.text("main")
    for hidden_text in (
        *("New note", "Mention a colleague with @", "Unassigned", "How do we know?"),
        *("Change log", "Delegate sign-off", "critical result", "Insurance history"),
    ):
        assert hidden_text not in text
    assert print_page.run(VISIBLE_FORMS) == 0
    assert "Printed by Cora Sample, " in print_page.text(".foot")
    separator = "return getComputedStyle(arguments[0], '::before').content"
    spans = "return document.querySelectorAll('.foot > * + *').length"
    assert print_page.run(spans) == 2
    for position in (2, 3):
        element = f"document.querySelector('.foot > :nth-child({position})')"
        assert print_page.run(separator.replace("arguments[0]", element)) == '" · "'


def test_badge_text_has_padding_on_paper(print_page: Browser, office: Office) -> None:
    print_page.open(f"{office.url}/orders/{order_with_result(office)}/")
    badges = print_page.run(
        "return [...document.querySelectorAll('main .st')].map(one => getComputedStyle(one))"
        ".map(s => [parseFloat(s.borderLeftWidth), parseFloat(s.paddingLeft)])"
    )
    assert badges and all(padding >= 4 for border, padding in badges if border)


@pytest.mark.parametrize("width", [320, 390, 1280])
def test_billing_of_lab_account_is_not_cut_off(page: Browser, office: Office, width: int) -> None:
    allowed = {
        "client_bill": ["AZ", "CA", "CO", "NY", "TX", "UT"],
        "commercial_insurance": ["AZ", "CA", "NY"],
        "patient_bill_passthrough": ["NY"],
    }
    office.back_office.query(
        "UPDATE labs_labaccount SET record ="
        " jsonb_set(record::jsonb, '{allowed_billing}', %s)::text RETURNING 1",
        [json.dumps(allowed)],
    )
    account = office.back_office.value("SELECT id FROM labs_labaccount ORDER BY id LIMIT 1")
    page.resize(width, 900)
    try:
        page.open(f"{office.url}/labs/accounts/{account}/")
        card = "document.querySelector('[aria-labelledby=billing]')"
        text = page.text("[aria-labelledby=billing]")
        assert "Insurance" in text and "Patient bill (pass-through)" in text
        cut = page.run(
            f"const edge = {card}.getBoundingClientRect().right;"
            f"return [...{card}.querySelectorAll('*')]"
            ".filter(one => one.getBoundingClientRect().right > edge).map(one => one.textContent)"
        )
        assert cut == []
    finally:
        page.resize(1280, 900)
