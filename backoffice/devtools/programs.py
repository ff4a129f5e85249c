"""The processes of a deployment and how each is started: what `./run` starts, and what the files in
`deploy/` must say as well (`tests/operations/test_deploy.py` compares them)."""

from __future__ import annotations

from typing import Final

WORKERS: Final = {"inbox": "1", "outbox": "2", "staff": "1", "bulk": "2"}
"""Processes for each queue of `backoffice/celery.py`."""

_CELERY: Final = ("-m", "celery", "-A", "backoffice.celery")


def web(host: str, port: str, patience: str) -> tuple[str, ...]:
    """`patience`: how long requests under way may take when it is told to end."""
    return (
        # Takes requests in whole before a thread answers them: `buffering.py` has its threads.
        *("-m", "granian", "--interface", "rsgi", "backoffice.wsgi:web"),
        *("--host", host, "--port", port, "--no-ws", "--no-access-log"),
        *("--workers", "2", "--http1-header-read-timeout", "10000", "--log-level", "warning"),
        *("--workers-kill-timeout", patience),
    )


def beat(schedule: str) -> tuple[str, ...]:
    return (*_CELERY, "beat", "--pidfile", "", "--loglevel", "INFO", "--schedule", schedule)


def worker(queue: str) -> tuple[str, ...]:
    """SIGTERM lets it end what it has in hand, and it begins nothing else (`stopping.py`)."""
    return (
        *(*_CELERY, "worker", "--queues", queue, "--hostname", f"{queue}@%h"),
        *("--concurrency", WORKERS[queue], "--loglevel", "INFO"),
        *("--without-gossip", "--without-mingle"),
    )
