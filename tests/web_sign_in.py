"""Sign in as staff with the form, without a browser."""

from __future__ import annotations

import re
from typing import Final

import httpx

_FORM_TOKEN: Final = re.compile(r'name="csrfmiddlewaretoken" value="([^"]+)"')


def signed_in_client(url: str, name: str) -> httpx.Client:
    """Return a client that is signed in as one of the demo's staff.

    It does not follow redirects.
    """
    from backoffice.management.commands.demo_users import PASSWORD

    client = httpx.Client(base_url=url, timeout=60)
    credentials = {"username": name, "password": PASSWORD}
    token = form_token(client, "/accounts/login/")
    answer = client.post(
        "/accounts/login/",
        data={**credentials, "csrfmiddlewaretoken": token},
        headers={"referer": url},
    )
    assert answer.status_code == 302, answer.status_code
    return client


def form_token(client: httpx.Client, path: str) -> str:
    page = client.get(path).text
    found = _FORM_TOKEN.search(page)
    assert found is not None, page[-2000:]
    return found[1]
