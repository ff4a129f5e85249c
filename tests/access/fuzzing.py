"""Hostile requests over a real socket: every route with methods, arguments, queries, forms and
headers that no honest client sends.

The sender is the administrator, a viewer or anonymous. Every request must be answered without a
server error, without internals, and without names for the viewer.
"""

from __future__ import annotations

import json
import random
import re
import socket
import time
from collections import Counter
from dataclasses import dataclass, field
from html.parser import HTMLParser
from typing import Final
from urllib.parse import quote_from_bytes, urlencode, urlsplit

from tests.access.canaries import ABOUT_PEOPLE, FORM_TOKEN, RESULTS
from tests.access.served_data_set import Site

TIMEOUT_SECONDS: Final = 20.0
"""Time limit for a response before the server counts as hanging."""
ADMINISTRATOR: Final = "administrator"
ANONYMOUS: Final = "stranger"
SENDERS: Final = (*(ADMINISTRATOR,) * 6, "viewer", "viewer", ANONYMOUS)
METHODS: Final = (
    *("GET",) * 10, *("POST",) * 6,
    *("HEAD", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "get", "PROPFIND", "Q" * 99),
)  # fmt: skip
"""CONNECT is missing: it is for proxies, and the web server closes the connection itself."""
HOSTILE_VALUES: Final = (
    b"", b"\0", b"a\0b", b"\xff\xfe", b"\xed\xa0\x80", b"%", b"%00", b"%u0041", b"'", b'"', b"\\",
    b"' OR 1=1 --", b"'; DROP TABLE orders_order; --", b"%_%", b"$(id)", b"${jndi:x}", b"{{7*7}}",
    b"<script>alert(1)</script>", b"%s %(x)s {0} {0.__class__}", b"../../../../etc/passwd",
    b"NaN", b"Infinity", b"-Infinity", b"1e400", b"-1", b"0", b"1.5", b"0x10", b"1_000",
    b"9223372036854775808", b"-9223372036854775809", b"1" + b"0" * 30, b"1" * 5_000, b"x" * 6_000,
    b"[" * 3_000, b'{"a":' * 500, b"[]", b"{}", b"null", b"true", b"2024-06-31", b"0000-00-00",
    b"99999-01-01", b"0001-01-01T00:00:00+14:00", b"9999-12-31T23:59:59-14:00", b"2022-01-01",
    b"2022-01-01T00:00:00", b"12:61", b"00000000-0000-0000-0000-000000000000",
    b"{00000000-0000-0000-0000-000000000000}", b"urn:uuid:00000000-0000-0000-0000-000000000000",
    "\u0661\u0662".encode(), "\u202eMade".encode(), "Ma\u00a0de\u2028Up".encode(),
    "\U0001f9ea".encode() * 300, "ﬁ＝1".encode(), b"a\r\nX-Made-Up: 1", b"\t\n ", b"__proto__",
    b"pk", b"-pk", b"user__password__startswith", b"_connector", b"//evil.example", b"/\\evil",
    b"javascript:alert(1)", b"WyJvcmRlcnMub3JkZXIiLCJ4Il0", b"1:1:", b"10:20:10,11", b"+", b"@",
)  # fmt: skip
"""Values known to break naive code, and attacks on other software."""
NAMES: Final = (
    *("limit", "cursor", "after", "before", "page", "size", "sort", "q", "next", "since", "about"),
    *("format", "lang", "version", "status", "bucket", "user_id", "order_id", "lab_id", "from"),
    *("to", "day", "date", "columns", "view", "key", "form_id", "user", "text", "kind", "resource"),
    *("is_superuser", "team_id", "requested_by", "state", "_method", "csrfmiddlewaretoken"),
)
HEADERS: Final = (
    *("Accept", "Accept-Language", "Content-Type", "X-Forwarded-For", "X-Forwarded-Proto"),
    *("X-Forwarded-Host", "Referer", "Origin", "HX-Request", "HX-Target", "HX-Current-URL"),
    *("If-Modified-Since", "If-None-Match", "Range", "X-Request-ID", "X-HTTP-Method-Override"),
    *("Authorization", "Cookie", "Host", "User-Agent"),
)
INTERNALS: Final = re.compile(
    rb"Traceback \(most recent|\bpsycopg\b|django\.db|site-packages|DETAIL:|SQLSTATE"
    rb'|File "/|SECRET_KEY|development-only|whsec_|sk_us_local|SELECT .{1,200} FROM "?\w+_'
)
"""Texts that reveal internals or secrets."""
ENDS_SESSIONS: Final = (
    *("/accounts/logout/", "/accounts/sessions/end/", "/accounts/password/"),
    "/admin/accounts/user/",
)
"""These are not posted to, because the next requests would be anonymous."""
UNAVAILABLE: Final = re.compile(
    r"^(/results/[^/]+/document/|/orders/[^/]+/documents/[^/]+/|/health/status)$"
)
"""Routes that report a missing service or workers, which are not running here: 503 is correct."""
Pairs = list[tuple[str, bytes]]


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    body: bytes
    seconds: float


