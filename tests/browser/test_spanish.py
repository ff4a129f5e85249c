"""Staff who chose Spanish find no English word on the pages of their day."""

from __future__ import annotations

import gettext
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
from django.conf import settings

from tests.browser import browser, needs_browser
from tests.browser.office import Office, log_in, running_office
from tests.outbox.draw_orders import place_order

pytestmark = needs_browser

CATALOG: Final = Path(settings.LOCALE_PATHS[0], "es", "LC_MESSAGES", "django.mo")
CODE: Final = re.compile(r"\b\w+([._]\w+)+\b")
WORD: Final = re.compile(r"[A-Za-zÀ-ÿ]{3,}")
MARKUP: Final = re.compile(r"<[^>]*>|%\([a-z_0-9]+\)[sd]|%[sd]|&\w+;")
DATA: Final = {
    "labs_lab": ("name", "slug"),
    "labs_labtest": ("name",),
    "labs_marker": ("name",),
    "orders_resultmarker": ("name",),
    "orders_order": ("patient_first_name", "patient_last_name"),
    "orders_appointment": ("first_line", "city", "provider"),
    "patients_demographics": ("first_name", "last_name", "first_line", "city"),
    "accounts_user": ("username", "first_name", "last_name"),
}
"""Columns whose values are the same in all languages."""
ACCESS_NOTE: Final = "The bell says Notreal"
"""What staff wrote, in `place_order`, stays as it is."""
VISIBLE: Final = """
    const skipped = "script, style, code, kbd, address, .id, [hidden]";
    return [...document.querySelectorAll("body *")]
        .filter((one) => !one.closest(skipped) && one.checkVisibility())
        .flatMap((one) => [...one.childNodes].filter((node) => node.nodeType === 3))
        .map((node) => node.textContent).join("\\n")
        + ["aria-label", "title", "placeholder"].flatMap((name) =>
            [...document.querySelectorAll(`[${name}]:not(.st)`)].map((it) => it.getAttribute(name))
        ).join("\\n");
"""


@pytest.fixture(scope="module")
def office(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Office]:
    with running_office(tmp_path_factory.mktemp("back_offices")) as office:
        office.back_office.query("UPDATE accounts_user SET language = 'es'")
        yield office


def words_of(texts: list[str]) -> set[str]:
    plain = (CODE.sub(" ", MARKUP.sub(" ", text)) for text in texts)
    return {word.lower() for text in plain for word in WORD.findall(text)}


def english_words() -> set[str]:
    """Return the words that only texts in English have."""
    with CATALOG.open("rb") as file:
        entries = gettext.GNUTranslations(file)._catalog  # type: ignore[attr-defined]
    english = [key if isinstance(key, str) else key[0] for key in entries if key]
    return words_of(english) - words_of([text for key, text in entries.items() if key])


def data_words(office: Office) -> set[str]:
    columns = [(table, column) for table, names in DATA.items() for column in names]
    return words_of(
        [
            str(value)
            for table, column in columns
            for (value,) in office.back_office.query(f"SELECT DISTINCT {column} FROM {table}")
        ]
    )


def test_ten_pages_have_no_english_word(office: Office) -> None:
    order = place_order(office.sandbox, "testkit", low_status="ordered", name="Paula")
    office.back_office.sync()
    patient = office.back_office.value("SELECT user_id FROM orders_order WHERE id = %s", (order,))
    english = english_words() - data_words(office) - {"english"}  # a language has its own name
    assert {"patients", "appointments", "save"} <= english
    paths = (
        *("/today/", "/orders/", f"/orders/{order}/", f"/orders/{order}/cancel/", "/appointments/"),
        *(
            f"/patients/{patient}/",
            "/patients/",
            "/patients/register/",
            "/results/",
            "/exceptions/",
        ),
        *(f"/orders/new/{patient}/", "/preferences/", "/unmatched/"),
    )
    found: dict[str, set[str]] = {}
    # The title of a status is the code of the service.
    with browser() as page:
        log_in(page, office.url, "clinician", start="Buscar")
        for path in paths:
            page.open(office.url + path)
            assert page.run("return document.documentElement.lang") == "es", path
            lines = str(page.run(VISIBLE)).replace(ACCESS_NOTE, "").splitlines()
            if left := {line.strip() for line in lines if words_of([line]) & english}:
                found[path] = left
    assert found == {}


def test_words_of_scripts_are_spanish(office: Office) -> None:
    with browser() as page:
        log_in(page, office.url, "clinician", start="Buscar")
        page.open(f"{office.url}/orders/")
        assert page.run("return gettext('Copied')") != "Copied"
