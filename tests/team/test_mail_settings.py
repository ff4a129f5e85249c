"""The mail server is configured by one URL; invalid values are refused without quoting them."""

from __future__ import annotations

from typing import Any

import pytest
from django.core.exceptions import ImproperlyConfigured

from tests.test_settings import deployed, read

COMPLETE = {"EMAIL_FROM": "office@clinic.invalid", "SITE_URL": "https://office.invalid/"}


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("smtp://mail.invalid", (25, False, False)),
        ("smtp+tls://mail.invalid", (587, True, False)),
        ("smtps://mail.invalid", (465, False, True)),
        ("smtp+tls://office:p%40ss@mail.invalid:2525", (2525, True, False)),
    ],
)
def test_email_url_sets_server_and_encryption(
    url: str, expected: tuple[Any, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    found = read(monkeypatch, **deployed(EMAIL_URL=url, **COMPLETE))
    assert found["EMAIL_HOST"] == "mail.invalid"
    assert tuple(found[f"EMAIL_{name}"] for name in ("PORT", "USE_TLS", "USE_SSL")) == expected
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
def test_invalid_value_is_refused(name: str, value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    variables = {"EMAIL_URL": "smtp://mail.invalid", **COMPLETE, name: value}
    with pytest.raises(ImproperlyConfigured, match=name) as error:
        read(monkeypatch, **deployed(**variables))
    assert "canary" not in str(error.value)


def test_mail_is_off_without_email_url(monkeypatch: pytest.MonkeyPatch) -> None:
    assert read(monkeypatch, **deployed())["EMAIL_URL"] == ""
