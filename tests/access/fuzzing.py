"""Hostile requests over a real socket: every route, with methods, arguments, queries, forms and
headers that nobody sends who means well.

Whoever sends them is the administrator, a viewer or nobody in particular. Every request must be
answered, with no error of ours, nothing of our insides, and no name for the viewer.
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
from tests.access.served import Site

SECONDS: Final = 20.0
"""How long an answer may take before the server counts as hanging."""
ADMINISTRATOR: Final = "administrator"
STRANGER: Final = "stranger"
WHO: Final = (*(ADMINISTRATOR,) * 6, "viewer", "viewer", STRANGER)
METHODS: Final = (
    *("GET",) * 10, *("POST",) * 6,
    *("HEAD", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "get", "PROPFIND", "Q" * 99),
)  # fmt: skip
"""Without CONNECT, which is for proxies: the web server hangs up by itself."""
POISON: Final = (
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
"""Values known to break naive code, and attacks on others."""
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
INSIDES: Final = re.compile(
    rb"Traceback \(most recent|\bpsycopg\b|django\.db|site-packages|DETAIL:|SQLSTATE"
    rb'|File "/|SECRET_KEY|development-only|whsec_|sk_us_local|SELECT .{1,200} FROM "?\w+_'
)
"""What tells somebody how we are made, or is a secret of ours."""
ENDS_SESSIONS: Final = (
    *("/accounts/logout/", "/accounts/sessions/end/", "/accounts/password/"),
    "/admin/accounts/user/",
)
"""Not posted to: the next requests would come from nobody in particular."""
AWAY: Final = re.compile(
    r"^(/results/[^/]+/document/|/orders/[^/]+/documents/[^/]+/|/health/status)$"
)
"""Say that something is not there, as here the service and the workers: 503 is right."""
Pairs = list[tuple[str, bytes]]


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    body: bytes
    seconds: float


@dataclass
class Found:
    """What came of it."""

    sent: int = 0
    statuses: Counter[int] = field(default_factory=Counter)
    seconds: list[float] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)


class Fields(HTMLParser):
    """The fields of the forms of a page, as they would be sent."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.pairs: Pairs = []
        self.feed(page)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        given = dict(attributes)
        if tag in ("input", "select", "textarea", "button") and (name := given.get("name")):
            self.pairs.append((name, (given.get("value") or "").encode()))
        elif tag == "option" and self.pairs:
            self.pairs[-1] = (self.pairs[-1][0], (given.get("value") or "").encode())


