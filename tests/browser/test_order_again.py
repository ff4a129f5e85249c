"""The tick "order another one" and whatever else was answered outlive a change of the physician."""

from __future__ import annotations

from functools import partial

import pytest

from tests.browser import Browser, needs_browser
from tests.browser.test_journey_5 import Place, page, place
from tests.sync.house import wait_until

__all__ = ["page", "place"]
pytestmark = needs_browser
NORTH = "lab-north"
"""Its account needs a physician of ours."""
VALUE = "return document.querySelector(arguments[0])?.value ?? null"
CHOOSE = """
const list = document.getElementById("id_physician");
const known = [...list.options].filter((option) => !["", "typed"].includes(option.value));
const one = known[arguments[0]];
list.value = one.value;
list.dispatchEvent(new Event("change", { bubbles: true }));
return one.value;
"""


@pytest.fixture
def test_ordered_lately(place: Place) -> str:
    test, _ = place.test_of(NORTH)
    order = place.house.query("SELECT id FROM orders_order ORDER BY id LIMIT 1")[0][0]
    place.house.query(
        "UPDATE orders_order SET created_at = now(), user_id = %s, lab_test_id = %s,"
        " low_level_status = 'ordered' WHERE id = %s",
        (place.patient, test, order),
    )
    place.house.query("DELETE FROM orders_orderdraft")
    return test


def _knows(page: Browser, npi: str) -> bool:
    return npi in (page.run(VALUE, "#blocks [name=shape]") or "")


def test_tick_to_order_again_outlives_another_physician(
    page: Browser, place: Place, test_ordered_lately: str
) -> None:
    page.open(place.new())
    page.click(f'#choices input[value="{test_ordered_lately}"]')
    page.sees("within the last 24 hours")
    page.click("#id_another")
    page.type("#id_clinical_notes", "second sample")
    for number in (0, 1, 0):
        npi = page.run(CHOOSE, number)
        wait_until(
            partial(_knows, page, npi),
            60,
            "the page knows of the physician",
        )
        assert page.run("return document.getElementById('id_another').checked")
        assert page.run(VALUE, "#id_clinical_notes") == "second sample"
        assert page.run(VALUE, "#id_physician") == npi


HOLD = """
const send = XMLHttpRequest.prototype.send;
window.held = [];
XMLHttpRequest.prototype.send = function (body) { window.held.push(() => send.call(this, body)); };
window.release = () => {
  XMLHttpRequest.prototype.send = send;
  for (const one of window.held.splice(0)) one();
};
"""


def test_answer_given_while_a_response_is_under_way_is_put_back(
    page: Browser, place: Place, test_ordered_lately: str
) -> None:
    """The search word has no field of the form that preserves it by itself."""
    page.open(place.new())
    page.click(f'#choices input[value="{test_ordered_lately}"]')
    page.sees("within the last 24 hours")
    page.run(HOLD)
    npi = page.run(CHOOSE, 0)
    # No event: nothing is asked by the tick itself, and only the response could take it away.
    page.run("document.getElementById('id_another').checked = true; window.release()")
    wait_until(
        lambda: npi in (page.run(VALUE, "#blocks [name=shape]") or ""),
        60,
        "the page knows of the physician",
    )
    assert page.run("return document.getElementById('id_another').checked")
