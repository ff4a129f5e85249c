"""`./run shots [DIR]`: save screenshots of every page in light, dark and phone size.

The pages show invented people. The default folder is `var/shots`. It gets an `index.html`.
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

from tests.browser import Browser, browser, missing_programs  # noqa: E402
from tests.browser.pages import ADMINISTRATOR, SampleOffice, office_with_sample_data  # noqa: E402

VARIANTS: Final = {"light": (1280, "light"), "dark": (1280, "dark"), "phone": (390, "light")}
MAX_HEIGHT: Final = 2400


def take_pictures(sample: SampleOffice, page: Browser, folder: Path, only: str) -> list[str]:
    """Take screenshots of all pages whose name contains `only`. Return the page names."""
    taken = []
    for address in sample.pages:
        if only not in address.name:
            continue
        name = "".join(mark if mark.isalnum() else "-" for mark in address.name)
        page.open(sample.office.url + address.path)
        for variant, (width, scheme) in VARIANTS.items():
            page.resize(width, 900)
            page.set_color_scheme(scheme)
            # The window becomes as tall as the page, so that sticky elements stay at its edges.
            height = int(page.run("return document.documentElement.scrollHeight"))
            page.resize(width, min(max(height, 900), MAX_HEIGHT))
            page.screenshot(folder / f"{name}.{variant}.png", full_page=False)
        page.resize(1280, 900)
        page.set_color_scheme("light")
        taken.append(name)
        print(f"{len(taken):3} {address.name}", flush=True)
    return taken


def index_html(names: list[str]) -> str:
    """Return the HTML of a page that shows all screenshots."""
    rows = "".join(
        f"<h2>{escape(name)}</h2>"
        + "".join(
            f'<img src="{escape(name)}.{variant}.png" alt="{variant}" height="480">'
            for variant in VARIANTS
        )
        for name in names
    )
    return f"<!doctype html><meta charset=utf-8><title>Pages</title>{rows}"


def main(arguments: list[str]) -> int:
    missing = missing_programs()
    if missing:
        print(f"No pictures: {missing}.")
        return 1
    folder = Path(arguments[0] if arguments else "var/shots").resolve()
    folder.mkdir(parents=True, exist_ok=True)
    with (
        tempfile.TemporaryDirectory(prefix="shots-") as logs,
        office_with_sample_data(Path(logs)) as sample,
    ):
        with browser() as page:
            sample.office.log_in(page, ADMINISTRATOR)
            names = take_pictures(sample, page, folder, os.environ.get("ONLY", ""))
        for line in sample.uncovered:
            print(f"not visited: {line}")
    (folder / "index.html").write_text(index_html(names))
    print(f"{len(names)} pages, three pictures each: {folder}/index.html")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
