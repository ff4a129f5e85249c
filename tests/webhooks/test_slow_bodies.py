"""Bodies that come slowly, or never, hold no thread, whatever address they name; real sockets."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack
from urllib.parse import urlsplit

import httpx
import pytest

from backoffice.operations import request_buffer
from tests.sync.back_office import BackOffice, BackOffices
from tests.webhooks.echo import LONG
from tests.webhooks.sending import Attempt, attempt, receiving, send
from tests.webhooks.signed import message

SLOW = 200
ADDRESSES = ("/accounts/login/", "/webhooks/", "/api/orders/", "/reports/upload/", "/nowhere")
LIVE = Attempt("", b"GET /health/live HTTP/1.1\r\nhost: localhost\r\n\r\n")
READY = Attempt("", b"GET /health/ready HTTP/1.1\r\nhost: localhost\r\n\r\n")
POSTED = Attempt(
    "", b"POST /accounts/login/ HTTP/1.1\r\nhost: localhost\r\ncontent-length: 3\r\n\r\na=b"
)
SIGNED = "".join(f"{name}: {value}\r\n" for name, value in message("t", {}).headers().items())


@pytest.fixture(scope="module")
def back_office(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BackOffice]:
    back_offices = BackOffices(os.environ["DATABASE_URL"], tmp_path_factory.mktemp("back_offices"))
    try:
        yield back_offices.build("http://127.0.0.1:9")
    finally:
        back_offices.close()


@pytest.fixture(scope="module")
def server(back_office: BackOffice) -> Iterator[str]:
    with receiving(back_office, workers=2) as url:
        yield url


def genuine() -> Attempt:
    return attempt(message("labtest.match_review.created", {"id": "x"}))


def opened(url: str, stack: ExitStack, request: str) -> socket.socket:
    parts = urlsplit(url)
    line = stack.enter_context(socket.create_connection((parts.hostname, parts.port or 80), 5))
    line.sendall(request.encode())
    return line


def slow(url: str, stack: ExitStack) -> list[socket.socket]:
    """Heads that promise a body, or chunks, of which one byte comes."""
    found = []
    for number in range(SLOW):
        head = f"POST {ADDRESSES[number % len(ADDRESSES)]} HTTP/1.1\r\nhost: localhost\r\n{SIGNED}"
        body = "transfer-encoding: chunked\r\n\r\n1\r\nx\r\n"
        if number % 2:
            body = "content-length: 1000\r\n\r\nx"
        found.append(opened(url, stack, head + body))
    return found


def status(line: socket.socket, seconds: float) -> int:
    line.settimeout(seconds)
    return int(line.recv(12)[9:12])


def test_slow_senders_do_not_delay_pages_or_deliveries(server: str) -> None:
    with ExitStack() as stack:
        began = time.monotonic()
        held = slow(server, stack)
        answers = send(server, [genuine() for _ in range(40)], connections=4)
        answers += send(server, [LIVE, READY] * 40, connections=4)
        answers += send(server, [POSTED] * 8, connections=4)
        assert time.monotonic() - began < request_buffer.SECONDS, "none of them was given up yet"
        assert {one.status for one in answers} <= {204, 200, 302}
        assert max(one.seconds for one in answers) < 3
        ends = {status(line, request_buffer.SECONDS + 5) for line in held}
        assert ends == {408}, "each has its time and no more"
    assert {one.status for one in send(server, [genuine()] * 4, connections=2)} == {204}


def test_dripping_bytes_do_not_extend_the_time_limit(server: str) -> None:
    with ExitStack() as stack:
        line = opened(server, stack, "POST /x HTTP/1.1\r\nhost: a\r\ncontent-length: 1000\r\n\r\n")
        line.settimeout(0.2)
        began = time.monotonic()
        while time.monotonic() - began < request_buffer.SECONDS + 5:
            line.sendall(b"x")
            try:
                assert line.recv(12)[9:12] == b"408"
                break
            except TimeoutError:
                continue
        assert request_buffer.SECONDS - 1 < time.monotonic() - began < request_buffer.SECONDS + 5


@pytest.mark.parametrize("path", ["/accounts/login/", "/webhooks/", "/api/orders/", "/nowhere"])
def test_too_large_body_is_refused_unread(server: str, path: str) -> None:
    head = f"POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-length: {10**9}\r\n\r\nx"
    with ExitStack() as stack:
        assert status(opened(server, stack, head), 5) == 413
    chunk = f"{2**20:x}\r\n{'x' * 2**20}\r\n"
    head = f"POST {path} HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\n"
    with ExitStack() as stack:
        line = opened(server, stack, head + chunk)
        try:
            for _ in range(9):
                line.sendall(chunk.encode())
        except OSError:
            return  # it was hung up on
        assert status(line, 5) == 413


@pytest.fixture(scope="module")
def echoes(back_office: BackOffice) -> Iterator[tuple[str, str]]:
    """The same application, called by the server itself and by `buffering.Web`."""
    with (
        receiving(back_office, "tests.webhooks.echo:application", workers=1) as plain,
        receiving(back_office, "tests.webhooks.echo:web", workers=1) as ours,
    ):
        yield plain, ours


@pytest.mark.parametrize(
    "request_",
    [
        ("GET", "/orders/?q=%20%C3%A9&q=b", {}, b""),
        ("GET", "/n%C3%B6%20where/%2F?", {"cookie": "a=b; c=d"}, b""),
        ("POST", "/x", {"content-type": "text/plain", "x-forwarded-for": "1.2.3.4"}, b"\x00\xff"),
        ("PUT", "/x", {"content-length": "0"}, b""),
        ("DELETE", "//x/../y", {"authorization": "Bearer x"}, b""),
    ],
    ids=lambda given: f"{given[0]} {given[1]}",
)
def test_buffered_request_equals_direct_wsgi_request(
    echoes: tuple[str, str], request_: tuple[str, str, dict[str, str], bytes]
) -> None:
    method, path, headers, content = request_
    found = []
    for url in echoes:
        answer = httpx.request(
            method,
            url + path,
            headers={**headers, "host": "office.example.com"},
            content=content,
            trust_env=False,
        )
        assert answer.headers["set-cookie"] == "a=b"
        found.append(answer.json())
    assert found[1] == found[0]


def test_long_and_failing_responses_end(echoes: tuple[str, str]) -> None:
    ours = echoes[1]
    assert httpx.get(f"{ours}/long", trust_env=False).content == b"x" * LONG
    assert httpx.get(f"{ours}/broken", trust_env=False).status_code == 500
    assert httpx.head(f"{ours}/long", trust_env=False).status_code == 200


def test_chunked_bodies_and_underscore_headers(echoes: tuple[str, str]) -> None:
    sent = httpx.post(
        f"{echoes[1]}/x",
        content=iter([b"ab", b"", b"c"]),
        headers={"x_forwarded_for": "6.6.6.6"},
        trust_env=False,
    ).json()
    assert (sent["content"], sent["CONTENT_LENGTH"]) == ("abc", "3")
    assert not {"HTTP_X_FORWARDED_FOR", "HTTP_TRANSFER_ENCODING"} & sent.keys()
