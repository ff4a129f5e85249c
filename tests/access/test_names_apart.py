"""Names of people stand apart from the words around them, on every page: written in another
direction, or with letters that turn it, a name moves nothing beside it."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from typing import Final

import pytest

from backoffice.accounts.access import ADMINISTRATOR
from tests.access.canaries import FIRST_NAME, LAST_NAME
from tests.access.visits import Visitor, body_of, probes, undone

pytestmark = pytest.mark.django_db

NAME: Final = re.compile(f"{FIRST_NAME}|{LAST_NAME}", re.I)
TEXT_ALONE: Final = {"title", "textarea", "option", "pre", "script"}
"""Hold nothing but text."""
EMPTY: Final = {"input", "br", "img", "link", "meta", "hr", "col", "source", "wbr", "use", "path"}


class Names(HTMLParser):
    """Names that stand in a line of other words without a `bdi` around them."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.loose: list[str] = []
        self.apart = 0

    def handle_starttag(self, tag: str, attrs: object) -> None:
        if tag not in EMPTY:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag in self.open:
            while self.open.pop() != tag:
                pass

    def handle_data(self, data: str) -> None:
        if not NAME.search(data):
            return
        if "bdi" in self.open:
            self.apart += 1
        elif TEXT_ALONE.isdisjoint(self.open):
            self.loose.append(data.strip()[:80])


def names_in(page: str) -> Names:
    found = Names()
    found.feed(page)
    return found


def test_on_every_page(small_world: None) -> None:
    visitor = Visitor(ADMINISTRATOR)
    loose: dict[str, list[str]] = {}
    apart = 0
    for probe in probes():
        if not probe.real or probe.method != "GET" or probe.route is None:
            continue
        if probe.route.name.startswith("admin:"):
            continue  # one column in one cell, as it was received
        with undone():
            answer = visitor.ask("GET", probe.path)
            if not answer.headers.get("Content-Type", "").startswith("text/html"):
                continue
            found = names_in(body_of(answer))
        apart += found.apart
        if found.loose:
            loose[probe.route.name] = found.loose
    assert not loose, "\n".join(f"{name}: {words[:4]}" for name, words in loose.items())
    assert apart > 50, "hardly a page shows names at all"


@pytest.mark.parametrize(
    ("page", "loose"),
    [
        (f"<p>of <bdi>{FIRST_NAME} {LAST_NAME}</bdi></p>", 0),
        (f"<p>of {FIRST_NAME}</p>", 1),
        (f"<title>{FIRST_NAME}</title><p><br>and <b>{LAST_NAME}</b></p>", 1),
    ],
)
def test_a_loose_name_is_noticed(page: str, loose: int) -> None:
    assert len(names_in(page).loose) == loose
