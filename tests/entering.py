"""Staff at the door: logged in by the form, without a browser."""

from __future__ import annotations

import re
from typing import Final

import httpx

_FORM_TOKEN: Final = re.compile(r'name="csrfmiddlewaretoken" value="([^"]+)"')


def logged_in(url: str, name: str) -> httpx.Client:
    """Asks for pages as one of the demo's staff; what leads elsewhere is not followed."""
    from backoffice.management.commands.demo_users import PASSWORD

    person = httpx.Client(base_url=url, timeout=60)
    given = {"username": name, "password": PASSWORD}
    token = form_token(person, "/accounts/login/")
    answer = person.post(
        "/accounts/login/",
        data={**given, "csrfmiddlewaretoken": token},
        headers={"referer": url},
    )
    assert answer.status_code == 302, answer.status_code
    return person


def form_token(person: httpx.Client, path: str) -> str:
    page = person.get(path).text
    found = _FORM_TOKEN.search(page)
    assert found is not None, page[-2000:]
    return found[1]
