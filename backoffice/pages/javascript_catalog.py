"""The translated words of our scripts, in Django's format: `gettext`, `ngettext`, `interpolate`.

`base.html` loads them before the scripts. The URL names the language and the contents, so a browser
may keep the response for a day.
"""

from __future__ import annotations

import hashlib
from functools import cache
from typing import Final
from urllib.parse import urlencode

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.utils import translation
from django.views.decorators.http import require_safe
from django.views.i18n import JavaScriptCatalog

from backoffice.accounts.access import public
from backoffice.core.urls import page_url

PACKAGES: Final = ("backoffice",)
"""Apps with a folder `locale`, besides `LOCALE_PATHS`. Not Django's admin, whose pages load its
own."""
CACHE_SECONDS: Final = 86_400


@public
@require_safe
def javascript_catalog(request: HttpRequest) -> HttpResponse:
    """Return the words in the language of the URL, or in that of the reader."""
    asked = request.GET.get("language", "")
    language = asked if asked in dict(settings.LANGUAGES) else _current_language()
    return HttpResponse(
        _contents(language),
        content_type="text/javascript; charset=utf-8",
        headers={"Cache-Control": f"private, max-age={CACHE_SECONDS}"},
    )


def javascript_catalog_url() -> str:
    """Return the URL of the words in the reader's language."""
    return _url(_current_language())


@cache
def _url(language: str) -> str:
    digest = hashlib.sha256(_contents(language)).hexdigest()[:12]
    return f"{page_url('javascript-catalog')}?{urlencode({'language': language, 'v': digest})}"


def _current_language() -> str:
    return translation.get_language() or settings.LANGUAGE_CODE


@cache
def _contents(language: str) -> bytes:
    request = HttpRequest()
    request.method = "GET"
    with translation.override(language):
        return bytes(JavaScriptCatalog(packages=PACKAGES).get(request).content)
