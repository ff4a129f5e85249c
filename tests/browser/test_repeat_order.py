"""The confirmation of a repeated order and other input survive a change of physician."""

from __future__ import annotations

from functools import partial

import pytest

from tests.browser import Browser, needs_browser
from tests.browser.test_place_order import OrderOffice, clinic, page
from tests.waiting import wait_until

__all__ = ["clinic", "page"]
pytestmark = needs_browser
NORTH = "lab-north"
"""A lab whose account requires a physician of the team."""
VALUE = "return document.querySelector(arguments[0])?.value ?? null"
CHOOSE_PHYSICIAN = """
const list = document.getElementById("id_physician");
const known = [...list.options].filter((option) => !["", "typed"].includes(option.value));
const one = known[arguments[0]];
list.value = one.value;
list.dispatchEvent(new Event("change", { bubbles: true }));
return one.value;
"""


@pytest.fixture
def recently_ordered_test(clinic: OrderOffice) -> str:
    test, _ = clinic.test_of(NORTH)
    order = clinic.back_office.query("SELECT id FROM orders_order ORDER BY id LIMIT 1")[0][0]
    clinic.back_office.query(
        "UPDATE orders_order SET created_at = now(), user_id = %s, lab_test_id = %s,"
        " low_level_status = 'ordered' WHERE id = %s",
        (clinic.patient, test, order),
    )
    clinic.back_office.query("DELETE FROM orders_orderdraft")
    return test


def _page_has_physician(page: Browser, npi: str) -> bool:
    return npi in (page.run(VALUE, "#blocks [name=shape]") or "")


def test_repeat_confirmation_survives_change_of_physician(
    page: Browser, clinic: OrderOffice, recently_ordered_test: str
) -> None:
    page.open(clinic.order_form_url())
    page.click(f'#choices input[value="{recently_ordered_test}"]')
    page.wait_for_text("within the last 24 hours")
    page.click("#id_another")
    page.type("#id_clinical_notes", "second sample")
    for number in (0, 1, 0):
        npi = page.run(CHOOSE_PHYSICIAN, number)
        wait_until(
            partial(_page_has_physician, page, npi),
            60,
            "the page knows of the physician",
        )
        assert page.run("return document.getElementById('id_another').checked")
        assert page.run(VALUE, "#id_clinical_notes") == "second sample"
        assert page.run(VALUE, "#id_physician") == npi


HOLD_REQUESTS = """
const send = XMLHttpRequest.prototype.send;
window.held = [];
XMLHttpRequest.prototype.send = function (body) { window.held.push(() => send.call(this, body)); };
window.release = () => {
  XMLHttpRequest.prototype.send = send;
  for (const one of window.held.splice(0)) one();
};
"""


def test_repeat_confirmation_survives_response_in_flight(
    page: Browser, clinic: OrderOffice, recently_ordered_test: str
) -> None:
    """The confirmation is ticked while a response is in flight."""
    page.open(clinic.order_form_url())
    page.click(f'#choices input[value="{recently_ordered_test}"]')
    page.wait_for_text("within the last 24 hours")
    page.run(HOLD_REQUESTS)
    npi = page.run(CHOOSE_PHYSICIAN, 0)
    # Without an event the tick sends no request. Only the response could remove it.
    page.run("document.getElementById('id_another').checked = true; window.release()")
    wait_until(
        lambda: npi in (page.run(VALUE, "#blocks [name=shape]") or ""),
        60,
        "the page knows of the physician",
    )
    assert page.run("return document.getElementById('id_another').checked")
