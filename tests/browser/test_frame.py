"""What is the same on every page, in a real browser: news without anything moving, shortcuts, the
drawer, preferences."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator

import pytest

from tests.browser import Browser, browser, needs_browser
from tests.browser.office import ENTER, Office, at_work, press
from tests.sync.house import SYNC, running, wait_until

pytestmark = needs_browser
ESCAPE = "\ue00c"
TALLY = (
    "const one = document.querySelector('.nav .tally'); one.firstChild.data = arguments[0];"
    "const b = one.getBoundingClientRect(), y = (b.top + b.bottom) / 2;"
    "const seen = x => one.contains(document.elementFromPoint(x, y));"
    "return [seen(b.left + 1), seen((b.left + b.right) / 2), seen(b.right - 1)]"
)
"""Whether its beginning, middle and end are seen; after it was given another count."""
CRITICALS = (
    "document.querySelector('#critical').innerHTML ="
    ' \'<div class="banner critical-bar" data-st="critical"><p>3 critical results</p></div>\''
)
NEWS = (
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
    changes = "SELECT count(*) FROM backoffice_change WHERE topic = 'orders_order'"
    before = office.house.value(changes)
    office.sandbox.control("change", {"orders": 3})
    with running(office.house.start(*SYNC, "orders")):
        wait_until(
            lambda: office.house.value(changes) > before,
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
        60,
        "news are shown",
    )
    assert not page.run("return document.title").startswith("(")
    assert page.run("return document.activeElement.href") == focused


@pytest.mark.parametrize("width", [320, 800, 1280])
def test_news_cover_neither_criticals_nor_headings(
    page: Browser, office: Office, width: int
) -> None:
    page.resize(width, 900)
    try:
        page.open(f"{office.url}/orders/")
        page.run(CRITICALS)
        rows = "return [...document.querySelectorAll('tbody tr')].map(r => r.offsetTop)"
        before = page.run(rows)
        page.run(NEWS)
        assert page.run(rows) == before
        assert page.run(COVERED, ".topbar, .critical-bar, .subnav, h1, .tabs, thead, .nav li") == []
        if width == 1280:
            assert page.run(COVERED, "main :is(a, td, button:not([data-show-news]))") == []
    finally:
        page.resize(1280, 900)


@pytest.mark.parametrize("width", [320, 390, 800, 1280])
def test_a_count_is_whole_beside_the_place_one_is_in(
    page: Browser, office: Office, width: int
) -> None:
    page.resize(width, 700)
    try:
        for place in ("patients", "appointments", "results"):
            page.open(f"{office.url}/{place}/")
            for count in ("7", "148", "1,234"):
                assert page.run(TALLY, count) == [True] * 3, (place, count)
    finally:
        page.resize(1280, 900)


def test_a_page_knows_within_two_seconds(page: Browser, office: Office) -> None:
    """With the next question but one at the latest, and there is one every second and a half, where
    nothing holds the page up."""
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
    asked = (
        "performance.getEntriesByType('resource').filter(one => one.name.includes('/live/'))"
        ".map(one => performance.timeOrigin + one.startTime)"
    )
    wait_until(lambda: page.run(f"return {asked}.length") > 2, 60, "it asks again and again")
    since = page.run(
        f"return {asked}.filter(at => at > arguments[0] && at < window.knew)", committed
    )
    assert len(since) <= 2, since
    apart = page.run(f"const all = {asked}; return all.slice(1).map((at, n) => at - all[n])")
    assert min(apart) < 2_000, apart


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
        60,
        "loaded",
    )
    assert "order_key=updated_at" in page.url
    kept = page.run(f"return [...document.querySelectorAll('{tick}:checked')].map(o => o.value)")
    assert kept == [chosen]


def test_without_answers_the_page_says_how_old_it_is(page: Browser) -> None:
    page.run("document.querySelector('[data-live]').dataset.url = '/nowhere-at-all/'")
    page.sees("Not live at the moment: updated", 90)
    page.run("document.querySelector('[data-live]').dataset.url = '/live/'")
    page.link("Try again")
    wait_until(
        lambda: page.run("return document.querySelector('[data-live]').hidden"), 60, "live again"
    )


def test_places_and_rows_by_keyboard(page: Browser, office: Office) -> None:
    press(page, "ga")
    wait_until(lambda: "/appointments/" in page.url, 60, "g a goes to appointments")
    press(page, "go")
    wait_until(lambda: page.url.endswith("/orders/"), 60, "g o goes to orders")
    rows = page.run(ROWS)
    press(page, "jjk")
    assert page.run("return document.activeElement.href") == rows[0]
    press(page, ENTER)
    wait_until(lambda: page.url == rows[0], 60, "Enter opens")
    page.sees("Journey")
    press(page, ESCAPE)
    wait_until(lambda: page.url.endswith("/orders/"), 60, "Escape leads back")


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
        "one.textContent = 'Made-up verb'; one.onclick = () => { window.pressed = true; };"
        "document.querySelector('main').append(one)"
    )
    press(page, "?")
    told = page.text("dialog[open]")
    assert "Made-up verb" in told
    assert "Next row" in told
    press(page, "q")
    assert not page.run("return window.pressed"), "a key of the page under a dialog"
    press(page, ESCAPE)
    wait_until(lambda: not page.all("dialog[open]"), 60, "the dialog is shut")
    press(page, "q")
    assert page.run("return window.pressed")


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
        wait_until(lambda: page.url.endswith("/patients/"), 60, "the place opens")
    finally:
        page.resize(1280, 900)


# On paper, and in narrow cards

FORMS = "return [...document.querySelectorAll('main form')].filter(f => f.checkVisibility()).length"


@pytest.fixture
def on_paper(page: Browser) -> Iterator[Browser]:
    page.devtools("Emulation.setEmulatedMedia", {"media": "print"})
    yield page
    page.devtools("Emulation.setEmulatedMedia", {"media": ""})


def a_result(office: Office) -> str:
    return str(office.house.value("SELECT order_id FROM orders_result ORDER BY order_id LIMIT 1"))


@pytest.mark.parametrize("kind", ["orders", "patients", "results"])
def test_a_record_on_paper_is_what_there_is_to_read(
    on_paper: Browser, office: Office, kind: str
) -> None:
    key = a_result(office)
    if kind == "patients":
        found = office.house.query("SELECT user_id FROM orders_order WHERE id = %s", [key])
        key = str(found[0][0])
    office.house.query(
        "UPDATE backoffice_user SET first_name = 'Cora', last_name = 'Sample'"
        " WHERE username = 'lab-coordinator' RETURNING 1"
    )
    on_paper.open(f"{office.url}/{kind}/{key}/")
    on_paper.run(CRITICALS)
    told = on_paper.text("main")
    for words in (
        *("New note", "Mention a colleague with @", "Nobody is on this", "Why do we believe this?"),
        *("Change log", "Let a colleague sign", "critical result", "Insurance history"),
    ):
        assert words not in told
    assert on_paper.run(FORMS) == 0
    assert "Printed by Cora Sample, " in on_paper.text(".foot")
    between = "return getComputedStyle(arguments[0], '::before').content"
    spans = "return document.querySelectorAll('.foot > * + *').length"
    assert on_paper.run(spans) == 2
    for n in (2, 3):
        one = f"document.querySelector('.foot > :nth-child({n})')"
        assert on_paper.run(between.replace("arguments[0]", one)) == '" · "'


def test_words_do_not_touch_the_border_of_a_badge(on_paper: Browser, office: Office) -> None:
    on_paper.open(f"{office.url}/orders/{a_result(office)}/")
    badges = on_paper.run(
        "return [...document.querySelectorAll('main .st')].map(one => getComputedStyle(one))"
        ".map(s => [parseFloat(s.borderLeftWidth), parseFloat(s.paddingLeft)])"
    )
    assert badges and all(padding >= 4 for border, padding in badges if border)


@pytest.mark.parametrize("width", [320, 390, 1280])
def test_billing_of_a_lab_account_is_not_cut(page: Browser, office: Office, width: int) -> None:
    allowed = {
        "client_bill": ["AZ", "CA", "CO", "NY", "TX", "UT"],
        "commercial_insurance": ["AZ", "CA", "NY"],
        "patient_bill_passthrough": ["NY"],
    }
    office.house.query(
        "UPDATE labs_labaccount SET record ="
        " jsonb_set(record::jsonb, '{allowed_billing}', %s)::text RETURNING 1",
        [json.dumps(allowed)],
    )
    account = office.house.value("SELECT id FROM labs_labaccount ORDER BY id LIMIT 1")
    page.resize(width, 900)
    try:
        page.open(f"{office.url}/labs/accounts/{account}/")
        card = "document.querySelector('[aria-labelledby=billing]')"
        told = page.text("[aria-labelledby=billing]")
        assert "Billed to insurance" in told and "Billed to the patient, passed through" in told
        cut = page.run(
            f"const edge = {card}.getBoundingClientRect().right;"
            f"return [...{card}.querySelectorAll('*')]"
            ".filter(one => one.getBoundingClientRect().right > edge).map(one => one.textContent)"
        )
        assert cut == []
    finally:
        page.resize(1280, 900)
