"""A form of an expired session comes back with its values and can be sent again."""

from __future__ import annotations

import re
from html import unescape

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client

from tests.accounts.people import log_in, person

pytestmark = pytest.mark.django_db
SAME_ORIGIN = {"origin": "http://testserver", "sec-fetch-site": "same-origin"}
FORM = {
    "theme": "dark",
    "density": "compact",
    "language": "en",
    "day_first": "False",
    "hours_24": "True",
    "time_zone": "Asia/Tokyo <b>\n\"'",
}


def fields(page: str) -> dict[str, str]:
    found = re.findall(r'<textarea name="([^"]+)" hidden>\n(.*?)</textarea>', page, re.S)
    return {name: unescape(value) for name, value in found}


def token(page: str) -> str:
    main = page.split("<main", 1)[1]
    found = re.search(r'name="csrfmiddlewaretoken" value="([^"]+)"', main)
    assert found
    return found[1]


def test_expired_form_returns_values_and_can_be_sent_again() -> None:
    person()
    client = Client(enforce_csrf_checks=True)
    first = client.post("/preferences/?x=1", {**FORM, "password": "hunter2"}, headers=SAME_ORIGIN)
    page = first.content.decode()
    assert first.status_code == 403 and "Nothing was sent" in page
    assert fields(page) == FORM and "hunter2" not in page
    assert 'action="/preferences/?x=1"' in page
    # After a sign-in in another tab the page still has an old token.
    log_in(client, headers={"x-csrftoken": token(page)})
    again = client.post(
        "/preferences/", {**FORM, "csrfmiddlewaretoken": token(page)}, headers=SAME_ORIGIN
    )
    page = again.content.decode()
    assert again.status_code == 403 and "Send it now" in page and fields(page) == FORM
    sent = {**FORM, "time_zone": "Asia/Tokyo", "csrfmiddlewaretoken": token(page)}
    assert client.post("/preferences/", sent, headers=SAME_ORIGIN).status_code == 302


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"origin": "https://evil.example"},
        {"origin": "null"},
        {**SAME_ORIGIN, "sec-fetch-site": "none"},
    ],
)
def test_form_of_another_site_is_not_offered_again(headers: dict[str, str]) -> None:
    client = Client(enforce_csrf_checks=True)
    page = client.post("/preferences/", FORM, headers=headers).content.decode()
    assert "Nothing was sent" in page and fields(page) == {} and "Tokyo" not in page


def test_expired_form_reports_lost_files() -> None:
    client = Client(enforce_csrf_checks=True)
    upload = SimpleUploadedFile("report.pdf", b"%PDF")
    page = client.post("/reports/upload/", {"lab": "1", "file": upload}, headers=SAME_ORIGIN)
    assert "Files are not" in page.content.decode()


def test_expired_log_in_form_redirects_to_new_one() -> None:
    client = Client(enforce_csrf_checks=True)
    answer = client.post(
        "/accounts/login/", {"username": "ada", "next": "/orders/"}, headers=SAME_ORIGIN
    )
    assert answer["Location"] == "/accounts/login/?next=/orders/"
