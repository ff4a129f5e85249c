"""Every page in light, dark, at 320 px and at twice the text: no serious finding of axe-core, no
page that scrolls sideways, no target too small for a finger, nothing the content policy refuses."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any, Final

import pytest

from tests.browser import Browser, browser, needs_browser
from tests.browser.walk import ADMINISTRATOR, Stop, World, furnished

pytestmark = needs_browser

AXE: Final = "return findings.axe(...arguments)"
WIDE: Final = "return findings.wide()"
REFUSED: Final = "return findings.refused()"
SMALL: Final = "return findings.small()"
STANDARDS: Final = ("tag", ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"])
BEST: Final = ("tag", [*STANDARDS[1], "best-practice"])
CONTRAST: Final = ("rule", ["color-contrast"])
COLOURS: Final = () if os.environ.get("AXE_ALL") else CONTRAST[1:]
"""Not asked again of a page that is narrow, or has large text: its colours are the same. It is half
of what axe-core takes. With `AXE_ALL=1` they are."""
ALIKE: Final = re.compile(r"admin:(?!auth_|backoffice_|labs_team_|orders_order_)\w+_change(list)?")
"""Lists and records of the mirror are two pages with other fields: one kind stands for the others.
With `AXE_ALL=1` each is looked at."""


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with furnished(tmp_path_factory.mktemp("axe")) as made:
        yield made


@pytest.fixture(scope="module")
def page(world: World) -> Iterator[Browser]:
    with browser() as opened:
        world.office.log_in(opened, ADMINISTRATOR)
        yield opened


@pytest.fixture(scope="module")
def script() -> str:
    """axe-core, and what is asked of it. The variable AXE names a newer axe.min.js to try."""
    given = os.environ.get("AXE")
    axe = Path(given) if given else files("axe_core_python") / "axe.min.js"
    # In a function, a declaration is not global.
    return f"{axe.read_text()}\n{(Path(__file__).parent / 'findings.js').read_text()}"


def test_every_route_is_visited(world: World) -> None:
    """A new page must be reachable with the samples of `walk.py`, or bring one."""
    assert not world.uncovered, "\n".join(world.uncovered)
    assert len(world.stops) > 40


def still(page: Browser, scheme: str) -> None:
    """This theme, and nothing on its way to another colour."""
    page.devtools(
        "Emulation.setEmulatedMedia",
        {
            "features": [
                {"name": "prefers-color-scheme", "value": scheme},
                {"name": "prefers-reduced-motion", "value": "reduce"},
            ]
        },
    )


def text_size(page: Browser, percent: int) -> None:
    """The browser's own setting: layouts that go by the size of text answer to it, too."""
    sizes = {"standard": 16 * percent // 100, "fixed": 13 * percent // 100}
    page.devtools("Page.setFontSizes", {"fontSizes": sizes})


def look(page: Browser, script: str, where: str) -> list[str]:
    """Findings on the page that is open, in every way it may be looked at."""
    found: list[str] = []

    def add(how: str, *lists: Any) -> None:
        found.extend(f"{where} [{how}] {one}" for some in lists for one in some)

    page.run(script)
    still(page, "light")
    add("light", page.run(REFUSED), page.run(AXE, *BEST), page.run(SMALL))
    still(page, "dark")
    add("dark", page.run(AXE, *CONTRAST))
    still(page, "light")
    page.resize(320, 800)
    page.run(DRAWN)
    add("320 px", page.run(AXE, *STANDARDS, *COLOURS), page.run(WIDE))
    page.resize(1280, 900)
    text_size(page, 200)
    page.run(DRAWN)
    add("200 %", page.run(AXE, *STANDARDS, *COLOURS), page.run(WIDE))
    text_size(page, 100)
    return found


DRAWN = "return new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))"
"""The page has heard of its new size."""


def test_no_page_keeps_anybody_out(world: World, page: Browser, script: str) -> None:
    found: list[str] = []
    only = os.environ.get("ONLY", "")
    for stop in world.stops:
        alike = ALIKE.fullmatch(stop.name) and not os.environ.get("AXE_ALL")
        if only in stop.name and not alike:
            page.open(world.office.url + stop.path)
            found += look(page, script, stop.name)
    report = os.environ.get("AXE_REPORT")
    if report:
        Path(report).write_text("\n".join(found))
    assert not found, "\n".join(found)


@pytest.mark.parametrize("stop", [Stop("login", "/accounts/login/"), Stop("missing", "/nowhere/")])
def test_nor_do_pages_for_strangers(world: World, script: str, stop: Stop) -> None:
    with browser() as page:
        page.open(world.office.url + stop.path)
        assert look(page, script, stop.name) == []


def test_what_is_wrong_is_found(script: str) -> None:
    """So that nothing found means nothing wrong."""
    with browser(320, 600) as page:
        page.open("about:blank")
        page.run(
            'document.body.innerHTML = \'<main><p style="color:#ccc">pale</p><img src="x">'
            '<button></button><button>a</button><p style="width:900px">wide</p></main>\''
        )
        page.run(script)
        found = "\n".join(page.run(AXE, *STANDARDS))
        assert all(rule in found for rule in ("color-contrast", "image-alt", "button-name"))
        assert page.run(WIDE) and page.run(SMALL)


def test_what_the_policy_refuses_is_found(world: World, page: Browser, script: str) -> None:
    page.open(f"{world.office.url}/preferences/")
    page.run("document.body.append(document.createElement('style'))")
    page.run("document.querySelector('body > style').textContent = 'p {}'")
    page.run(script)
    assert any("style-src" in one for one in page.run(REFUSED))
