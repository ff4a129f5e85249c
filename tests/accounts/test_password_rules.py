"""Passwords that are rejected: obvious words of this site, and breached passwords."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
from django.contrib.auth.password_validation import validate_password
from django.core.exceptions import ImproperlyConfigured, ValidationError
from django.test import Client
from pytest_django import Settings

from backoffice.accounts.password_rules import forbidden_words, is_breached
from tests.accounts.people import PASSWORD, log_in, person
from tests.test_settings import deployed, read

BREACHED_PASSWORDS = [f"made up and published {n}" for n in range(200)]


def digest(password: str) -> str:
    return hashlib.sha1(password.encode(), usedforsecurity=False).hexdigest().upper()


@pytest.fixture
def breached_file(tmp_path: Path) -> Path:
    file = tmp_path / "published.txt"
    lines = sorted(f"{digest(one)}:{n * 37}" for n, one in enumerate(BREACHED_PASSWORDS))
    file.write_text("\n".join(lines) + "\n")
    return file


@pytest.mark.parametrize(
    "password",
    ["my-Back-Office-2026", "backoffice backoffice", "Hilltop 12345678", "at H.i.l.l.t.o.p now 7",
     "office.westwood 1", "desk_of_westwood"],
)  # fmt: skip
def test_obvious_site_words_are_refused(settings: Settings, password: str) -> None:
    settings.ALLOWED_HOSTS = ["desk.westwood.example", "127.0.0.1"]
    settings.PASSWORD_WORDS = ["Hilltop", "NW"]
    with pytest.raises(ValidationError, match="easy to guess here"):
        validate_password(password)


def test_ordinary_words_are_accepted(settings: Settings) -> None:
    settings.ALLOWED_HOSTS = ["desk.westwood.example", "10.0.0.17"]
    settings.SITE_URL, settings.PASSWORD_WORDS = "https://desk.westwood.example", ["NW"]
    validate_password("an example of snow 10 0 0 17")
    assert forbidden_words() == ["backoffice", "desk", "westwood"]


@pytest.mark.parametrize("line_ending", ["\n", "\r\n"])
@pytest.mark.parametrize("count", [1, 2, 3, 200])
def test_lookup_finds_every_breached_password_and_no_other(
    tmp_path: Path, line_ending: str, count: int
) -> None:
    file = tmp_path / "published.txt"
    breached, others = BREACHED_PASSWORDS[:count], [f"another {n}" for n in range(200)]
    file.write_text(
        "".join(f"{one}:7{line_ending}" for one in sorted(map(digest, breached))), newline=""
    )
    assert all(is_breached(one, file) for one in breached)
    assert not any(is_breached(one, file) for one in others)
    file.write_text(line_ending.join(sorted(digest(one).lower() for one in breached)), newline="")
    assert all(is_breached(one, file) for one in breached)


@pytest.mark.django_db
def test_breached_password_is_refused(
    client: Client, settings: Settings, breached_file: Path
) -> None:
    settings.PASSWORD_BREACHED_FILE = breached_file
    person()
    log_in(client)
    form = {
        "old_password": PASSWORD,
        "new_password1": BREACHED_PASSWORDS[7],
        "new_password2": BREACHED_PASSWORDS[7],
    }
    page = client.post("/accounts/password/", form)
    assert "appeared in a data leak" in page.content.decode()
    new = "nobody published this"
    form |= {"new_password1": new, "new_password2": new}
    breached_file.rename(breached_file.with_suffix(".away"))
    assert "leaked ones is unavailable" in client.post("/accounts/password/", form).content.decode()
    breached_file.with_suffix(".away").rename(breached_file)
    assert client.post("/accounts/password/", form).status_code == 302


def test_invalid_breach_file_is_refused_at_startup(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, breached_file: Path
) -> None:
    wrong = tmp_path / "wrong.txt"
    wrong.write_text("password\n123456\n")
    for path in (str(wrong), str(tmp_path), str(tmp_path / "nowhere")):
        with pytest.raises(ImproperlyConfigured, match="PASSWORD_BREACHED_FILE"):
            read(monkeypatch, **deployed(PASSWORD_BREACHED_FILE=path))
    settings = read(
        monkeypatch,
        **deployed(PASSWORD_BREACHED_FILE=str(breached_file), PASSWORD_WORDS="a word, b"),
    )
    assert settings["PASSWORD_BREACHED_FILE"] == breached_file
    assert settings["PASSWORD_WORDS"] == ["a word", "b"]
