"""A signed-in HTTP client that keeps one connection and times whole responses."""

from __future__ import annotations

import http.client
import time
from contextlib import closing
from urllib.parse import urlencode, urlsplit

from tests.web_sign_in import form_token, signed_in_client

USERNAME = "administrator"


class PageClient:
    """A persistent connection of a signed-in user."""

    def __init__(self, url: str) -> None:
        with closing(signed_in_client(url, USERNAME)) as person:
            cookies = "; ".join(f"{name}={value}" for name, value in person.cookies.items())
            self.token = form_token(person, "/labs/")
        parts = urlsplit(url)
        self.headers = {"Referer": url, "Cookie": cookies, "Host": f"{parts.hostname}:{parts.port}"}
        self.http = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=120)

    def time_page(self, path: str, posted: dict[str, str]) -> float:
        """Return the milliseconds until the whole response has arrived."""
        return self.fetch(path, posted)[1]

    def fetch(self, path: str, posted: dict[str, str]) -> tuple[bytes, float]:
        body = urlencode({**posted, "csrfmiddlewaretoken": self.token}) if posted else None
        form = {"Content-Type": "application/x-www-form-urlencoded"} if posted else {}
        started_at = time.perf_counter()
        self.http.request(
            "POST" if posted else "GET", path, body=body, headers={**self.headers, **form}
        )
        response = self.http.getresponse()
        text = response.read()
        seconds = time.perf_counter() - started_at
        assert response.status in (200, 302), (path, response.status, text[-500:])
        return text, 1000 * seconds

    def __enter__(self) -> PageClient:
        return self

    def __exit__(self, *_: object) -> None:
        self.http.close()
