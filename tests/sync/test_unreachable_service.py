"""`manage.py sync` reports at once that the service does not answer and why, and keeps trying.

Durations depend on the machine, so the tests assert only the order of events.
"""

from __future__ import annotations

import contextlib
import socket
import subprocess
import threading
from collections.abc import Callable, Iterator

import pytest

from backoffice.devtools.embedded import free_port
from tests.sync.back_office import SYNC, BackOffice, BackOffices, end, running
from tests.sync.stub_server import IncomingRequest, Reply, serving
from tests.waiting import wait_until

MAX_SECONDS = 60
"""A process starts slowly on a machine that is busy with other tests."""
PROVIDERS = [{"slug": "band-one", "name": "Band One"}]

Address = Callable[[], contextlib.AbstractContextManager[str]]


@contextlib.contextmanager
def dead_port() -> Iterator[str]:
    """Yield the URL of a port on which nothing listens."""
    yield f"http://127.0.0.1:{free_port()}"


@contextlib.contextmanager
def black_hole() -> Iterator[str]:
    """Yield the URL of a server that accepts connections and never answers."""
    connections: list[socket.socket] = []
    with socket.create_server(("127.0.0.1", 0), backlog=64) as server:

        def accept() -> None:
            with contextlib.suppress(OSError):
                while True:
                    connections.append(server.accept()[0])

        threading.Thread(target=accept, daemon=True).start()
        yield f"http://127.0.0.1:{server.getsockname()[1]}"
        server.shutdown(socket.SHUT_RDWR)
    for connection in connections:
        connection.close()


def unavailable() -> contextlib.AbstractContextManager[str]:
    return serving(lambda request: Reply({"detail": "maintenance"}, 503, {"retry-after": "1"}))


def start_sync(back_office: BackOffice) -> subprocess.Popen[bytes]:
    return back_office.start(*SYNC, "providers")


@pytest.mark.parametrize(
    ("address", "message"),
    [
        (dead_port, "does not answer: no connection (refused"),
        (black_hole, "has not answered for"),
        (unavailable, "answers with an error: 503"),
    ],
)
def test_sync_reports_at_once_why_service_does_not_answer(
    address: Address, message: str, back_offices: BackOffices
) -> None:
    with address() as url:
        back_office = back_offices.build(url)
        with running(start_sync(back_office)) as process:
            wait_until(lambda: message in back_office.said(), MAX_SECONDS, message)
            output = back_office.said()
            assert f"The service at {url} {message}" in output
            assert "no answer in time" not in output, "the message came too late"
            assert process.poll() is None, "the process should keep trying"


def test_sync_continues_when_service_answers_again(back_offices: BackOffices) -> None:
    down = True

    def answer(request: IncomingRequest) -> Reply:
        return Reply({}, 503) if down else Reply(PROVIDERS)

    with serving(answer) as url:
        back_office = back_offices.build(url)
        process = start_sync(back_office)
        try:
            wait_until(
                lambda: "Attempt 1 of 8" in back_office.said(), MAX_SECONDS, "a failed attempt"
            )
            down = False
            assert process.wait(MAX_SECONDS) == 0, back_office.said()
        finally:
            end(process)
    assert "The service answers again (200)." in back_office.said()
    assert "1 new" in back_office.said()


def test_sync_prints_no_message_about_working_service(back_offices: BackOffices) -> None:
    with serving(lambda request: Reply(PROVIDERS)) as url:
        back_office = back_offices.build(url)
        back_office.sync("providers")
    assert "The service" not in back_office.said()
