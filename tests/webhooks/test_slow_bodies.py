"""Bodies that never come hold no delivery and no page up; over real sockets."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack
from urllib.parse import urlsplit

import pytest

from tests.sync.house import House, Houses
from tests.webhooks.sending import Attempt, attempt, receiving, send
from tests.webhooks.signed import message
from webhooks.receiving import READERS

SLOW = 24
WORKERS = 2
LIVE = Attempt("", b"GET /health/live HTTP/1.1\r\nhost: localhost\r\n\r\n")
SIGNED = "".join(f"{name}: {value}\r\n" for name, value in message("t", {}).headers().items())


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    houses = Houses(os.environ["DATABASE_URL"], tmp_path_factory.mktemp("houses"))
    try:
        yield houses.build("http://127.0.0.1:9")
    finally:
        houses.close()


@pytest.fixture(scope="module")
def server(house: House) -> Iterator[str]:
    with receiving(house, workers=WORKERS) as url:
        yield url


def slow(url: str, head: str, stack: ExitStack) -> list[socket.socket]:
    """Heads that promise a body of which one byte comes."""
    parts = urlsplit(url)
    found = []
    for _ in range(SLOW):
        line = stack.enter_context(socket.create_connection((parts.hostname, parts.port or 80), 5))
        line.sendall(
            f"POST /webhooks/ HTTP/1.1\r\nhost: x\r\ncontent-length: 1000\r\n{head}\r\nx".encode()
        )
        found.append(line)
    time.sleep(1)
    return found


def genuine() -> Attempt:
    return attempt(message("labtest.match_review.created", {"id": "x"}))


@pytest.mark.parametrize("head", ["", "webhook-id: a\r\n", SIGNED.replace("stamp: ", "stamp: x")])
def test_a_head_that_cannot_be_genuine_holds_nothing(server: str, head: str) -> None:
    with ExitStack() as stack:
        held = slow(server, head, stack)
        answers = send(server, [genuine() for _ in range(20)], connections=4)
        answers += send(server, [LIVE] * 20, connections=4)
        for line in held:
            line.settimeout(5)
            assert line.recv(12)[9:12] in (b"401", b"400")
    assert {one.status for one in answers} == {204, 200}
    assert max(one.seconds for one in answers) < 3


def test_heads_that_could_be_genuine_hold_half_of_the_threads(server: str) -> None:
    with ExitStack() as stack:
        slow(server, SIGNED, stack)
        pages = send(server, [LIVE] * 20, connections=4)
        busy = send(server, [genuine() for _ in range(4)], connections=4)
    assert {one.status for one in pages} == {200}
    assert {one.status for one in busy} == {503}, f"{READERS * WORKERS} places, {SLOW} want one"
    assert max(one.seconds for one in (*pages, *busy)) < 3
    time.sleep(1)
    again = send(server, [genuine() for _ in range(20)], connections=4)
    assert {one.status for one in again} == {204}, "the places are free again"
