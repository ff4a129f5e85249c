"""PostgreSQL and Redis from Python packages, for machines without them.

    with servers(home()) as running:
        running.database_url, running.redis_url

A server is not started when `DATABASE_URL` or `REDIS_URL` names another one. When a command such
as `./run demo` is running, its servers are used. Otherwise the servers are started, and stopped at
the end.

    var/                        the base folder for an ordinary user
        postgres/ valkey/       data
        sockets/                PostgreSQL's and Valkey's sockets, 0700
        servers.json            the owner process and the addresses, 0600
        log/                    output of the servers

`places.py` has folders and accounts, `processes.py` starts and stops processes, `postgres.py` and
`valkey.py` have one server each, and `ownership.py` has the lock and `servers.json`.

PostgreSQL refuses to run as root. For root, both servers run as `nobody`. When that user cannot
reach the checkout, the base folder is `/var/tmp/backoffice-<hash of the checkout's path>`, with a
copy of the programs. Remove that folder to start with empty servers.

On Linux, the kernel stops every server when the process that started it ends for any reason. This
package is for development, demo, and tests only, not for production.
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
    """The addresses of PostgreSQL and Redis; `embedded` is True for the embedded PostgreSQL."""

    database_url: str = field(repr=False)
    redis_url: str = field(repr=False)
    embedded: bool
    processes: tuple[RunningServer, ...] = ()
    """The servers that this process started."""

    def tend(self, say: Callable[[str], None]) -> None:
        """Restart servers that were killed, on the same address, and report it.

        Call it about once a second.
        """
        for process in self.processes:
            process.tend(say)

    def database(self, name: str) -> str:
        """Return the address of another database on the same server; create it if necessary."""
        return make_database(self.database_url, name)

    def drop_database(self, name: str) -> None:
        drop_database(self.database_url, name)

    def empty_database(self, name: str) -> str:
        """Return the address of another database on the same server, emptied first."""
        drop_database(self.database_url, name)
        return make_database(self.database_url, name)


def default_database_url() -> str:
    """Return the address of the embedded PostgreSQL.

    It is the running one, or the address at which one would listen.
    """
    base = home()
    running_url = ownership.read(base).get("database_url")
    return running_url or postgres.socket_url(sockets_of(base), DATABASE)


def default_redis_url() -> str:
    base = home()
    return ownership.read(base).get("redis_url") or valkey.url_of(base)


@contextlib.contextmanager
def servers(
    where: Path | None = None, *, durable: bool = True, borrow: bool = True
) -> Iterator[Servers]:
    """Provide PostgreSQL and Redis inside a `with` block; raises ServersError.

    `where` is their base folder, by default that of this checkout. `durable=False` is faster and
    not safe against power failures: use it for throw-away servers only. `borrow=False` raises an
    error instead of using the servers of another command, because those stop with that command.
    """
    database_url = os.environ.get("DATABASE_URL", "")
    redis_url = os.environ.get("REDIS_URL", "")
    embedded = not database_url
    if database_url and redis_url:
        yield Servers(database_url, redis_url, embedded)
        return
    base, owner = where or home(), account()
    make_home(base, owner)
    processes: list[RunningServer] = []
    with contextlib.ExitStack() as stack:
        if stack.enter_context(ownership.claim(base)):
            addresses: dict[str, str] = {}
            if not database_url:
                processes.append(stack.enter_context(postgres.running(base, owner, durable)))
                addresses["database_url"] = processes[-1].url
            if not redis_url:
                processes.append(stack.enter_context(valkey.running(base, owner)))
                addresses["redis_url"] = processes[-1].url
            stack.enter_context(ownership.publish_addresses(base, addresses))
        elif borrow:
            addresses = ownership.await_addresses(base)
        else:
            raise ServersError("Another ./run command is using the servers. Wait until it ends.")
        database_url = database_url or addresses.get("database_url", "")
        redis_url = redis_url or addresses.get("redis_url", "")
        if not database_url or not redis_url:
            raise ServersError(
                "The running ./run demo uses another PostgreSQL or Redis. Give this command the "
                "same DATABASE_URL and REDIS_URL."
            )
        yield Servers(database_url, redis_url, embedded, tuple(processes))


@contextlib.contextmanager
def throwaway_servers(*, durable: bool = False) -> Iterator[Servers]:
    """Provide servers in a temporary folder, which is deleted at the end."""
    base = Path(tempfile.mkdtemp(prefix="bo-"))
    try:
        with servers(base, durable=durable) as running:
            yield running
    finally:
        shutil.rmtree(base, ignore_errors=True)
