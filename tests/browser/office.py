"""A running back office for browser tests: sandbox, web server, worker and staff accounts."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.browser import Browser, BrowserError
from tests.sandboxes import Sandbox
from tests.sandboxes import running as sandbox_running
from tests.sync.back_office import BackOffice, BackOffices, running
from tests.waiting import wait_until
from tests.web_sign_in import signed_in_client
from tests.webhooks.sending import receiving

TAB, ENTER, SPACE, SHIFT, BACKSPACE = "\ue004", "\ue007", " ", "\ue008", "\ue003"


@dataclass
class Office:
    """A running back office, its mirror and the sandbox that it uses as the service."""

    url: str
    back_office: BackOffice
    sandbox: Sandbox

    def log_in(self, page: Browser, name: str) -> None:
        log_in(page, self.url, name)


def log_in(page: Browser, url: str, name: str, start: str = "Find a patient") -> None:
    """Sign in without the form and open the start page, which has the text `start`.

    The session cookie comes from a plain HTTP client. `test_sign_in.py` tests the form.
    """
    with contextlib.closing(signed_in_client(url, name)) as person:
        for key, value in person.cookies.items():
            page.devtools(
                "Network.setCookie", {"url": url, "name": key, "value": value, "httpOnly": True}
            )
    page.open(f"{url}/")
    page.wait_for_text(start)


@contextlib.contextmanager
def running_office(
    logs: Path, users: int = 12, orders: int = 30, **options: Any
) -> Iterator[Office]:
    """Run a back office with a current mirror and a worker, and delete everything at the end."""
    back_offices = BackOffices(os.environ["DATABASE_URL"], logs, staffed=True)
    try:
        with sandbox_running(users=users, orders=orders, seed=11, **options) as sandbox:
            back_office = back_offices.build(sandbox.url, REPORT_FOLDER=str(logs / "reports"))
            back_office.sync()
            worker = running(back_office.start("-m", "tests.browser.worker"))
            with receiving(back_office, workers=1) as url, worker as process:
                yield Office(url, back_office, sandbox)
                assert process.poll() is None, "the worker died: see its log"
    finally:
        back_offices.close()


def press_keys(page: Browser, keys: str) -> None:
    """Send keys to the focused element: text or the special keys above."""
    key_events = [{"type": kind, "value": key} for key in keys for kind in ("keyDown", "keyUp")]
    page.call(
        "POST", "/actions", {"actions": [{"type": "key", "id": "keys", "actions": key_events}]}
    )


def assert_within(began: float, seconds: float) -> None:
    """Assert the promised time. Test machines are busy, so they get four times as much."""
    took = time.monotonic() - began
    assert took < 4 * seconds, f"{took:.0f} s"


def wait_until_idle(page: Browser) -> None:
    """Wait until the page has no htmx request in flight."""
    wait_until(lambda: not page.find_all(".htmx-request"), 60, "the page is at rest")


def wait_for_times(page: Browser, css: str = ".drawer .slots") -> None:
    """Wait until appointment times are shown. Press Retry where the service was too slow."""

    def times_are_shown() -> bool:
        with contextlib.suppress(BrowserError):
            if page.find_all("#times-retry"):
                page.click("#times-retry")
        return bool(page.find_all(css))

    wait_until(times_are_shown, 60, "times", every=0.2)


def focused_name(page: Browser) -> str:
    """Return the name, id or text of the focused element."""
    return str(
        page.run(
            "const at = document.activeElement;"
            "return at.name || at.id || at.textContent.trim().slice(0, 60)"
        )
    )


def tab_to(page: Browser, name: str, most: int = 12) -> int:
    """Press Tab until the named field has the focus. Return the number of presses."""
    for pressed in range(most + 1):
        if focused_name(page) == name:
            return pressed
        press_keys(page, TAB)
    raise AssertionError(f"{most} tabs do not lead to {name}, but to {focused_name(page)}")


def save_screenshot(page: Browser, name: str) -> None:
    """Save screenshots in the folder that the variable PICTURES names, if it is set."""
    folder = os.environ.get("PICTURES")
    if folder:
        for width in (1280, 390):
            page.resize(width, 900)
            for scheme in ("light", "dark"):
                page.set_color_scheme(scheme)
                page.screenshot(Path(folder) / f"{name}-{width}-{scheme}.png")
        page.resize(1280, 900)
        page.set_color_scheme("light")
