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
        *("-m", "granian", "--interface", "wsgi", "backoffice.wsgi:application"),
        *("--host", host, "--port", port, "--no-ws", "--no-access-log"),
        # Twice as many threads as may wait for the body of a delivery: `receiving.READERS`.
        *("--workers", "2", "--blocking-threads", "8", "--log-level", "warning"),
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
