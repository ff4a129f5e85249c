"""Accessibility of every page in light and dark, at 320 px and with text of 200 %.

No page has a serious finding of axe-core, scrolls sideways, has too small a target, violates the
content security policy, or uses a class of a style sheet that it does not load.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, Final

import pytest

from tests.browser import Browser, browser, needs_browser
from tests.browser.pages import ADMINISTRATOR, PageAddress, SampleOffice, office_with_sample_data

pytestmark = needs_browser

AXE: Final = "return findings.axe(...arguments)"
SIDEWAYS: Final = "return findings.wide()"
POLICY_VIOLATIONS: Final = "return findings.refused()"
SMALL_TARGETS: Final = "return findings.small()"
UNSTYLED: Final = "return findings.unstyled(...arguments)"
CLASS_NAME: Final = re.compile(r"\.([a-z][a-z0-9-]*)(?=[^{}]*\{)")
STANDARDS: Final = ("tag", ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"])
WITH_BEST_PRACTICES: Final = ("tag", [*STANDARDS[1], "best-practice"])
CONTRAST: Final = ("rule", ["color-contrast"])
SKIPPED_WHEN_RESIZED: Final = () if os.environ.get("AXE_ALL") else CONTRAST[1:]
"""Rules that are skipped for narrow pages and large text, where colors are the same.

They take half the time of axe-core. `AXE_ALL=1` includes them.
"""
CHANGED_BY_TEXT_SIZE: Final = STANDARDS if os.environ.get("AXE_ALL") else ("rule", ["target-size"])
"""Large text gives a page the layout of a narrow one, where all other rules were checked."""
SIMILAR_PAGES: Final = re.compile(
    r"admin:(?!auth_|backoffice_|labs_team_|orders_order_)\w+_change(list)?"
)
"""Admin pages of the mirror that are skipped, because they differ from others only in fields.

`AXE_ALL=1` includes them.
"""


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SampleOffice]:
    with office_with_sample_data(tmp_path_factory.mktemp("axe")) as sample:
        yield sample


@pytest.fixture(scope="module")
def page(sample: SampleOffice) -> Iterator[Browser]:
    with browser() as opened:
        sample.office.log_in(opened, ADMINISTRATOR)
        yield opened


@pytest.fixture(scope="module")
def script() -> str:
    """Return axe-core and our checks. The variable AXE may name a newer axe.min.js."""
    custom_axe = os.environ.get("AXE")
    axe = Path(custom_axe) if custom_axe else files("axe_playwright_python") / "axe.min.js"
    # The script runs in a function, where a declaration is not global.
    return f"{axe.read_text()}\n{(Path(__file__).parent / 'findings.js').read_text()}"


def test_every_route_has_a_page_address(sample: SampleOffice) -> None:
    """A new page must be reachable with the samples in `pages.py`, or add one."""
    assert not sample.uncovered, "\n".join(sample.uncovered)
    assert len(sample.pages) > 40


@cache
def class_names() -> dict[str, list[str]]:
    """Return the class names in each of our style sheets."""
    root = Path(__file__).resolve().parents[2]
    sheets = sorted(root.glob("*/static/*/*.css"))
    assert len(sheets) > 15
    return {
        f"{sheet.parent.name}/{sheet.name}": sorted(set(CLASS_NAME.findall(sheet.read_text())))
        for sheet in sheets
    }


def text_size(page: Browser, percent: int) -> None:
    """Set the font size of the browser, so that layouts relative to it change, too."""
    sizes = {"standard": 16 * percent // 100, "fixed": 13 * percent // 100}
    page.devtools("Page.setFontSizes", {"fontSizes": sizes})


def find_problems(page: Browser, script: str, where: str) -> list[str]:
    """Return the findings on the open page in all schemes, widths and text sizes."""
    found: list[str] = []

    def add(variant: str, *lists: Any) -> None:
        found.extend(f"{where} [{variant}] {finding}" for findings in lists for finding in findings)

    page.run(script)
    page.set_color_scheme("light")
    add(
        "light",
        page.run(POLICY_VIOLATIONS),
        page.run(AXE, *WITH_BEST_PRACTICES),
        page.run(SMALL_TARGETS),
        page.run(UNSTYLED, class_names()),
    )
    page.set_color_scheme("dark")
    add("dark", page.run(AXE, *CONTRAST))
    page.set_color_scheme("light")
    page.resize(320, 800)
    page.run(LAID_OUT)
    add("320 px", page.run(AXE, *STANDARDS, *SKIPPED_WHEN_RESIZED), page.run(SIDEWAYS))
    page.resize(1280, 900)
    text_size(page, 200)
    page.run(LAID_OUT)
    add("200 %", page.run(AXE, *CHANGED_BY_TEXT_SIZE), page.run(SIDEWAYS))
    text_size(page, 100)
    return found


LAID_OUT = "return new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))"
"""Wait until the page has been laid out in its new size."""


def test_pages_have_no_accessibility_findings(
    sample: SampleOffice, page: Browser, script: str
) -> None:
    found: list[str] = []
    only = os.environ.get("ONLY", "")
    for address in sample.pages:
        skipped = SIMILAR_PAGES.fullmatch(address.name) and not os.environ.get("AXE_ALL")
        if only in address.name and not skipped:
            page.open(sample.office.url + address.path)
            found += find_problems(page, script, address.name)
    report = os.environ.get("AXE_REPORT")
    if report:
        Path(report).write_text("\n".join(found))
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    "address", [PageAddress("login", "/accounts/login/"), PageAddress("missing", "/nowhere/")]
)
def test_public_pages_have_no_accessibility_findings(
    sample: SampleOffice, script: str, address: PageAddress
) -> None:
    with browser() as page:
        page.open(sample.office.url + address.path)
        assert find_problems(page, script, address.name) == []


def test_checks_detect_known_accessibility_faults(script: str) -> None:
    """The checks must be able to fail."""
    with browser(320, 600) as page:
        page.open("about:blank")
        page.run(
            'document.body.innerHTML = \'<main><p style="color:#ccc">pale</p><img src="x">'
            '<button></button><button>a</button><p style="width:900px">wide</p></main>\''
        )
        page.run(script)
        found = "\n".join(page.run(AXE, *STANDARDS))
        assert all(rule in found for rule in ("color-contrast", "image-alt", "button-name"))
        assert page.run(SIDEWAYS) and page.run(SMALL_TARGETS)
        page.run("document.querySelector('main').className = 'site-list'")
        assert page.run(UNSTYLED, class_names()) == [".site-list needs orders/scheduling.css"]


def test_check_detects_content_policy_violation(
    sample: SampleOffice, page: Browser, script: str
) -> None:
    page.open(f"{sample.office.url}/preferences/")
    page.run("document.body.append(document.createElement('style'))")
    page.run("document.querySelector('body > style').textContent = 'p {}'")
    page.run(script)
    assert any("style-src" in finding for finding in page.run(POLICY_VIOLATIONS))
