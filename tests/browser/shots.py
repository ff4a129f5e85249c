"""`./run shots [DIR]`: pictures of every page, light, dark and on a phone, for people to look at.

They are of a throw-away world of made-up people, and land in `var/shots`, with an `index.html`.
"""

from __future__ import annotations

import os
import sys
import tempfile
from html import escape
from pathlib import Path
from typing import Final

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "backoffice.settings")
django.setup()

from tests.browser import Browser, browser, missing  # noqa: E402
from tests.browser.walk import ADMINISTRATOR, World, furnished  # noqa: E402

WAYS: Final = {"light": (1280, "light"), "dark": (1280, "dark"), "phone": (390, "light")}
TALLEST: Final = 2400


def take(world: World, page: Browser, folder: Path, only: str) -> list[str]:
    """Pictures of all pages whose name holds `only`; their names without the way."""
    taken = []
    for stop in world.stops:
        if only not in stop.name:
            continue
        name = "".join(mark if mark.isalnum() else "-" for mark in stop.name)
        page.open(world.office.url + stop.path)
        for way, (width, scheme) in WAYS.items():
            page.resize(width, 900)
            page.prefer(scheme)
            # As if the window were as tall as the page: what sticks to its edges stays there.
            height = int(page.run("return document.documentElement.scrollHeight"))
            page.resize(width, min(max(height, 900), TALLEST))
            page.screenshot(folder / f"{name}.{way}.png", whole=False)
        page.resize(1280, 900)
        page.prefer("light")
        taken.append(name)
        print(f"{len(taken):3} {stop.name}", flush=True)
    return taken


def index(names: list[str]) -> str:
    """A page to look at them all."""
    rows = "".join(
        f"<h2>{escape(name)}</h2>"
        + "".join(f'<img src="{escape(name)}.{way}.png" alt="{way}" height="480">' for way in WAYS)
        for name in names
    )
    return f"<!doctype html><meta charset=utf-8><title>Pages</title>{rows}"


def main(arguments: list[str]) -> int:
    lacking = missing()
    if lacking:
        print(f"No pictures: {lacking}.")
        return 1
    folder = Path(arguments[0] if arguments else "var/shots").resolve()
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="shots-") as logs, furnished(Path(logs)) as world:
        with browser() as page:
            world.office.log_in(page, ADMINISTRATOR)
            names = take(world, page, folder, os.environ.get("ONLY", ""))
        for line in world.uncovered:
            print(f"not visited: {line}")
    (folder / "index.html").write_text(index(names))
    print(f"{len(names)} pages, three pictures each: {folder}/index.html")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
