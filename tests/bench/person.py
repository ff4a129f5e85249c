"""Somebody at the pages: logs in by the form, keeps one connection, times whole answers."""

from __future__ import annotations

import http.client
import time
from contextlib import closing
from urllib.parse import urlencode, urlsplit

from tests.web_sign_in import form_token, signed_in_client

WHO = "administrator"


class Line:
    """A kept connection of somebody who is logged in."""

    def __init__(self, url: str) -> None:
        with closing(signed_in_client(url, WHO)) as person:
            cookies = "; ".join(f"{name}={value}" for name, value in person.cookies.items())
            self.token = form_token(person, "/labs/")
        parts = urlsplit(url)
        self.headers = {"Referer": url, "Cookie": cookies, "Host": f"{parts.hostname}:{parts.port}"}
        self.http = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=120)

    def ask(self, path: str, posted: dict[str, str]) -> float:
        """Milliseconds until the whole answer is there."""
        return self.answer(path, posted)[1]

    def answer(self, path: str, posted: dict[str, str]) -> tuple[bytes, float]:
        body = urlencode({**posted, "csrfmiddlewaretoken": self.token}) if posted else None
        form = {"Content-Type": "application/x-www-form-urlencoded"} if posted else {}
        begun = time.perf_counter()
        self.http.request(
            "POST" if posted else "GET", path, body=body, headers={**self.headers, **form}
        )
        answer = self.http.getresponse()
        text = answer.read()
        spent = time.perf_counter() - begun
        assert answer.status in (200, 302), (path, answer.status, text[-500:])
        return text, 1000 * spent

    def __enter__(self) -> Line:
        return self

    def __exit__(self, *_: object) -> None:
        self.http.close()
