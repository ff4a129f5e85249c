"""Command lines of the processes of a deployment.

`./run` starts them. The files in `deploy/` must have the same ones, which
`tests/operations/test_deploy.py` compares.
"""

from __future__ import annotations

from typing import Final

WORKERS: Final = {"inbox": "1", "outbox": "2", "staff": "1", "bulk": "2"}
"""Processes for each queue of `backoffice/celery.py`."""

_CELERY: Final = ("-m", "celery", "-A", "backoffice.celery")


def web(host: str, port: str, kill_timeout: str) -> tuple[str, ...]:
    """Return the web server command; `kill_timeout` limits open requests at a stop."""
    return (
        # Receives whole requests before a thread answers them: see `request_buffer.py`.
        *("-m", "granian", "--interface", "rsgi", "backoffice.wsgi:web"),
        *("--host", host, "--port", port, "--no-ws", "--no-access-log"),
        *("--workers", "2", "--http1-header-read-timeout", "10000", "--log-level", "warning"),
        *("--workers-kill-timeout", kill_timeout),
    )


def beat(schedule: str) -> tuple[str, ...]:
    return (*_CELERY, "beat", "--pidfile", "", "--loglevel", "INFO", "--schedule", schedule)


def worker(queue: str) -> tuple[str, ...]:
    """Return a worker command. After SIGTERM it finishes its current task (`shutdown.py`)."""
    return (
        *(*_CELERY, "worker", "--queues", queue, "--hostname", f"{queue}@%h"),
        *("--concurrency", WORKERS[queue], "--loglevel", "INFO"),
        *("--without-gossip", "--without-mingle"),
    )
