"""A running back office for journeys: its sandbox, its web server, a worker, staff to log in as."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.browser import Browser, BrowserError
from tests.entering import logged_in
from tests.sandboxes import Sandbox
from tests.sandboxes import running as sandbox_running
from tests.sync.house import House, Houses, running, wait_until
from tests.webhooks.sending import receiving

TAB, ENTER, SPACE, SHIFT, BACKSPACE = "\ue004", "\ue007", " ", "\ue008", "\ue003"


@dataclass
class Office:
    url: str
    house: House
    sandbox: Sandbox

    def log_in(self, page: Browser, name: str) -> None:
        log_in(page, self.url, name)


def log_in(page: Browser, url: str, name: str) -> None:
    """To the start page, by a log-in elsewhere: how the form behaves is asked by
    `test_sign_in.py`."""
    with contextlib.closing(logged_in(url, name)) as person:
        for key, value in person.cookies.items():
            page.devtools(
                "Network.setCookie", {"url": url, "name": key, "value": value, "httpOnly": True}
            )
    page.open(f"{url}/")
    page.sees("Find a patient")


@contextlib.contextmanager
def at_work(logs: Path, users: int = 12, orders: int = 30, **options: Any) -> Iterator[Office]:
    """The mirror is current, commands are delivered, and everything is gone with the `with`."""
    houses = Houses(os.environ["DATABASE_URL"], logs, staffed=True)
    try:
        with sandbox_running(users=users, orders=orders, seed=11, **options) as sandbox:
            house = houses.build(sandbox.url, REPORT_FOLDER=str(logs / "reports"))
            house.sync()
            worker = running(house.start("-m", "tests.browser.worker"))
            with receiving(house, workers=1) as url, worker as process:
                yield Office(url, house, sandbox)
                assert process.poll() is None, "the worker died: its log tells of what"
    finally:
        houses.close()


def press(page: Browser, keys: str) -> None:
    """Keys for whatever has the focus: text, or the marks above."""
    downs = [{"type": kind, "value": key} for key in keys for kind in ("keyDown", "keyUp")]
    page.call("POST", "/actions", {"actions": [{"type": "key", "id": "keys", "actions": downs}]})


def within(began: float, seconds: float) -> None:
    """What a person is promised; machines that test do many things at once, and get more."""
    took = time.monotonic() - began
    assert took < 4 * seconds, f"{took:.0f} s"


def idle(page: Browser) -> None:
    """Nothing that the page has asked by itself is under way."""
    wait_until(lambda: not page.all(".htmx-request"), 60, "the page is at rest")


def offered(page: Browser, css: str = ".drawer .slots") -> None:
    """Times are there; a person tries again where the service took too long to tell them."""

    def are_there() -> bool:
        with contextlib.suppress(BrowserError):
            if page.all("#times-retry"):
                page.click("#times-retry")
        return bool(page.all(css))

    wait_until(are_there, 60, "times", every=0.2)


def focus(page: Browser) -> str:
    """Name, or else id or words, of what has the focus."""
    return str(
        page.run(
            "const at = document.activeElement;"
            "return at.name || at.id || at.textContent.trim().slice(0, 60)"
        )
    )


def tab_to(page: Browser, name: str, most: int = 12) -> int:
    """Press Tab until this has the focus; how often that took."""
    for pressed in range(most + 1):
        if focus(page) == name:
            return pressed
        press(page, TAB)
    raise AssertionError(f"{most} tabs do not lead to {name}, but to {focus(page)}")


def picture(page: Browser, name: str) -> None:
    """For people who want to see it: set PICTURES to a folder."""
    folder = os.environ.get("PICTURES")
    if folder:
        for width in (1280, 390):
            page.resize(width, 900)
            for scheme in ("light", "dark"):
                page.prefer(scheme)
                page.screenshot(Path(folder) / f"{name}-{width}-{scheme}.png")
        page.resize(1280, 900)
        page.prefer("light")
