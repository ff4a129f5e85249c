"""Preferences belong to each person and apply from the next page on."""

from __future__ import annotations

import re

import pytest
from django.test import Client
from pytest_django import Settings

from backoffice.accounts.models import User
from backoffice.pages.messages import Storage
from tests.api.rows import staff

pytestmark = pytest.mark.django_db
FORM = {
    "theme": "dark",
    "density": "compact",
    "language": "en",
    "day_first": "True",
    "hours_24": "True",
    "time_zone": "america/new york",
}


def test_preferences_are_stored_and_applied(client: Client) -> None:
    user = staff("viewer")
    client.force_login(user)
    answer = client.post("/preferences/", FORM)
    assert answer["Location"] == "/preferences/"
    user = User.objects.get(pk=user.pk)
    assert (user.theme, user.density) == ("dark", "compact")
    assert (user.single_keys, user.time_zone) == (False, "America/New_York")
    assert user.day_first and user.hours_24
    page = client.get("/preferences/").content.decode()
    for mark in ('data-theme="dark"', 'data-density="compact"', 'data-keys="off"', "data-hours24"):
        assert mark in page
    printed = re.search(r"Printed by [^<]*", page)
    assert printed and re.search(r", \d{1,2} [A-Z]\w\w 20\d\d, \d\d:\d\d E", printed[0])
    client.post("/accounts/logout/")
    assert 'data-theme="dark"' in client.get("/accounts/login/").content.decode()


def test_language_is_of_the_person_and_not_of_the_api(client: Client) -> None:
    user = staff("viewer")
    client.force_login(user)
    client.post("/preferences/", {**FORM, "language": "es"})
    page = client.get("/preferences/").content.decode()
    assert '<html lang="es"' in page and "<span>solo lectura</span>" in page
    assert '<html lang="en"' in Client().get("/accounts/login/").content.decode()
    assert client.post("/preferences/", {**FORM, "language": "xx"}).status_code == 400
    assert User.objects.get(pk=user.pk).language == "es"


def test_theme_of_top_bar_is_stored_for_person(client: Client) -> None:
    user = staff("viewer")
    client.force_login(user)
    client.post("/theme/", {"theme": "dark"})
    assert User.objects.get(pk=user.pk).theme == "dark"
    client.cookies.pop("theme")
    assert 'data-theme="dark"' in client.get("/preferences/").content.decode()


def test_cookies_are_limited_to_this_host(
    client: Client, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.HTTPS_ONLY = settings.SESSION_COOKIE_SECURE = True
    settings.THEME_COOKIE_NAME = "__Host-theme"
    monkeypatch.setattr(Storage.storage_classes[0], "cookie_name", "__Host-messages")
    client.force_login(staff("viewer"))
    answer = client.post("/preferences/", FORM, secure=True)
    for name in ("__Host-theme", "__Host-messages"):
        cookie = answer.cookies[name]
        assert cookie["secure"] and cookie["httponly"] and cookie["path"] == "/", name
        assert not cookie["domain"], name
    assert "Preferences saved" in client.get("/preferences/", secure=True).content.decode()
    client.logout()
    client.cookies["__Host-theme"] = "dark"
    assert 'data-theme="dark"' in client.get("/accounts/login/", secure=True).content.decode()


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("time_zone", "Nowhere/Town", "There is no time zone with this name"),
        ("theme", "pink", "Select a valid choice"),
        ("density", "", "This field is required"),
    ],
)
def test_invalid_preference_is_refused_and_input_kept(
    client: Client, field: str, value: str, message: str
) -> None:
    user = staff("viewer")
    client.force_login(user)
    answer = client.post("/preferences/", {**FORM, "time_zone": "Asia/Tokyo", field: value})
    assert answer.status_code == 400
    assert message in answer.content.decode()
    if field != "time_zone":
        assert "Asia/Tokyo" in answer.content.decode()
    stored = User.objects.get(pk=user.pk)
    assert (stored.theme, stored.density, stored.time_zone) == ("", "default", user.time_zone)


def test_preferences_require_sign_in(client: Client) -> None:
    assert client.get("/preferences/").status_code == 302
    client.force_login(staff("auditor"))
    assert client.get("/preferences/").status_code == 200
