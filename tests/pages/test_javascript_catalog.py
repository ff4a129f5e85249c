"""The translated words of scripts."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from django.conf import settings
from django.test import Client

from backoffice.pages.javascript_catalog import javascript_catalog_url
from tests.api.rows import staff

SCRIPTS = sorted(Path(settings.BASE_DIR).glob("*/static/**/*.js"))

pytestmark = pytest.mark.django_db


def test_catalog_is_served_to_everybody_and_kept_by_browsers() -> None:
    reader = Client()
    reader.force_login(staff("viewer"))
    for client in (Client(), reader):
        response = client.get(javascript_catalog_url())
        assert response.status_code == 200
        assert response.headers["Content-Type"] == "text/javascript; charset=utf-8"
        assert response.headers["Cache-Control"] == "private, max-age=86400"
        assert "default-src 'none'" in response.headers["Content-Security-Policy"]
        assert b"django.ngettext" in response.content
    assert Client().post("/jsi18n/").status_code == 405


def test_url_names_language_and_contents() -> None:
    assert re.fullmatch(r"/jsi18n/\?language=en&v=[0-9a-f]{12}", javascript_catalog_url())
    for language in ("es", "no-such-language", "<script>"):
        response = Client().get("/jsi18n/", {"language": language})
        assert response.status_code == 200 and b"<script" not in response.content


def test_pages_load_words_before_scripts() -> None:
    page = Client().get("/accounts/login/").content.decode()
    assert page.index('src="/jsi18n/?') < min(map(page.index, ("htmx-2.min", "backoffice/app")))


def test_scripts_translate_whole_literals() -> None:
    """`./run messages` reads no other arguments."""
    assert SCRIPTS
    for path in SCRIPTS:
        for call in re.findall(r"\bn?gettext\(.", path.read_text()):
            assert call.endswith('"'), f"{path.name}: {call}"
