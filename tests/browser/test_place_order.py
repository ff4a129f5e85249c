"""Journey 5: order tests for a known patient in at most nine interactions.

The form also finds each fault that a test seeds, and focuses the right field.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from backoffice.core.encryption.cipher import decrypt
from tests.browser import Browser, browser, needs_browser
from tests.browser.office import ENTER, Office, assert_within, running_office
from tests.sync.back_office import BackOffice
from tests.waiting import wait_until

pytestmark = needs_browser

BUDGET = 9
SECONDS = 45


@dataclass
class OrderOffice:
    """A running office and a patient whom labs accept."""

    office: Office
    patient: str
    name: str

    @property
    def url(self) -> str:
        return self.office.url

    @property
    def back_office(self) -> BackOffice:
        return self.office.back_office

    def order_form_url(self) -> str:
        return f"{self.url}/orders/new/{self.patient}/"

    def test_of(self, lab: str, number: int = 0) -> tuple[str, str]:
        """Return id and name of an active test of the lab."""
        return self.back_office.query(
            "SELECT t.id::text, t.name FROM labs_labtest t JOIN labs_lab l ON l.id = t.lab_id"
            " WHERE l.slug = %s AND t.status = 'active' AND NOT t.auto_generated"
            " ORDER BY t.name LIMIT 1 OFFSET %s",
            (lab, number),
        )[0]


def _stored_drafts(clinic: OrderOffice) -> str:
    rows = clinic.back_office.query(
        "SELECT patient_id::text, typed #>> '{}' FROM orders_orderdraft"
    )
    return "".join(decrypt(typed, f"orders_orderdraft.typed:{person}") for person, typed in rows)


@pytest.fixture(scope="module")
def clinic(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OrderOffice]:
    with running_office(tmp_path_factory.mktemp("back_offices")) as office:
        patient, name = office.back_office.query(
            "SELECT user_id::text, first_name || ' ' || last_name FROM patients_demographics"
            " WHERE dob < '2000-01-01' AND zip <> '' AND email <> ''"
            " AND first_name || last_name ~ '^[A-Za-z]+$' ORDER BY user_id LIMIT 1"
        )[0]
        office.back_office.query(
            "UPDATE orders_order SET created_at = created_at - interval '90 days'"
        )
        yield OrderOffice(office, patient, name)


@pytest.fixture(scope="module")
def page(clinic: OrderOffice) -> Iterator[Browser]:
    with browser() as opened:
        clinic.office.log_in(opened, "clinician")
        yield opened


def test_tests_are_ordered_within_interaction_budget(page: Browser, clinic: OrderOffice) -> None:
    test, name = clinic.test_of("lab-south")
    began, interactions = time.monotonic(), 0
    page.type("body", "/")  # 1
    page.type("[data-find]", clinic.name)  # 2
    before = page.url
    page.type("[data-find]", ENTER)  # 3
    wait_until(lambda: page.url != before, 60, "what was found")
    interactions += 3
    if f"/patients/{clinic.patient}/" not in page.url:
        page.click(f'a[href="/patients/{clinic.patient}/"]')  # the name above the order
        interactions += 1
    page.click(f'a[href="/orders/new/{clinic.patient}/"]')
    page.wait_for_text("Order summary")
    page.type("#id_panel", name)  # It has the focus.
    page.find(f'#choices input[value="{test}"]')
    page.type("#id_panel", ENTER)
    interactions += 3
    page.find(f'.chosen-tests input[value="{test}"]')
    page.wait_for_text("No problems found.")
    page.click("[data-review]")
    page.wait_for_text("Place this order?")
    page.click("form.review button.primary")
    interactions += 2
    page.wait_for_text("Order placed")
    assert interactions <= BUDGET, interactions
    assert_within(began, SECONDS)
    commands = clinic.back_office.query(
        "SELECT remote_id, attempts FROM outbox_commandrecord WHERE kind = 'order.create'"
    )
    assert len(commands) == 1 and commands[0][1] == 1
    assert f"/orders/{commands[0][0]}/" in page.url
    remote = clinic.office.sandbox.query(
        "SELECT count(*) FROM sandbox_order WHERE id = %s", (commands[0][0],)
    )
    assert remote == [(1,)]
    # One click on the patient's page repeats the order.
    page.open(f"{clinic.url}/patients/{clinic.patient}/")
    page.click_text("Repeat last order")
    page.find(f'.chosen-tests input[value="{test}"]')
    page.wait_for_text("within the last 24 hours")


def test_typed_values_survive_choosing_tests_and_leaving(
    page: Browser, clinic: OrderOffice
) -> None:
    page.open(clinic.order_form_url())
    test, _ = clinic.test_of("lab-north")
    page.type("#id_clinical_notes", "call first")
    page.click(f'#choices input[value="{test}"]')
    page.find(f'.chosen-tests input[value="{test}"]')
    assert page.run("return document.getElementById('id_clinical_notes').value") == "call first"
    page.wait_for_text("call first")
    page.type("#id_icd_codes", "E11.9")
    page.open(f"{clinic.url}/patients/{clinic.patient}/")
    wait_until(lambda: "E11.9" in _stored_drafts(clinic), 60, "the draft is saved", every=0.1)
    page.open(clinic.order_form_url())
    page.wait_for_text("Draft saved")
    assert page.run("return document.getElementById('id_icd_codes').value") == "E11.9"
    page.click_text("Start over")
    wait_until(lambda: "Draft saved" not in page.text(), 60, "it is gone")
    page.find(f'#choices input[value="{test}"]')


YOUNG = f"{time.gmtime().tm_year - 10}-01-01"
SOUTH, NORTH, WEST = "lab-south", "lab-north", "lab-west"
FAULTS: list[tuple[str, str, dict[str, Any]]] = [
    ("name rule", "first_name", {"first_name": "José"}),
    ("no zip", "zip", {"zip": ""}),
    ("no phone_number", "phone_number", {"phone_number": ""}),
    ("no email", "email", {"email": ""}),
    ("minor without proxy", "dob", {"dob": YOUNG}),
    ("no test", "panel", {"labs": []}),
    ("several labs", "panel", {"labs": [SOUTH, WEST]}),
    ("no active account", "panel", {"sql": "UPDATE labs_labaccount SET status = 'suspended'"}),
    (
        "several accounts",
        "lab_account",
        {"sql": "UPDATE labs_labaccount SET status = 'active'"},
    ),
    ("physician missing", "physician", {"labs": [NORTH]}),
    (
        "billing not in state",
        "billing_type",
        {"state": "ZZ", "billing_type": "patient_bill"},
    ),
    ("no insurance", "billing_type", {"billing_type": "commercial_insurance"}),
    ("no diagnosis", "icd_codes", {"billing_type": "commercial_insurance"}),
    ("note too long", "clinical_notes", {"clinical_notes": "n" * 1001}),
    ("several methods", "collection_method", {"labs": [SOUTH, f"{SOUTH} other"]}),
    ("date in the past", "activate_by", {"activate_by": "2020-01-01"}),
    ("question", "q-", {"question": True}),
    ("add-on without method", "collection_method", {"labs": [], "marker": True}),
    ("same test", "another", {"sql": "UPDATE orders_order SET created_at = now()"}),
]


@pytest.mark.parametrize(("kind", "field", "settings"), FAULTS, ids=[fault[0] for fault in FAULTS])
def test_each_seeded_fault_is_found_and_its_field_focused(
    page: Browser, clinic: OrderOffice, kind: str, field: str, settings: dict[str, Any]
) -> None:
    back_office, values = clinic.back_office, dict(settings)
    statement = values.pop("sql", None)
    accounts = back_office.query("SELECT id, status FROM labs_labaccount")
    tests = _take_items(clinic, values)
    if kind == "same test":
        order = back_office.query("SELECT id FROM orders_order ORDER BY id LIMIT 1")[0][0]
        back_office.query(
            "UPDATE orders_order SET created_at = now(), user_id = %s, lab_test_id = %s,"
            " low_level_status = 'ordered' WHERE id = %s",
            (clinic.patient, tests["tests"][0], order),
        )
    elif statement:
        back_office.query(statement)
    if kind == "no insurance":
        back_office.query("DELETE FROM patients_insurance WHERE user_id = %s", (clinic.patient,))
    try:
        page.open(clinic.order_form_url())
        page.run(SUBMIT_FORM, {**values, **tests})
        page.find('[role="alert"]')
        error_link = f'.findings [data-kind="{kind}"] a[href^="#id_{field}"]'
        page.click(error_link if kind != "same test" else 'a[href="#id_another"]')
        focused = page.run("return document.activeElement.id")
        assert focused.startswith(f"id_{field}"), focused
        assert page.run("return document.activeElement.offsetParent !== null")
    finally:
        for account, status in accounts:
            back_office.query(
                "UPDATE labs_labaccount SET status = %s WHERE id = %s", (status, account)
            )
        back_office.query("UPDATE orders_order SET created_at = created_at - interval '90 days'")
        back_office.query("DELETE FROM orders_orderdraft")


def _take_items(clinic: OrderOffice, values: dict[str, Any]) -> dict[str, list[str]]:
    """Return the tests and markers to order, and remove their settings from `values`."""
    if values.pop("question", False):
        found = clinic.back_office.value(
            "SELECT x.lab_test_id::text FROM labs_labtestmarker x"
            " JOIN labs_marker m ON m.id = x.marker_id JOIN labs_labtest t ON t.id = x.lab_test_id"
            " WHERE m.has_questions AND m.record LIKE '%%\"required\":%%true%%'"
            " AND t.status = 'active' ORDER BY t.name LIMIT 1"
        )
        return {"tests": [found]}
    marker = values.pop("marker", False)
    labs = values.pop("labs", [SOUTH])
    tests = [clinic.test_of(lab)[0] for lab in labs if " " not in lab]
    if any(" " in lab for lab in labs):
        tests.append(
            clinic.back_office.value(
                "SELECT t.id::text FROM labs_labtest t JOIN labs_lab l ON l.id = t.lab_id"
                " WHERE l.slug = %s AND t.status = 'active' AND t.method <> ("
                "SELECT method FROM labs_labtest WHERE id = %s) LIMIT 1",
                (SOUTH, tests[0]),
            )
        )
    if marker:
        found = clinic.back_office.value(
            "SELECT m.id::text FROM labs_marker m JOIN labs_lab l ON l.id = m.lab_id"
            " WHERE l.slug = %s AND m.a_la_carte_enabled LIMIT 1",
            (SOUTH,),
        )
        return {"tests": tests, "markers": [found]}
    return {"tests": tests}


SUBMIT_FORM = """
const form = document.getElementById("placing");
for (const [name, value] of Object.entries(arguments[0])) {
  if (Array.isArray(value)) {
    for (const one of value) {
      const input = document.createElement("input");
      Object.assign(input, { type: "hidden", name, value: one });
      form.append(input);
    }
    continue;
  }
  const field = form.elements[name];
  if (field.tagName === "SELECT") field.add(new Option(value, value));
  field.value = value;
}
form.requestSubmit(form.querySelector("[data-review]"));
"""
