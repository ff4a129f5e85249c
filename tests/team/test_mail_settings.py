"""The mail server is told by one address; nonsense is refused, and nothing of it is quoted."""

from __future__ import annotations

from typing import Any

import pytest
from django.core.exceptions import ImproperlyConfigured

from tests.test_settings import deployed, read

WHOLE = {"EMAIL_FROM": "office@clinic.invalid", "SITE_URL": "https://office.invalid/"}


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("smtp://mail.invalid", (25, False, False)),
        ("smtp+tls://mail.invalid", (587, True, False)),
        ("smtps://mail.invalid", (465, False, True)),
        ("smtp+tls://office:p%40ss@mail.invalid:2525", (2525, True, False)),
    ],
)
def test_an_address_says_where_and_how(
    url: str, told: tuple[Any, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    found = read(monkeypatch, **deployed(EMAIL_URL=url, **WHOLE))
    assert found["EMAIL_HOST"] == "mail.invalid"
    assert tuple(found[f"EMAIL_{name}"] for name in ("PORT", "USE_TLS", "USE_SSL")) == told
    assert found["EMAIL_HOST_PASSWORD"] == ("p@ss" if "@mail" in url else "")
    assert found["SITE_URL"] == "https://office.invalid"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("EMAIL_URL", "imap://canary@mail.invalid"),
        ("EMAIL_URL", "canary"),
        ("SITE_URL", "office.invalid"),
        ("SITE_URL", ""),
        ("EMAIL_FROM", ""),
    ],
)
def test_nonsense_is_refused(name: str, value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    given = {"EMAIL_URL": "smtp://mail.invalid", **WHOLE, name: value}
    with pytest.raises(ImproperlyConfigured, match=name) as refused:
        read(monkeypatch, **deployed(**given))
    assert "canary" not in str(refused.value)


def test_without_it_nothing_is_mailed(monkeypatch: pytest.MonkeyPatch) -> None:
    assert read(monkeypatch, **deployed())["EMAIL_URL"] == ""