@dataclass
class FuzzResult:
    """The result of a run."""

    sent: int = 0
    statuses: Counter[int] = field(default_factory=Counter)
    seconds: list[float] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)


class Fields(HTMLParser):
    """The fields of the forms of a page, as they would be sent."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.pairs: Pairs = []
        self.feed(page)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        values = dict(attributes)
        if tag in ("input", "select", "textarea", "button") and (name := values.get("name")):
            self.pairs.append((name, (values.get("value") or "").encode()))
        elif tag == "option" and self.pairs:
            self.pairs[-1] = (self.pairs[-1][0], (values.get("value") or "").encode())


class Fuzzer:
    """A fuzzer with a seed: the same seed sends the same requests to the same data set."""

    def __init__(self, site: Site, seed: int) -> None:
        self.site = site
        self.rng = random.Random(seed)
        parts = urlsplit(site.url)
        self.address = (parts.hostname or "", parts.port or 80)
        self.forms: dict[str, Pairs] = {}
        self.found = FuzzResult()

    def run(self, seconds: float) -> FuzzResult:
        """Open every page once for the fields of its forms, then send hostile requests for this
        time."""
        for path in self.site.paths:
            page = self._send_and_check(ADMINISTRATOR, "GET", path, b"", {})
            self.forms[path] = Fields(page.body.decode(errors="replace")).pairs
        ends = time.monotonic() + seconds
        while time.monotonic() < ends:
            self._send_hostile_request()
        for who in (ADMINISTRATOR, "viewer"):
            home = self._send_and_check(who, "GET", "/today/", b"", {})
            if home.status != 200:
                self.found.problems.append(f"{who} is no longer signed in: {home.status}")
        return self.found

    def _send_hostile_request(self) -> None:
        rng = self.rng
        real = rng.choice(self.site.paths)
        method = rng.choice(METHODS)
        path = real.partition("?")[0] if rng.random() < 0.8 else self._damaged_path(real)
        if path.startswith(ENDS_SESSIONS) and method == "POST":
            return
        query = ""
        if rng.random() < 0.7:
            query = "?" + "&".join(self._query_pair(real) for _ in range(rng.choice((1, 1, 2, 5))))
        body, headers = b"", {}
        if method not in ("GET", "HEAD"):
            body, headers["Content-Type"] = self._body(real)
        if rng.random() < 0.95:
            headers["X-CSRFToken"] = FORM_TOKEN
        for _ in range(rng.choice((0, 0, 1, 3))):
            headers[rng.choice(HEADERS)] = self._hostile_value()[:4000].decode("latin-1")
        self._send_and_check(rng.choice(SENDERS), method, path + query, body, headers)

    def _damaged_path(self, path: str) -> str:
        """Return the path with one of its parts replaced, doubled or removed."""
        parts = path.partition("?")[0].split("/")
        at = self.rng.randrange(1, len(parts))
        kind = self.rng.randrange(4)
        if kind == 0:
            parts[at:at] = parts[at:]
        elif kind == 1:
            del parts[at]
        else:
            parts[at] = quote_from_bytes(self._hostile_value()[:2000], safe="")
        return "/" + "/".join(parts).lstrip("/") if self.rng.random() < 0.9 else "/".join(parts)

    def _hostile_value(self) -> bytes:
        if self.rng.random() < 0.1:
            return self.rng.randbytes(self.rng.randrange(1, 60))
        return self.rng.choice(HOSTILE_VALUES)

    def _name(self, path: str) -> str:
        fields = self.forms[path]
        if fields and self.rng.random() < 0.7:
            return self.rng.choice(fields)[0]
        return self.rng.choice(NAMES)

    def _form_pairs(self, path: str) -> Pairs:
        """Return the form fields of the page with some hostile values, or arbitrary pairs."""
        if self.rng.random() < 0.5:
            count = self.rng.choice((0, 1, 3, 8, 30))
            return [(self._name(path), self._hostile_value()) for _ in range(count)]
        pairs = list(self.forms[path])
        for _ in range(min(len(pairs), self.rng.choice((0, 1, 1, 2, 5)))):
            at = self.rng.randrange(len(pairs))
            pairs[at] = (pairs[at][0], self._hostile_value())
        return pairs

    def _query_pair(self, path: str) -> str:
        name = quote_from_bytes(self._name(path).encode())
        return f"{name}={quote_from_bytes(self._hostile_value())}"

    def _body(self, path: str) -> tuple[bytes, str]:
        rng = self.rng
        pairs = self._form_pairs(path)
        kind = rng.randrange(8)
        if kind == 0:
            text = {name: value.decode("latin-1") for name, value in pairs}
            return json.dumps(text).encode(), "application/json"
        if kind == 1:
            return self._hostile_value(), rng.choice(
                ("application/json", "text/plain", "image/png")
            )
        if kind == 2:
            part_header = b"--made-up\r\nContent-Disposition: form-data; name="
            parts = (
                part_header + b'"%s"%s\r\n\r\n%s\r\n' % (
                    name.encode(),
                    rng.choice((b"", b'; filename="a.pdf"', b'; filename="../a\0.pdf"')),
                    value,
                )
                for name, value in pairs
            )  # fmt: skip
            end = rng.choice((b"--made-up--\r\n", b"--made-up", b""))
            return b"".join(parts) + end, "multipart/form-data; boundary=made-up"
        return urlencode(pairs).encode(), "application/x-www-form-urlencoded"

    def _send_and_check(
        self, who: str, method: str, path: str, body: bytes, headers: dict[str, str]
    ) -> Answer:
        raw_request = self._raw_request(who, method, path, body, headers)
        answer = self._receive(raw_request)
        found = self.found
        found.sent += 1
        found.statuses[answer.status] += 1
        found.seconds.append(answer.seconds)
        if problem := self._problem(who, path, answer):
            found.problems.append(f"{problem}: {who} {raw_request[:600]!r} → {answer.body[:200]!r}")
        return answer

    def _problem(self, who: str, path: str, answer: Answer) -> str:
        if answer.status == 0:
            return "no answer"
        if answer.status >= 500 and not (
            answer.status == 503 and UNAVAILABLE.match(path.split("?")[0])
        ):
            return f"a server error, {answer.status}"
        if inside := INTERNALS.search(answer.body):
            return f"reveals internals, {inside[0]!r}"
        if who != ADMINISTRATOR:
            text = answer.body.decode(errors="replace")
            if leak := ABOUT_PEOPLE.search(text) or RESULTS.search(text):
                return f"leaks {leak[0]}"
        return ""

    def _raw_request(
        self, who: str, method: str, path: str, body: bytes, headers: dict[str, str]
    ) -> bytes:
        all_headers = {"Host": "localhost", **headers}
        if who in self.site.sessions:
            all_headers["Cookie"] = f"{self.site.cookie}={self.site.sessions[who]}"
        lines = [f"{method} {path} HTTP/1.1", "Connection: close"]
        lines += [f"{name}: {_one_line(value)}" for name, value in all_headers.items()]
        lines.append(f"Content-Length: {len(body)}")
        return "\r\n".join(lines).encode("latin-1", "replace") + b"\r\n\r\n" + body

    def _receive(self, raw_request: bytes) -> Answer:
        started = time.perf_counter()
        received = bytearray()
        try:
            with socket.create_connection(self.address, TIMEOUT_SECONDS) as connection:
                connection.settimeout(TIMEOUT_SECONDS)
                connection.sendall(raw_request)
                while part := connection.recv(65536):
                    received += part
        except OSError:
            pass  # the bytes received so far show whether there was an answer
        head, _, body = bytes(received).partition(b"\r\n\r\n")
        status = int(head[9:12]) if head[:5] == b"HTTP/" and head[9:12].isdigit() else 0
        return Answer(status, body, time.perf_counter() - started)


def _one_line(value: str) -> str:
    """Return a valid header value. The server itself refuses invalid ones."""
    return re.sub(r"[\0-\x1f\x7f]", " ", value).strip()
