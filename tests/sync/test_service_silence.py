"""`manage.py sync` says at once that the service does not answer, and why; then it goes on trying.

Seconds depend on the machine: what is asserted is the order of things.
"""

from __future__ import annotations

import contextlib
import socket
import subprocess
import threading
from collections.abc import Callable, Iterator

import pytest

from backoffice.devtools.embedded import free_port
from tests.sync.house import SYNC, House, Houses, end, running, wait_until
from tests.sync.standin import Asked, Reply, serving

MOST_SECONDS = 60
"""A machine that is busy with other tests starts a process slowly."""
PROVIDERS = [{"slug": "band-one", "name": "Band One"}]

Address = Callable[[], contextlib.AbstractContextManager[str]]


@contextlib.contextmanager
def dead_port() -> Iterator[str]:
    """Nothing listens there."""
    yield f"http://127.0.0.1:{free_port()}"


@contextlib.contextmanager
def black_hole() -> Iterator[str]:
    """Takes connections and requests, and never answers."""
    taken: list[socket.socket] = []
    with socket.create_server(("127.0.0.1", 0), backlog=64) as server:

        def take() -> None:
            with contextlib.suppress(OSError):
                while True:
                    taken.append(server.accept()[0])

        threading.Thread(target=take, daemon=True).start()
        yield f"http://127.0.0.1:{server.getsockname()[1]}"
        server.shutdown(socket.SHUT_RDWR)
    for one in taken:
        one.close()


def unavailable() -> contextlib.AbstractContextManager[str]:
    return serving(lambda asked: Reply({"detail": "maintenance"}, 503, {"retry-after": "1"}))


def start(house: House) -> subprocess.Popen[bytes]:
    return house.start(*SYNC, "providers")


@pytest.mark.parametrize(
    ("address", "words"),
    [
        (dead_port, "does not answer: no connection (refused"),
        (black_hole, "does not answer: no answer for"),
        (unavailable, "answers with an error: 503"),
    ],
)
def test_sync_says_at_once_that_the_service_does_not_answer(
    address: Address, words: str, houses: Houses
) -> None:
    with address() as url:
        house = houses.build(url)
        with running(start(house)) as process:
            wait_until(lambda: words in house.said(), MOST_SECONDS, words)
            said = house.said()
            assert f"The service at {url} {words}" in said
            assert "no answer in time" not in said, "before the request's own time limit ended"
            assert process.poll() is None, "it goes on trying"


def test_sync_goes_on_by_itself_when_the_service_answers_again(houses: Houses) -> None:
    down = True

    def answer(asked: Asked) -> Reply:
        return Reply({}, 503) if down else Reply(PROVIDERS)

    with serving(answer) as url:
        house = houses.build(url)
        process = start(house)
        try:
            wait_until(lambda: "Attempt 1 of 8" in house.said(), MOST_SECONDS, "a failed attempt")
            down = False
            assert process.wait(MOST_SECONDS) == 0, house.said()
        finally:
            end(process)
    assert "The service answers again (200)." in house.said()
    assert "1 new" in house.said()


def test_sync_says_nothing_of_a_service_that_answers(houses: Houses) -> None:
    with serving(lambda asked: Reply(PROVIDERS)) as url:
        house = houses.build(url)
        house.sync("providers")
    assert "The service" not in house.said()
