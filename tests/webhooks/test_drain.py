"""Who drains the inbox: workers of its own, so that a backlog holds up nothing else."""

from __future__ import annotations

from collections import defaultdict

from backoffice.celery import app
from backoffice.devtools.programs import WORKERS


def test_inbox_and_outbox_tasks_have_their_own_queues() -> None:
    queues: dict[str, set[str]] = defaultdict(set)
    for entry in app.conf.beat_schedule.values():
        queues[entry["options"]["queue"]].add(entry["task"])
    assert queues.keys() == WORKERS.keys() == {queue.name for queue in app.conf.task_queues}
    # Heartbeats are rung through every queue, and take no time.
    assert queues["inbox"] == {
        "webhooks.tasks.apply_due_events",
        "backoffice.operations.tasks.heartbeat",
    }
    assert "orders.tasks.look_up" in queues["staff"]
    assert "labs.tasks.send_reports" not in queues["staff"]
