"""What is no password: words anybody would try here, and what was published elsewhere."""

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

MADE_UP = [f"made up and published {n}" for n in range(200)]


def digest(password: str) -> str:
    return hashlib.sha1(password.encode(), usedforsecurity=False).hexdigest().upper()


@pytest.fixture
def published(tmp_path: Path) -> Path:
    file = tmp_path / "published.txt"
    lines = sorted(f"{digest(one)}:{n * 37}" for n, one in enumerate(MADE_UP))
    file.write_text("\n".join(lines) + "\n")
    return file


@pytest.mark.parametrize(
    "password",
    ["my-Back-Office-2026", "backoffice backoffice", "Hilltop 12345678", "at H.i.l.l.t.o.p now 7",
     "office.westwood 1", "desk_of_westwood"],
)  # fmt: skip
def test_words_anybody_would_try_are_refused(settings: Settings, password: str) -> None:
    settings.ALLOWED_HOSTS = ["desk.westwood.example", "127.0.0.1"]
    settings.PASSWORD_WORDS = ["Hilltop", "NW"]
    with pytest.raises(ValidationError, match="anybody would try here"):
        validate_password(password)


def test_other_words_are_not(settings: Settings) -> None:
    settings.ALLOWED_HOSTS = ["desk.westwood.example", "10.0.0.17"]
    settings.SITE_URL, settings.PASSWORD_WORDS = "https://desk.westwood.example", ["NW"]
    validate_password("an example of snow 10 0 0 17")
    assert forbidden_words() == ["backoffice", "desk", "westwood"]


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("count", [1, 2, 3, 200])
def test_every_line_is_found_and_nothing_else(tmp_path: Path, end: str, count: int) -> None:
    file = tmp_path / "published.txt"
    there, rest = MADE_UP[:count], [f"another {n}" for n in range(200)]
    file.write_text("".join(f"{one}:7{end}" for one in sorted(map(digest, there))), newline="")
    assert all(is_breached(one, file) for one in there)
    assert not any(is_breached(one, file) for one in rest)
    file.write_text(end.join(sorted(digest(one).lower() for one in there)), newline="")
    assert all(is_breached(one, file) for one in there)


@pytest.mark.django_db
def test_what_was_published_is_refused(client: Client, settings: Settings, published: Path) -> None:
    settings.PASSWORD_BREACHED_FILE = published
    person()
    log_in(client)
    form = {"old_password": PASSWORD, "new_password1": MADE_UP[7], "new_password2": MADE_UP[7]}
    page = client.post("/accounts/password/", form)
    assert "was taken from somewhere else" in page.content.decode()
    new = "nobody published this"
    form |= {"new_password1": new, "new_password2": new}
    published.rename(published.with_suffix(".away"))
    assert "cannot be read" in client.post("/accounts/password/", form).content.decode()
    published.with_suffix(".away").rename(published)
    assert client.post("/accounts/password/", form).status_code == 302


def test_a_file_of_something_else_is_refused_at_the_start(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, published: Path
) -> None:
    wrong = tmp_path / "wrong.txt"
    wrong.write_text("password\n123456\n")
    for said in (str(wrong), str(tmp_path), str(tmp_path / "nowhere")):
        with pytest.raises(ImproperlyConfigured, match="PASSWORD_BREACHED_FILE"):
            read(monkeypatch, **deployed(PASSWORD_BREACHED_FILE=said))
    settings = read(
        monkeypatch, **deployed(PASSWORD_BREACHED_FILE=str(published), PASSWORD_WORDS="a word, b")
    )
    assert settings["PASSWORD_BREACHED_FILE"] == published
    assert settings["PASSWORD_WORDS"] == ["a word", "b"]
