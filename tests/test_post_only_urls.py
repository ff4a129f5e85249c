"""URLs that only accept POST, opened with GET."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client

from tests.api.rows import staff, uid

pytestmark = pytest.mark.django_db
BROWSER = {"accept": "text/html,application/xhtml+xml,*/*;q=0.8", "sec-fetch-dest": "document"}
CALL_URL = f"/results/{uid('order', 1)}/call/"


@pytest.fixture
def clinician(client: Client) -> Client:
    client.force_login(staff("clinician"))
    return client


@pytest.mark.parametrize(
    ("address", "back_url"),
    [
        (CALL_URL, f"/results/{uid('order', 1)}/"),
        ("/results/signatures/5/undo/", "/results/"),
        ("/orders/columns/", "/orders/"),
        ("/accounts/logout/", "/accounts/"),
        ("/team/note/", "/"),
        ("/theme/", "/"),
    ],
)
def test_browser_gets_page_with_link_back(clinician: Client, address: str, back_url: str) -> None:
    answer = clinician.get(address, headers=BROWSER)
    assert answer.status_code == 405 and "POST" in answer["Allow"]
    page = answer.content.decode()
    assert "Nothing to show at this address" in page and 'aria-label="Main menu"' in page
    assert f'<a href="{back_url}">' in page


def test_anonymous_browser_gets_page_without_navigation(client: Client) -> None:
    answer = client.get("/theme/", headers=BROWSER)
    assert answer.status_code == 405 and answer["Allow"] == "POST"
    page = answer.content.decode()
    assert "Nothing to show at this address" in page and 'aria-label="Main menu"' not in page


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"accept": "*/*"},
        {"accept": "application/json"},
        {**BROWSER, "hx-request": "true"},
        {**BROWSER, "sec-fetch-dest": "empty"},
    ],
)
def test_programs_and_scripts_get_an_empty_405(clinician: Client, headers: dict[str, Any]) -> None:
    answer = clinician.get(CALL_URL, headers=headers)
    assert (answer.status_code, answer.content, answer["Allow"]) == (405, b"", "POST")
