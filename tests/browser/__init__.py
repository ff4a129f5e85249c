"""A real browser for tests: headless Chromium, driven by chromedriver over plain HTTP (WebDriver).

    with browser() as page:
        page.open("http://127.0.0.1:8000/")
        page.click("link", "Events")

Nothing is installed here. Tests carry `needs_browser`: where there is none they are skipped, and
say so, unless the variable BROWSER is `required`, as in `.ci/run`.
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
"""The longest script looks at a whole page for barriers."""
_ELEMENT = "element-6066-11e4-a52e-4f735466cecf"
"""What WebDriver calls an element's id in its answers."""
_WORDS = "return document.querySelector(arguments[0])?.innerText ?? null"
"""Found and read at once: a page may be loaded anew between two commands."""
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
    """The browser could not do what was asked."""


def missing() -> str:
    """What of a browser this machine lacks; empty when a test can run."""
    lacking = [name for name in ("chromedriver", "chromium") if shutil.which(name) is None]
    return f"not installed: {', '.join(lacking)}" if lacking else ""


needs_browser = pytest.mark.skipif(
    bool(missing()) and os.environ.get("BROWSER") != "required", reason=missing()
)


@dataclass
class Browser:
    """One window. Elements are found by CSS, waiting until they are there."""

    address: str
    session: str = ""

    def call(self, method: str, path: str, body: Any = None) -> Any:
        """One WebDriver command and its value."""
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
            said = json.loads(error.read())["value"]
            raise BrowserError(f"{said['error']}: {said['message'][:300]}") from error

    def open(self, url: str) -> None:
        self.call("POST", "/url", {"url": url})

    @property
    def url(self) -> str:
        return str(self.call("GET", "/url"))

    def resize(self, width: int, height: int) -> None:
        """Size of the page in CSS pixels, below the least that a window may have, too."""
        self.devtools(
            "Emulation.setDeviceMetricsOverride",
            {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False},
        )

    def prefer(self, scheme: str) -> None:
        """`light` or `dark`, as the system of the person would ask for; without motion, so that
        no colour is seen on its way to another."""
        features = [
            {"name": "prefers-color-scheme", "value": scheme},
            {"name": "prefers-reduced-motion", "value": "reduce"},
        ]
        self.devtools("Emulation.setEmulatedMedia", {"features": features})

    def devtools(self, command: str, params: dict[str, Any]) -> Any:
        return self.call("POST", "/goog/cdp/execute", {"cmd": command, "params": params})

    def run(self, script: str, *arguments: Any) -> Any:
        """What a script returns that runs in the page."""
        return self.call("POST", "/execute/sync", {"script": script, "args": list(arguments)})

    def find(self, css: str, seconds: float = WAIT_SECONDS) -> str:
        """Id of the first element that matches."""
        ends = time.monotonic() + seconds
        while True:
            found = self.all(css)
            if found:
                return found[0]
            if time.monotonic() > ends:
                raise BrowserError(f"nothing matches {css} on {self.url}: {self.text()[:500]}")
            time.sleep(0.05)

    def all(self, css: str) -> list[str]:
        """Ids of the elements that match now."""
        found = self.call("POST", "/elements", {"using": "css selector", "value": css})
        return [element[_ELEMENT] for element in found]

    def link(self, words: str) -> None:
        """Follow the link, or press the button, that bears exactly these words."""
        _though_swapped(lambda: self._link(words))

    def _link(self, words: str) -> None:
        quoted = f'"{words}"'
        path = f"//*[self::a or self::button or self::summary][normalize-space(.)={quoted}]"
        ends = time.monotonic() + WAIT_SECONDS
        while True:
            found = self.call("POST", "/elements", {"using": "xpath", "value": path})
            if found:
                self.press(found[0][_ELEMENT])
                return
            if time.monotonic() > ends:
                raise BrowserError(f"no link says {words}: {self.text()[:500]}")
            time.sleep(0.05)

    def click(self, css: str) -> None:
        _though_swapped(lambda: self.press(self.find(css)))

    def press(self, element: str) -> None:
        # As a person scrolls: the driver takes what lies under a sticky bar for visible.
        scroll = "arguments[0].scrollIntoView({block: 'nearest'})"
        self.call("POST", "/execute/sync", {"script": scroll, "args": [{_ELEMENT: element}]})
        self.call("POST", f"/element/{element}/click")

    def type(self, css: str, text: str) -> None:
        """Type into a field; for a file field, the path of a file."""
        _though_swapped(
            lambda: self.call("POST", f"/element/{self.find(css)}/value", {"text": text})
        )

    def text(self, css: str = "body") -> str:
        """What a person reads in the first element that matches, lines without space around them.

        As the page tells it: the driver's own way takes a quarter of a second on a long page.
        """
        ends = time.monotonic() + 5
        while (told := self.run(_WORDS, css)) is None:
            if time.monotonic() > ends:
                raise BrowserError(f"nothing matches {css} on {self.url}")
            time.sleep(0.05)
        lines = (" ".join(line.split()) for line in str(told).splitlines())
        return "\n".join(line for line in lines if line)

    def sees(self, words: str, seconds: float = WAIT_SECONDS) -> None:
        """Wait until the page shows these words."""
        ends = time.monotonic() + seconds
        while True:
            with contextlib.suppress(BrowserError):  # The page may be changing right now.
                shown = self.text()
                if words in shown:
                    return
            if time.monotonic() > ends:
                raise BrowserError(f"{words!r} does not appear on {self.url}: {self.text()[:1500]}")
            time.sleep(0.05)

    def screenshot(self, path: Path, *, whole: bool = True) -> None:
        """A picture of the window, or of the whole page."""
        if not whole:
            path.write_bytes(base64.b64decode(self.call("GET", "/screenshot")))
            return
        size = self.devtools("Page.getLayoutMetrics", {})["cssContentSize"]
        clip = {"x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1}
        shot = self.devtools(
            "Page.captureScreenshot", {"captureBeyondViewport": True, "clip": clip}
        )
        path.write_bytes(base64.b64decode(shot["data"]))


def _though_swapped(do: Callable[[], object]) -> None:
    """Once more where an element was swapped for its like after it was found: nothing was done."""
    try:
        do()
    except BrowserError as error:
        if "stale element" not in str(error):
            raise
        do()


class _Chromium:
    """One that is kept for the next test: starting it takes longer than much of what tests do in
    it. Each test has a window of its own."""

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
        atexit.register(self.end)
        self.page = Browser(f"http://127.0.0.1:{port}")
        _await(self.page, self.process)
        options = {"args": [*FLAGS, f"--user-data-dir={self.profile.name}/data"]}
        wanted = {"alwaysMatch": {"browserName": "chrome", "goog:chromeOptions": options}}
        self.page.session = self.page.call("POST", "/session", {"capabilities": wanted})[
            "sessionId"
        ]
        self.page.call("POST", "/timeouts", {"script": SCRIPT_SECONDS * 1000})
        self.first = self.page.call("GET", "/window")

    def open(self) -> Browser:
        self._turn_to(self.page.call("POST", "/window/new", {"type": "tab"})["handle"])
        self.page.devtools("Emulation.setFocusEmulationEnabled", {"enabled": True})
        return self.page

    def forget(self) -> None:
        """Close what was opened, with all that pages kept."""
        self.page.devtools("Network.clearBrowserCookies", {})
        self.page.devtools("Network.clearBrowserCache", {})
        for handle in self.page.call("GET", "/window/handles"):
            if handle != self.first:
                self._turn_to(handle)
                kept = {"origin": self.page.run("return origin"), "storageTypes": "all"}
                self.page.devtools("Storage.clearDataForOrigin", kept)
                self.page.call("DELETE", "/window")
        self._turn_to(self.first)

    def _turn_to(self, handle: str) -> None:
        self.page.call("POST", "/window", {"handle": handle})

    def end(self) -> None:
        if self.page.session:
            with contextlib.suppress(BrowserError, OSError):
                self.page.call("DELETE", "")
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(10)
        self.profile.cleanup()
        atexit.unregister(self.end)


_idle: list[_Chromium] = []


@contextlib.contextmanager
def browser(width: int = 1280, height: int = 900) -> Iterator[Browser]:
    """A browser that knows of no other: all that it was given to keep is gone with the `with`."""
    chromium = _idle.pop() if _idle else _Chromium()
    try:
        page = chromium.open()
        page.resize(width, height)
        yield page
        chromium.forget()
    except BaseException:
        chromium.end()
        raise
    _idle.append(chromium)


def _await(page: Browser, process: subprocess.Popen[bytes]) -> None:
    ends = time.monotonic() + 30
    while time.monotonic() < ends and process.poll() is None:
        with contextlib.suppress(OSError, BrowserError):
            if page.call("GET", "/status")["ready"]:
                return
        time.sleep(0.05)
    raise BrowserError("chromedriver did not start")
