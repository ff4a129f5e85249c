"""PostgreSQL and Redis from Python packages, for machines that have neither.

    with servers(home()) as running:
        running.database_url, running.redis_url

A configured `DATABASE_URL` or `REDIS_URL` wins: that server is not started. Where a command such
as `./run demo` runs already, its servers are used; otherwise they are started and stopped again.

    var/                        the home of an ordinary user's servers
        postgres/ valkey/       data
        sockets/                PostgreSQL's and Valkey's sockets, 0700
        servers.json            who runs them and where they listen, 0600
        log/                    what they said

`places.py` has folders and accounts, `processes.py` starting and stopping, `postgres.py` and
`valkey.py` one server each, `ownership.py` the lock and `servers.json`.

PostgreSQL refuses to run as root. Under root both servers run as `nobody`, and when that user
cannot reach the checkout their home is `/var/tmp/backoffice-<hash of the checkout's path>`, with a
copy of the programs. Remove that folder to start afresh.

Every server is told by the kernel (Linux) to stop when the process that started it is gone, however
it went. Development, demo and tests only: nothing here is meant for production.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from backoffice.devtools.embedded import ownership, postgres, valkey
from backoffice.devtools.embedded.places import (
    ROOT,
    ServersError,
    account,
    home,
    make_home,
    sockets_of,
)
from backoffice.devtools.embedded.postgres import (
    DATABASE,
    database_name,
    drop_database,
    make_database,
)
from backoffice.devtools.embedded.processes import RunningServer, dies_with_parent, free_port

__all__ = [
    "ROOT",
    "Servers",
    "ServersError",
    "database_name",
    "default_database_url",
    "default_redis_url",
    "dies_with_parent",
    "free_port",
    "home",
    "make_database",
    "servers",
    "throwaway_servers",
]


@dataclass(frozen=True)
class Servers:
    """Where PostgreSQL and Redis are. `embedded` says whether PostgreSQL is ours."""

    database_url: str = field(repr=False)
    redis_url: str = field(repr=False)
    embedded: bool
    processes: tuple[RunningServer, ...] = ()
    """Those that this process started."""

    def tend(self, say: Callable[[str], None]) -> None:
        """Start again what was killed, on the same address, and report it. Call about once a
        second."""
        for process in self.processes:
            process.tend(say)

    def database(self, name: str) -> str:
        """Address of another database on the same server, made when it does not exist."""
        return make_database(self.database_url, name)

    def empty_database(self, name: str) -> str:
        """The same, with nothing of what was in it."""
        drop_database(self.database_url, name)
        return make_database(self.database_url, name)


def default_database_url() -> str:
    """Address of the embedded PostgreSQL: the running one, else where one would listen."""
    base = home()
    told = ownership.read(base).get("database_url")
    return told or postgres.socket_url(sockets_of(base), DATABASE)


def default_redis_url() -> str:
    base = home()
    return ownership.read(base).get("redis_url") or valkey.url_of(base)


@contextlib.contextmanager
def servers(
    where: Path | None = None, *, durable: bool = True, borrow: bool = True
) -> Iterator[Servers]:
    """PostgreSQL and Redis for the length of a `with`.

    `where` is their home, this checkout's by default. `durable=False` gives up safety against
    power cuts for speed: throw-away servers only. With `borrow=False` it is refused to use the
    servers of another command, which end with it. Raises ServersError.
    """
    database_url = os.environ.get("DATABASE_URL", "")
    redis_url = os.environ.get("REDIS_URL", "")
    embedded = not database_url
    if database_url and redis_url:
        yield Servers(database_url, redis_url, embedded)
        return
    base, who = where or home(), account()
    make_home(base, who)
    processes: list[RunningServer] = []
    with contextlib.ExitStack() as stack:
        if stack.enter_context(ownership.held(base)):
            ours: dict[str, str] = {}
            if not database_url:
                processes.append(stack.enter_context(postgres.running(base, who, durable)))
                ours["database_url"] = processes[-1].url
            if not redis_url:
                processes.append(stack.enter_context(valkey.running(base, who)))
                ours["redis_url"] = processes[-1].url
            stack.enter_context(ownership.told(base, ours))
        elif borrow:
            ours = ownership.awaited(base)
        else:
            raise ServersError("Another ./run command has the servers: wait until it is done.")
        database_url = database_url or ours.get("database_url", "")
        redis_url = redis_url or ours.get("redis_url", "")
        if not database_url or not redis_url:
            raise ServersError(
                "The running ./run demo uses another PostgreSQL or Redis: give this command the "
                "same DATABASE_URL and REDIS_URL."
            )
        yield Servers(database_url, redis_url, embedded, tuple(processes))


@contextlib.contextmanager
def throwaway_servers(*, durable: bool = False) -> Iterator[Servers]:
    """Servers in a temporary folder, gone with everything in them at the end."""
    base = Path(tempfile.mkdtemp(prefix="bo-"))
    try:
        with servers(base, durable=durable) as running:
            yield running
    finally:
        shutil.rmtree(base, ignore_errors=True)