class Fuzzer:
    """Made of a seed: the same seed sends the same requests to the same world."""

    def __init__(self, site: Site, seed: int) -> None:
        self.site = site
        self.chance = random.Random(seed)
        parts = urlsplit(site.url)
        self.place = (parts.hostname or "", parts.port or 80)
        self.forms: dict[str, Pairs] = {}
        self.found = Found()

    def run(self, seconds: float) -> Found:
        """Look at every page once, for the fields of its forms; then be hostile so long."""
        for path in self.site.paths:
            page = self._judged(ADMINISTRATOR, "GET", path, b"", {})
            self.forms[path] = Fields(page.body.decode(errors="replace")).pairs
        ends = time.monotonic() + seconds
        while time.monotonic() < ends:
            self._one()
        for who in (ADMINISTRATOR, "viewer"):
            home = self._judged(who, "GET", "/today/", b"", {})
            if home.status != 200:
                self.found.wrong.append(f"{who} is logged in no longer: {home.status}")
        return self.found

    def _one(self) -> None:
        chance = self.chance
        real = chance.choice(self.site.paths)
        method = chance.choice(METHODS)
        path = real.partition("?")[0] if chance.random() < 0.8 else self._bent(real)
        if path.startswith(ENDS_SESSIONS) and method == "POST":
            return
        query = ""
        if chance.random() < 0.7:
            query = "?" + "&".join(self._pair(real) for _ in range(chance.choice((1, 1, 2, 5))))
        body, headers = b"", {}
        if method not in ("GET", "HEAD"):
            body, headers["Content-Type"] = self._body(real)
        if chance.random() < 0.95:
            headers["X-CSRFToken"] = FORM_TOKEN
        for _ in range(chance.choice((0, 0, 1, 3))):
            headers[chance.choice(HEADERS)] = self._poison()[:4000].decode("latin-1")
        self._judged(chance.choice(WHO), method, path + query, body, headers)

    def _bent(self, path: str) -> str:
        """The path with one of its parts replaced, doubled or left out."""
        parts = path.partition("?")[0].split("/")
        at = self.chance.randrange(1, len(parts))
        kind = self.chance.randrange(4)
        if kind == 0:
            parts[at:at] = parts[at:]
        elif kind == 1:
            del parts[at]
        else:
            parts[at] = quote_from_bytes(self._poison()[:2000], safe="")
        return "/" + "/".join(parts).lstrip("/") if self.chance.random() < 0.9 else "/".join(parts)

    def _poison(self) -> bytes:
        if self.chance.random() < 0.1:
            return self.chance.randbytes(self.chance.randrange(1, 60))
        return self.chance.choice(POISON)

    def _name(self, path: str) -> str:
        fields = self.forms[path]
        if fields and self.chance.random() < 0.7:
            return self.chance.choice(fields)[0]
        return self.chance.choice(NAMES)

    def _pairs(self, path: str) -> Pairs:
        """The forms of the page with some fields poisoned, or whatever."""
        if self.chance.random() < 0.5:
            count = self.chance.choice((0, 1, 3, 8, 30))
            return [(self._name(path), self._poison()) for _ in range(count)]
        pairs = list(self.forms[path])
        for _ in range(min(len(pairs), self.chance.choice((0, 1, 1, 2, 5)))):
            at = self.chance.randrange(len(pairs))
            pairs[at] = (pairs[at][0], self._poison())
        return pairs

    def _pair(self, path: str) -> str:
        return f"{quote_from_bytes(self._name(path).encode())}={quote_from_bytes(self._poison())}"

    def _body(self, path: str) -> tuple[bytes, str]:
        chance = self.chance
        pairs = self._pairs(path)
        kind = chance.randrange(8)
        if kind == 0:
            text = {name: value.decode("latin-1") for name, value in pairs}
            return json.dumps(text).encode(), "application/json"
        if kind == 1:
            return self._poison(), chance.choice(("application/json", "text/plain", "image/png"))
        if kind == 2:
            mark = b"--made-up\r\nContent-Disposition: form-data; name="
            parts = (
                mark + b'"%s"%s\r\n\r\n%s\r\n' % (
                    name.encode(),
                    chance.choice((b"", b'; filename="a.pdf"', b'; filename="../a\0.pdf"')),
                    value,
                )
                for name, value in pairs
            )  # fmt: skip
            end = chance.choice((b"--made-up--\r\n", b"--made-up", b""))
            return b"".join(parts) + end, "multipart/form-data; boundary=made-up"
        return urlencode(pairs).encode(), "application/x-www-form-urlencoded"

    def _judged(
        self, who: str, method: str, path: str, body: bytes, headers: dict[str, str]
    ) -> Answer:
        wire = self._wire(who, method, path, body, headers)
        answer = self._answer(wire)
        found = self.found
        found.sent += 1
        found.statuses[answer.status] += 1
        found.seconds.append(answer.seconds)
        if trouble := self._trouble(who, path, answer):
            found.wrong.append(f"{trouble}: {who} {wire[:600]!r} → {answer.body[:200]!r}")
        return answer

    def _trouble(self, who: str, path: str, answer: Answer) -> str:
        if answer.status == 0:
            return "no answer"
        if answer.status >= 500 and not (answer.status == 503 and AWAY.match(path.split("?")[0])):
            return f"an error of ours, {answer.status}"
        if inside := INSIDES.search(answer.body):
            return f"tells of our insides, {inside[0]!r}"
        if who != ADMINISTRATOR:
            text = answer.body.decode(errors="replace")
            if leak := ABOUT_PEOPLE.search(text) or RESULTS.search(text):
                return f"leaks {leak[0]}"
        return ""

    def _wire(
        self, who: str, method: str, path: str, body: bytes, headers: dict[str, str]
    ) -> bytes:
        given = {"Host": "localhost", **headers}
        if who in self.site.sessions:
            given["Cookie"] = f"{self.site.cookie}={self.site.sessions[who]}"
        lines = [f"{method} {path} HTTP/1.1", "Connection: close"]
        lines += [f"{name}: {_one_line(value)}" for name, value in given.items()]
        lines.append(f"Content-Length: {len(body)}")
        return "\r\n".join(lines).encode("latin-1", "replace") + b"\r\n\r\n" + body

    def _answer(self, wire: bytes) -> Answer:
        begun = time.perf_counter()
        received = bytearray()
        try:
            with socket.create_connection(self.place, SECONDS) as line:
                line.settimeout(SECONDS)
                line.sendall(wire)
                while part := line.recv(65536):
                    received += part
        except OSError:
            pass  # what came before says whether there was an answer
        head, _, body = bytes(received).partition(b"\r\n\r\n")
        status = int(head[9:12]) if head[:5] == b"HTTP/" and head[9:12].isdigit() else 0
        return Answer(status, body, time.perf_counter() - begun)


def _one_line(value: str) -> str:
    """A header that is a header: what is none, the server refuses by itself."""
    return re.sub(r"[\0-\x1f\x7f]", " ", value).strip()
