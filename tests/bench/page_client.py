"""A signed-in HTTP client that keeps one connection and times whole responses."""

from __future__ import annotations

import http.client
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from urllib.parse import urlencode, urlsplit

from tests.sync.back_office import BackOffice
from tests.web_sign_in import form_token, signed_in_client
from tests.webhooks.sending import receiving

USERNAME = "administrator"


class PageClient:
    """A persistent connection of a signed-in user.

    `path_with_form` is a page with a form, for its token.
    """

    def __init__(self, url: str, path_with_form: str = "/labs/") -> None:
        with closing(signed_in_client(url, USERNAME)) as person:
            cookies = "; ".join(f"{name}={value}" for name, value in person.cookies.items())
            self.token = form_token(person, path_with_form)
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


@contextmanager
def served_client(
    log: Path,
    database_url: str,
    application: str = "backoffice.wsgi:web",
    path_with_form: str = "/labs/",
) -> Iterator[PageClient]:
    """Yield a client of a web server that is started for it."""
    back_office = BackOffice(database_url, "http://127.0.0.1:9", log)
    with (
        receiving(back_office, application, workers=2) as url,
        PageClient(url, path_with_form) as client,
    ):
        yield client
