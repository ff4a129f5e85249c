"""Command lines of the processes of a deployment.

`./run` starts them. The files in `deploy/` must have the same command lines;
`tests/operations/test_deploy.py` compares them.
"""

from __future__ import annotations

from typing import Final

WORKERS: Final = {"inbox": "1", "outbox": "2", "staff": "1", "bulk": "2"}
"""Number of processes for each queue of `backoffice/celery.py`."""

_CELERY: Final = ("-m", "celery", "-A", "backoffice.celery")


def web(host: str, port: str, kill_timeout: str) -> tuple[str, ...]:
    """Return the web server command; `kill_timeout` limits open requests during a stop."""
    return (
        # The server reads a whole request before a thread answers it: see `request_buffer.py`.
        *("-m", "granian", "--interface", "rsgi", "backoffice.wsgi:web"),
        *("--host", host, "--port", port, "--no-ws", "--no-access-log"),
        *("--workers", "2", "--http1-header-read-timeout", "10000", "--log-level", "warning"),
        *("--workers-kill-timeout", kill_timeout),
    )


def beat(schedule: str) -> tuple[str, ...]:
    return (*_CELERY, "beat", "--pidfile", "", "--loglevel", "INFO", "--schedule", schedule)


def worker(queue: str) -> tuple[str, ...]:
    """Return a worker command; after SIGTERM a worker finishes its task (`shutdown.py`)."""
    return (
        *(*_CELERY, "worker", "--queues", queue, "--hostname", f"{queue}@%h"),
        *("--concurrency", WORKERS[queue], "--loglevel", "INFO"),
        *("--without-gossip", "--without-mingle"),
    )
