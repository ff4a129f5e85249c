"""A real browser for tests: headless Chromium, driven by chromedriver over plain HTTP (WebDriver).

    with browser() as page:
        page.open("http://127.0.0.1:8000/")
        page.click_text("Events")

This package installs nothing. Tests are marked `needs_browser`. They are skipped where no browser
is installed, unless the variable BROWSER is `required`, as in `.ci/run`.
"""

from __future__ import annotations

import atexit
import base64
import contextlib
import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

from backoffice.devtools.embedded import dies_with_parent, free_port

WAIT_SECONDS = 30.0
SCRIPT_SECONDS, CALL_SECONDS = 120, 150
"""The longest script checks the accessibility of a whole page."""
_ELEMENT = "element-6066-11e4-a52e-4f735466cecf"
"""The key of an element's id in WebDriver responses."""
_INNER_TEXT = "return document.querySelector(arguments[0])?.innerText ?? null"
"""Finds and reads in one command, because the page may reload between two commands."""
FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-sync",
    "--hide-scrollbars",
    "--force-device-scale-factor=1",
)


class BrowserError(Exception):
    """The browser could not execute a command."""


def missing_programs() -> str:
    """Return which programs are not installed. Empty: browser tests can run."""
    names = [name for name in ("chromedriver", "chromium") if shutil.which(name) is None]
    return f"not installed: {', '.join(names)}" if names else ""


needs_browser = pytest.mark.skipif(
    bool(missing_programs()) and os.environ.get("BROWSER") != "required", reason=missing_programs()
)


