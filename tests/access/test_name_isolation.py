"""Names of people are isolated from the surrounding text on every page.

A name in another writing direction, or with control characters, then moves no text beside it.
"""

from __future__ import annotations

import re
from html.parser import HTMLParser
from typing import Final

import pytest

from backoffice.accounts.access import ADMINISTRATOR
from tests.access.canaries import FIRST_NAME, LAST_NAME
from tests.access.visits import Visitor, body_of, probes, rolled_back

pytestmark = pytest.mark.django_db

NAME: Final = re.compile(f"{FIRST_NAME}|{LAST_NAME}", re.I)
TEXT_ONLY: Final = {"title", "textarea", "option", "pre", "script"}
"""These elements contain only text."""
VOID_ELEMENTS: Final = {
    "input",
    "br",
    "img",
    "link",
    "meta",
    "hr",
    "col",
    "source",
    "wbr",
    "use",
    "path",
}


class Names(HTMLParser):
    """Find names without a `bdi` element around them."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.unisolated: list[str] = []
        self.isolated = 0

    def handle_starttag(self, tag: str, attrs: object) -> None:
        if tag not in VOID_ELEMENTS:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag in self.open:
            while self.open.pop() != tag:
                pass

    def handle_data(self, data: str) -> None:
        if not NAME.search(data):
            return
        if "bdi" in self.open:
            self.isolated += 1
        elif TEXT_ONLY.isdisjoint(self.open):
            self.unisolated.append(data.strip()[:80])


def names_in(page: str) -> Names:
    found = Names()
    found.feed(page)
    return found


def test_names_are_isolated_on_every_page(small_data_set: None) -> None:
    visitor = Visitor(ADMINISTRATOR)
    unisolated: dict[str, list[str]] = {}
    isolated = 0
    for probe in probes():
        if not probe.is_real or probe.method != "GET" or probe.route is None:
            continue
        if probe.route.name.startswith("admin:"):
            continue  # one column in one cell, as it was received
        with rolled_back():
            answer = visitor.send("GET", probe.path)
            if not answer.headers.get("Content-Type", "").startswith("text/html"):
                continue
            found = names_in(body_of(answer))
        isolated += found.isolated
        if found.unisolated:
            unisolated[probe.route.name] = found.unisolated
    assert not unisolated, "\n".join(f"{name}: {texts[:4]}" for name, texts in unisolated.items())
    assert isolated > 50, "too few pages show names"


@pytest.mark.parametrize(
    ("page", "unisolated"),
    [
        (f"<p>of <bdi>{FIRST_NAME} {LAST_NAME}</bdi></p>", 0),
        (f"<p>of {FIRST_NAME}</p>", 1),
        (f"<title>{FIRST_NAME}</title><p><br>and <b>{LAST_NAME}</b></p>", 1),
    ],
)
def test_unisolated_name_is_found(page: str, unisolated: int) -> None:
    assert len(names_in(page).unisolated) == unisolated
