"""Browser tests of the order list: filters, saved views, columns, bulk actions and export."""

from __future__ import annotations

import csv
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.browser import Browser, browser, needs_browser
from tests.browser.office import ENTER, SHIFT, SPACE, Office, press_keys, running_office
from tests.waiting import wait_until

pytestmark = needs_browser


@pytest.fixture(scope="module")
def office(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Office]:
    with running_office(tmp_path_factory.mktemp("lists"), users=8, orders=70) as office:
        yield office


@pytest.fixture(scope="module")
def page(office: Office, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with browser() as opened:
        office.log_in(opened, "lab-coordinator")
        yield opened


def row_count(page: Browser) -> int:
    return len(page.find_all("tbody[data-rows] tr"))


def column_titles(page: Browser) -> list[str]:
    return list(
        page.run(
            "return [...document.querySelectorAll('#list thead th:not(.mark-cell)')]"
            ".map((head) => head.textContent.trim())"
        )
    )


def order_count(office: Office, where: str = "true") -> int:
    return int(office.back_office.value(f"SELECT count(*) FROM orders_order WHERE {where}"))


CURRENT_VIEW = "return document.querySelector('#views [aria-current=page]').textContent"
"""Reads in one command, because the tabs are replaced when their counts arrive."""


def test_filtered_list_is_saved_as_view(page: Browser, office: Office) -> None:
    kits = order_count(office, "method = 'testkit'")
    page.open(f"{office.url}/orders/")
    page.click_text("Method")
    page.click('input[name="order_type"][value="testkit"]')
    page.click("details[open] .acts button")
    page.wait_for_text("Method: Test kit")
    assert "order_type=testkit" in page.url
    page.wait_for_text(f"of {kits} orders")
    page.click_text("Save view")
    page.type("#view_name", "Kits")
    page.click("#save-view .acts button")
    page.wait_for_text("Saved as “Kits”.")
    assert page.run(CURRENT_VIEW).startswith("Kits")
    page.open(f"{office.url}/orders/")
    page.wait_for_text(f"of {order_count(office)} orders")
    page.find("#views .count")
    page.click_text(f"Kits {kits}")
    page.wait_for_text(f"of {kits} orders")


TABLE_WIDTHS = (
    "const table = document.querySelector('#list .table');"
    "return [table.scrollWidth, table.clientWidth, document.documentElement.scrollWidth]"
)


def test_next_page_starts_at_top_of_table(page: Browser, office: Office) -> None:
    page.resize(1280, 700)
    page.open(f"{office.url}/orders/?size=25")
    page.find("tbody[data-rows] tr:nth-child(25)")
    page.click_text("Next")
    page.wait_for_text("26–50 of")
    page.resize(1280, 900)
    top = "return document.querySelector('#list .table').getBoundingClientRect().top"
    wait_until(lambda: 0 <= page.run(top) <= 150, 60, "the table begins below the top bar")


def test_columns_fit_or_scroll_inside_their_table(page: Browser, office: Office) -> None:
    try:
        page.resize(1265, 900)  # a window of 1280 px without its scroll bar
        page.open(f"{office.url}/orders/")
        page.find("tbody[data-rows] tr")
        needed, visible, _ = page.run(TABLE_WIDTHS)
        assert needed <= visible
        page.resize(1000, 900)
        needed, visible, page_width = page.run(TABLE_WIDTHS)
        assert needed > visible and page_width <= 1000
    finally:
        page.resize(1280, 900)


def test_invalid_date_filter_shows_error_at_its_field(page: Browser, office: Office) -> None:
    page.open(f"{office.url}/orders/")
    page.click_text("Date")
    page.run(
        "document.querySelector('#id_start_date').value = '2026-03-05';"
        "document.querySelector('#id_end_date').value = '2026-03-04'"
    )
    page.click("details[open] .acts button")
    page.wait_for_text("This is before the first day.")
    page.open(f"{office.url}/orders/")
    page.click_text("Date")
    page.run("const day = document.querySelector('#id_start_date'); day.type = 'text';"
             "day.value = 'soon'")  # fmt: skip
    page.click("details[open] .acts button")
    page.wait_for_text("Enter a date as YYYY-MM-DD.")


def test_typing_narrows_long_choices_and_enter_does_nothing(page: Browser, office: Office) -> None:
    page.open(f"{office.url}/orders/")
    page.click_text("Status")
    page.type("details[open] [data-narrow]", "lost")
    visible = page.run(
        "return [...document.querySelectorAll('details[open] .options .check')]"
        ".filter((one) => one.checkVisibility()).map((one) => one.textContent.trim())"
    )
    assert visible == ["Lost"]
    before = page.url
    press_keys(page, ENTER)
    assert page.url == before


def test_columns_are_chosen_moved_and_remembered(page: Browser, office: Office) -> None:
    page.open(f"{office.url}/orders/?order_type=testkit")
    page.click_text("View")
    page.click('#screen input[name="column"][value="lab"]')
    page.click_text("Save layout")
    page.find("tbody td[data-label=Lab]")
    assert "order_type=testkit" in page.url, "the filter stays"
    assert column_titles(page)[-1] == "Lab"
    page.click_text("View")
    page.click("#up-lab")
    wait_until(lambda: column_titles(page)[-2] == "Lab", 60, "Lab is one earlier")
    page.find("#screen[open]")
    page.open(f"{office.url}/orders/")
    assert "Lab" in column_titles(page), "remembered"
    page.click("#screen summary")
    page.click_text("Reset to default")
    wait_until(lambda: "Lab" not in column_titles(page), 60, "the columns are as they come")


def test_shift_selects_range_and_escape_clears_selection(page: Browser, office: Office) -> None:
    page.open(f"{office.url}/orders/")
    assert not page.run("return document.querySelector('[data-bulk]').offsetHeight")
    boxes = page.find_all("[data-pick]")
    page.click_element(boxes[1])
    page.call(
        "POST",
        "/actions",
        {
            "actions": [
                {"type": "key", "id": "keys", "actions": [{"type": "keyDown", "value": SHIFT}]}
            ]
        },
    )
    page.click_element(boxes[4])
    page.call("DELETE", "/actions")
    page.wait_for_text("4 selected")
    page.click("[data-pick-all]")
    page.wait_for_text(f"All {order_count(office)} matches")
    page.click("[data-everything]")
    page.wait_for_text(f"{order_count(office)} selected")
    press_keys(page, "\ue00c")
    assert page.run("return document.querySelectorAll('[data-pick]:checked').length") == 0
    assert not page.run("return document.querySelector('[data-bulk]').offsetHeight")


def test_enter_on_checkbox_runs_no_action(page: Browser, office: Office) -> None:
    page.open(f"{office.url}/orders/")
    page.click("[data-pick]")
    page.run("document.querySelector('[data-pick]').focus()")
    press_keys(page, ENTER)
    time.sleep(0.3)
    assert page.url == f"{office.url}/orders/"
    assert office.back_office.value("SELECT count(*) FROM pages_bulkrun") == 0
    page.devtools("Emulation.setScriptExecutionDisabled", {"value": True})
    try:
        page.open(f"{office.url}/orders/")
        page.call("POST", f"/element/{page.find('[data-pick]')}/value", {"text": SPACE + ENTER})
        page.wait_for_text("Nothing was done")
    finally:
        page.devtools("Emulation.setScriptExecutionDisabled", {"value": False})
    assert office.back_office.value("SELECT count(*) FROM pages_bulkrun") == 0


SLOW_INSERTS = """
CREATE FUNCTION slowly() RETURNS trigger LANGUAGE plpgsql
  AS $$ BEGIN PERFORM pg_sleep(0.1); RETURN NEW; END $$;
CREATE TRIGGER slowly BEFORE INSERT ON {} FOR EACH ROW EXECUTE FUNCTION slowly();
"""
"""Delays each insert into a table, so that a worker is slow."""


def test_all_matching_orders_are_assigned_in_background(page: Browser, office: Office) -> None:
    where = "method = 'testkit' AND bucket = 'result-in'"
    page.open(f"{office.url}/orders/?order_type=testkit&bucket=result-in&size=5")
    page.click("[data-pick-all]")
    page.click("[data-everything]")
    office.back_office.query(SLOW_INSERTS.format("team_assignment"))
    page.click_text("Assign to me")
    page.wait_for_text("all that match the filters")
    page.click_text(f"Assign to me: {order_count(office, where)} orders")
    page.wait_for_text(
        f"Assign orders to me: {order_count(office, where)} of {order_count(office, where)}."
    )
    assert "bucket=result-in" in page.url
    page.click_text("Show what changed")
    office.back_office.query("DROP FUNCTION slowly CASCADE")
    page.find("tbody td[data-label='Assigned to'] [title='Lars Madeup']")
    assigned = office.back_office.value(
        "SELECT count(*) FROM team_assignment a JOIN orders_order o"
        f" ON o.id::text = a.subject_id WHERE {where}"
    )
    assert (
        assigned
        == order_count(office, where)
        == office.back_office.value("SELECT count(*) FROM team_assignment")
    )
    page.open(f"{office.url}/orders/?assigned=me")
    page.wait_for_text(f"of {assigned} orders")


def test_orders_are_cancelled_in_bulk_after_preview(page: Browser, office: Office) -> None:
    order_ids = [
        row[0]
        for row in office.back_office.query(
            "SELECT id::text FROM orders_order WHERE method = 'walk_in_test'"
            " AND low_level_status = 'requisition_created' LIMIT 2"
        )
    ]
    assert order_ids, "the sandbox has orders that can be canceled"
    page.open(f"{office.url}/orders/?order_ids={'+'.join(order_ids)}")
    page.click("[data-pick-all]")
    page.click_text("Cancel…")
    page.wait_for_text(f"{len(order_ids)} orders will be canceled")
    page.run("document.querySelector('#id_why').value = 'patient'")
    page.click("button[name=go]")
    page.wait_for_text(f"Cancel orders: {len(order_ids)} of {len(order_ids)}.")
    wait_until(
        lambda: (
            office.back_office.value(
                "SELECT count(*) FROM orders_order WHERE id::text = ANY(%s)"
                " AND low_level_status = 'cancelled'",
                (order_ids,),
            )
            == len(order_ids)
        ),
        30,
        "the service has canceled them and the mirror says so",
    )


TICKED_KEYS = (
    "return [...document.querySelectorAll('[data-pick]')].filter((box) => box.checked)"
    ".map((box) => box.value)"
)


def test_back_button_ticks_no_other_rows(page: Browser, office: Office) -> None:
    """The browser restores a form by position, and other rows may have come to the same ones."""
    page.open(f"{office.url}/orders/?size=25")
    page.click("tbody tr:nth-child(2) [data-pick]")
    (ticked,) = page.run(TICKED_KEYS)
    page.click("tbody tr:nth-child(2) .lead > a")
    page.find(".person")
    newest = "(SELECT id FROM orders_order ORDER BY created_at DESC LIMIT 1)"
    office.back_office.query(
        f"UPDATE orders_order SET created_at = created_at - interval '90 days' WHERE id = {newest}"
    )
    page.run("history.back()")
    page.find("tbody [data-pick]")
    page.wait_for_text("per page")
    assert set(page.run(TICKED_KEYS)) <= {ticked}
    assert row_count(page) == 25


def test_orders_are_ticked_on_a_phone(page: Browser, office: Office) -> None:
    page.open(f"{office.url}/orders/?size=25")
    try:
        page.resize(390, 800)
        page.click("tbody tr:nth-child(2) [data-pick]")
        assert len(page.run(TICKED_KEYS)) == 1
        page.click("#bulk [data-pick-all]")
        assert len(page.run(TICKED_KEYS)) == row_count(page) == 25
        page.click("#bulk [data-everything]")
        page.wait_for_text(f"{order_count(office)} selected")
    finally:
        page.resize(1280, 900)


def test_confirmation_names_the_ticked_orders(page: Browser, office: Office) -> None:
    page.open(f"{office.url}/orders/?order_type=walk_in_test")
    names = page.run(
        "return [...document.querySelectorAll('tbody .lead > a:first-child')].slice(0, 2)"
        ".map((link) => link.textContent.trim())"
    )
    for number in (1, 2):
        page.click(f"tbody tr:nth-child({number}) [data-pick]")
    page.click_text("Add note…")
    page.find("#id_text")
    assert page.run("return document.forms[document.forms.length - 1].matches('form')")
    assert page.text(".subjects").splitlines() == names


def test_export_downloads_the_filtered_list(page: Browser, office: Office, tmp_path: Path) -> None:
    page.devtools(
        "Browser.setDownloadBehavior", {"behavior": "allow", "downloadPath": str(tmp_path)}
    )
    page.open(f"{office.url}/orders/?order_type=testkit")
    page.click_text("Export")
    page.click("#export [data-download]")
    wait_until(lambda: list(tmp_path.glob("orders-*.csv")), 60, "the file is there")
    (found,) = tmp_path.glob("orders-*.csv")
    with found.open(encoding="utf-8-sig", newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == order_count(office, "method = 'testkit'")
    assert {row["Method"] for row in rows} == {"Test kit"}
    assert "Ordered (America/Denver)" in rows[0]
    recorded = office.back_office.value(
        "SELECT row_count FROM audit_auditentry WHERE action = 'export' ORDER BY id DESC LIMIT 1"
    )
    assert recorded == len(rows)


def test_list_works_without_scripts(page: Browser, office: Office) -> None:
    page.devtools("Emulation.setScriptExecutionDisabled", {"value": True})
    try:
        page.open(f"{office.url}/orders/?order_type=testkit")
        page.click("#screen summary")
        page.click("#up-turn")
        wait_until(lambda: "panel=columns" in page.url, 60, "the column has moved")
        page.find("#screen[open]")
        page.click("[data-pick]")
        page.click_text("Add note…")
        page.type("#id_text", "Without scripts.")
        page.click("button[name=go]")
        page.wait_for_text("Add note to orders")
    finally:
        page.devtools("Emulation.setScriptExecutionDisabled", {"value": False})
    wait_until(
        lambda: office.back_office.value("SELECT count(*) FROM team_note") == 1,
        60,
        "it is written",
    )


WORKER_PROGRAM = """
import uuid, django
django.setup()
from backoffice.pages.lists import bulk
from backoffice.pages.models import BulkRun
from orders.order_list.order_list import ORDER_LIST
token = uuid.uuid4()
run = BulkRun.objects.get(state="stopped")
BulkRun.objects.filter(pk=run.pk).update(
    state="open", lease_token=token, lease_until="2999-01-01T00:00Z", finished_at=None)
bulk._work(run, token, [ORDER_LIST], float("inf"))
"""


def test_next_worker_finishes_bulk_run_of_killed_worker(page: Browser, office: Office) -> None:
    back_office, text = office.back_office, "Killed, and once each."
    orders = order_count(office)
    page.open(f"{office.url}/orders/")
    page.click("[data-pick-all]")
    page.click("[data-everything]")
    page.click_text("Add note…")
    back_office.query("ALTER TABLE team_note ADD CONSTRAINT later CHECK (text NOT LIKE 'Killed%%')")
    page.type("#id_text", text)
    page.click("button[name=go]")
    page.wait_for_text("not done")
    wait_until(lambda: back_office.value("SELECT count(*) FROM pages_bulkrun WHERE state = 'open'")
               == 0, 60, "it has failed for every order")  # fmt: skip
    back_office.query("ALTER TABLE team_note DROP CONSTRAINT later")
    (run,) = back_office.query("SELECT id FROM pages_bulkrun ORDER BY asked_at DESC LIMIT 1")
    back_office.query(
        "UPDATE pages_bulkrow SET state = 'waiting', words = '' WHERE run_id = %s", run
    )
    back_office.query("UPDATE pages_bulkrun SET state = 'stopped', done = 0, failed = 0"
                " WHERE id = %s", run)  # fmt: skip
    note_count = "SELECT count(*) FROM team_note WHERE text = %s"
    back_office.query(SLOW_INSERTS.format("team_note"))
    worker = back_office.start("-c", WORKER_PROGRAM)
    wait_until(lambda: back_office.value(note_count, (text,)) >= 5, 30, "some are done", every=0.01)
    worker.kill()
    worker.wait()
    back_office.query("DROP FUNCTION slowly CASCADE")
    assert back_office.value(note_count, (text,)) < orders
    back_office.query("UPDATE pages_bulkrun SET lease_until = now()")
    page.open(f"{office.url}/orders/bulk/{run[0]}/")
    finished = "SELECT count(*) FROM pages_bulkrun WHERE id = %s AND state = 'done'"
    wait_until(lambda: back_office.value(finished, run), 90, "the next worker has done the rest")
    rows = back_office.query(
        "SELECT state, words, count(*) FROM pages_bulkrow WHERE run_id = %s GROUP BY 1, 2", run
    )
    assert rows == [("done", "", orders)]
    assert back_office.value(note_count, (text,)) == orders
    assert (
        back_office.value(
            "SELECT count(DISTINCT subject_id) FROM team_note WHERE text = %s", (text,)
        )
        == orders
    )