@dataclass
class Browser:
    """One browser window. Methods that find elements by CSS wait until they exist."""

    address: str
    session: str = ""

    def call(self, method: str, path: str, body: Any = None) -> Any:
        """Send one WebDriver command and return its value."""
        prefix = f"/session/{self.session}" if self.session else ""
        data = None if method == "GET" else json.dumps(body or {}).encode()
        request = Request(  # noqa: S310 - our own loopback address
            f"{self.address}{prefix}{path}",
            data=data,
            method=method,
            headers={"content-type": "application/json"},
        )
        try:
            with urlopen(request, timeout=CALL_SECONDS) as answer:  # noqa: S310
                return json.loads(answer.read())["value"]
        except HTTPError as error:
            details = json.loads(error.read())["value"]
            raise BrowserError(f"{details['error']}: {details['message'][:300]}") from error

    def open(self, url: str) -> None:
        self.call("POST", "/url", {"url": url})

    @property
    def url(self) -> str:
        return str(self.call("GET", "/url"))

    def resize(self, width: int, height: int) -> None:
        """Set the size of the page in CSS pixels. It may be below the minimum size of a window."""
        self.devtools(
            "Emulation.setDeviceMetricsOverride",
            {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False},
        )

    def set_color_scheme(self, scheme: str) -> None:
        """Set the preferred color scheme, `light` or `dark`.

        Motion is reduced, so that no color is seen during a transition.
        """
        features = [
            {"name": "prefers-color-scheme", "value": scheme},
            {"name": "prefers-reduced-motion", "value": "reduce"},
        ]
        self.devtools("Emulation.setEmulatedMedia", {"features": features})

    def devtools(self, command: str, params: dict[str, Any]) -> Any:
        return self.call("POST", "/goog/cdp/execute", {"cmd": command, "params": params})

    def run(self, script: str, *arguments: Any) -> Any:
        """Run a script in the page and return its value."""
        return self.call("POST", "/execute/sync", {"script": script, "args": list(arguments)})

    def find(self, css: str, seconds: float = WAIT_SECONDS) -> str:
        """Wait for an element that matches, and return the id of the first one."""
        deadline = time.monotonic() + seconds
        while True:
            found = self.find_all(css)
            if found:
                return found[0]
            if time.monotonic() > deadline:
                raise BrowserError(f"nothing matches {css} on {self.url}: {self.text()[:500]}")
            time.sleep(0.05)

    def find_all(self, css: str) -> list[str]:
        """Return the ids of the elements that match now."""
        found = self.call("POST", "/elements", {"using": "css selector", "value": css})
        return [element[_ELEMENT] for element in found]

    def click_text(self, text: str) -> None:
        """Click the link or button with exactly this text."""
        _retry_if_stale(lambda: self._click_text(text))

    def _click_text(self, text: str) -> None:
        quoted = f'"{text}"'
        shown = "[not(ancestor-or-self::*[@hidden])]"
        path = f"//*[self::a or self::button or self::summary]{shown}[normalize-space(.)={quoted}]"
        deadline = time.monotonic() + WAIT_SECONDS
        while True:
            found = self.call("POST", "/elements", {"using": "xpath", "value": path})
            if found:
                self.click_element(found[0][_ELEMENT])
                return
            if time.monotonic() > deadline:
                raise BrowserError(f"no link has the text {text}: {self.text()[:500]}")
            time.sleep(0.05)

    def click(self, css: str) -> None:
        _retry_if_stale(lambda: self.click_element(self.find(css)))

    def click_element(self, element: str) -> None:
        # The driver considers an element under a sticky bar visible, so scroll as a person would.
        scroll = "arguments[0].scrollIntoView({block: 'nearest'})"
        self.call("POST", "/execute/sync", {"script": scroll, "args": [{_ELEMENT: element}]})
        self.call("POST", f"/element/{element}/click")

    def type(self, css: str, text: str) -> None:
        """Type into a field. For a file field, `text` is the path of a file."""
        _retry_if_stale(
            lambda: self.call("POST", f"/element/{self.find(css)}/value", {"text": text})
        )

    def text(self, css: str = "body") -> str:
        """Return the visible text of the first element that matches, with stripped lines.

        A script reads the text, because the driver's command takes 0.25 s on a long page.
        """
        deadline = time.monotonic() + WAIT_SECONDS
        while (text := self.run(_INNER_TEXT, css)) is None:
            if time.monotonic() > deadline:
                raise BrowserError(f"nothing matches {css} on {self.url}")
            time.sleep(0.05)
        lines = (" ".join(line.split()) for line in str(text).splitlines())
        return "\n".join(line for line in lines if line)

    def wait_for_text(self, text: str, seconds: float = WAIT_SECONDS) -> None:
        """Wait until the page shows this text."""
        deadline = time.monotonic() + seconds
        while True:
            with contextlib.suppress(BrowserError):  # The page may be reloading.
                shown = self.text()
                if text in shown:
                    return
            if time.monotonic() > deadline:
                raise BrowserError(f"{text!r} does not appear on {self.url}: {self.text()[:1500]}")
            time.sleep(0.05)

    def screenshot(self, path: Path, *, full_page: bool = True) -> None:
        """Save a screenshot of the window, or of the whole page."""
        if not full_page:
            path.write_bytes(base64.b64decode(self.call("GET", "/screenshot")))
            return
        size = self.devtools("Page.getLayoutMetrics", {})["cssContentSize"]
        clip = {"x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1}
        shot = self.devtools(
            "Page.captureScreenshot", {"captureBeyondViewport": True, "clip": clip}
        )
        path.write_bytes(base64.b64decode(shot["data"]))


def _retry_if_stale(action: Callable[[], object]) -> None:
    """Run the action again if its element was replaced after it was found.

    A stale element means that the first attempt did nothing.
    """
    try:
        action()
    except BrowserError as error:
        if "stale element" not in str(error):
            raise
        action()


class _Chromium:
    """A Chromium process that several tests use one after the other.

    Starting it takes longer than many tests. Each test has a window of its own.
    """

    def __init__(self) -> None:
        port = free_port()
        self.profile = tempfile.TemporaryDirectory(prefix="browser-")
        self.process = subprocess.Popen(
            ["chromedriver", f"--port={port}", "--log-level=SEVERE"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            preexec_fn=dies_with_parent(signal.SIGTERM),
            env={**os.environ, "HOME": self.profile.name},
        )
        atexit.register(self.quit)
        self.page = Browser(f"http://127.0.0.1:{port}")
        _wait_until_ready(self.page, self.process)
        options = {"args": [*FLAGS, f"--user-data-dir={self.profile.name}/data"]}
        capabilities = {"alwaysMatch": {"browserName": "chrome", "goog:chromeOptions": options}}
        self.page.session = self.page.call("POST", "/session", {"capabilities": capabilities})[
            "sessionId"
        ]
        self.page.call("POST", "/timeouts", {"script": SCRIPT_SECONDS * 1000})
        self.first = self.page.call("GET", "/window")

    def open(self) -> Browser:
        self._switch_to(self.page.call("POST", "/window/new", {"type": "tab"})["handle"])
        self.page.devtools("Emulation.setFocusEmulationEnabled", {"enabled": True})
        return self.page

    def close_windows(self) -> None:
        """Close the opened windows and delete cookies, cache and storage."""
        self.page.devtools("Network.clearBrowserCookies", {})
        self.page.devtools("Network.clearBrowserCache", {})
        for handle in self.page.call("GET", "/window/handles"):
            if handle != self.first:
                self._switch_to(handle)
                storage = {"origin": self.page.run("return origin"), "storageTypes": "all"}
                self.page.devtools("Storage.clearDataForOrigin", storage)
                self.page.call("DELETE", "/window")
        self._switch_to(self.first)

    def _switch_to(self, handle: str) -> None:
        self.page.call("POST", "/window", {"handle": handle})

    def quit(self) -> None:
        if self.page.session:
            with contextlib.suppress(BrowserError, OSError):
                self.page.call("DELETE", "")
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(10)
        self.profile.cleanup()
        atexit.unregister(self.quit)


_unused_browsers: list[_Chromium] = []


@contextlib.contextmanager
def browser(width: int = 1280, height: int = 900) -> Iterator[Browser]:
    """Yield an isolated browser. Its cookies and storage are deleted at the end."""
    chromium = _unused_browsers.pop() if _unused_browsers else _Chromium()
    try:
        page = chromium.open()
        page.resize(width, height)
        yield page
        chromium.close_windows()
    except BaseException:
        chromium.quit()
        raise
    _unused_browsers.append(chromium)


def _wait_until_ready(page: Browser, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline and process.poll() is None:
        with contextlib.suppress(OSError, BrowserError):
            if page.call("GET", "/status")["ready"]:
                return
        time.sleep(0.05)
    raise BrowserError("chromedriver did not start")
