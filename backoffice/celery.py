"""Celery: how tasks run, and on one screen everything that runs by the clock.

Messages only ring a bell (rule 1 of the house): a lost one costs a tick, never work. Four queues,
each with workers of its own: `inbox` for what the service tells us, `outbox` for what staff ask of
it, `staff` for short reads a person waits for, `bulk` for everything else, long uploads included.
"""

import os
from datetime import timedelta
from typing import Final

from celery import Celery
from celery.beat import Service
from celery.signals import beat_init, worker_init
from django.core.exceptions import ImproperlyConfigured
from kombu import Queue

from backoffice.core import shutdown  # noqa: F401 - its byte is made before workers are forked

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "backoffice.settings")

HEARTBEAT_SECONDS: Final = 15

app = Celery("backoffice")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.conf.update(
    task_queues=[Queue("inbox"), Queue("outbox"), Queue("staff"), Queue("bulk")],
    task_default_queue="bulk",
    task_create_missing_queues=False,
    task_serializer="json",
    accept_content=["json"],
    task_ignore_result=True,
    result_backend=None,
    task_acks_late=True,
    task_reject_on_worker_lost=True,
    worker_prefetch_multiplier=1,
    worker_cancel_long_running_tasks_on_connection_loss=True,
    # Seconds. A sync run may need more (`sync.MAX_TASK_SECONDS`): if its message is delivered
    # twice, the second worker finds the run claimed.
    task_soft_time_limit=60,
    task_time_limit=90,
    worker_max_tasks_per_child=500,
    worker_max_memory_per_child=300_000,
    worker_send_task_events=False,
    task_send_sent_event=False,
    worker_hijack_root_logger=False,
    broker_connection_retry_on_startup=True,
    broker_connection_max_retries=None,
    broker_transport_options={
        "visibility_timeout": 300,
        "socket_timeout": 30,
        "socket_connect_timeout": 3,
        "socket_keepalive": True,
        "health_check_interval": 15,
    },
    timezone="UTC",
    enable_utc=True,
    beat_max_loop_interval=1,
)


def _every(seconds: float, task: str, queue: str) -> dict[str, object]:
    # A bell nobody answered before the next one rings is worth nothing.
    options = {"queue": queue, "expires": max(seconds, 5.0)}
    return {"task": task, "schedule": timedelta(seconds=seconds), "options": options}


# Bells only: whether anything is due stands in the rows (`Event`, `SyncRun`, `Lookup`), by the
# settings SYNC_ORDERS_SECONDS, SYNC_USERS_MINUTES and so on.
app.conf.beat_schedule = {
    "inbox: apply what was received": _every(1, "webhooks.tasks.drain", "inbox"),
    "inbox: is the service silent": _every(30, "webhooks.tasks.listen", "bulk"),
    "inbox: what administrators asked": _every(5, "webhooks.tasks.deliver", "outbox"),
    "inbox: seal bodies": _every(60, "webhooks.tasks.seal", "bulk"),
    "inbox: forget old bodies": _every(3_600, "webhooks.tasks.forget", "bulk"),
    "orders: what staff asked": _every(1, "orders.tasks.deliver", "outbox"),
    "orders: what is done to many": _every(2, "orders.tasks.work_on_lists", "staff"),
    "orders: documents to print": _every(2, "orders.tasks.print_documents", "bulk"),
    "orders: what changed": _every(5, "orders.tasks.sync_changes", "staff"),
    "orders: appointments, results, single orders": _every(2, "orders.tasks.look_up", "staff"),
    "orders: all of them": _every(5, "orders.tasks.sweep", "bulk"),
    "orders: usual times, when an hour old": _every(60, "orders.tasks.measure_usual_times", "bulk"),
    "orders: add up counts": _every(2, "orders.tasks.add_up", "staff"),
    "orders: into the buckets people decide on": _every(
        2, "orders.tasks.follow_decisions", "staff"
    ),
    "orders: results that an earlier release has read": _every(
        60, "orders.tasks.follow_release", "staff"
    ),
    "orders: closed results that an earlier release has read": _every(
        60, "orders.tasks.follow_release_later", "bulk"
    ),
    "orders: check counts, forget old happenings": _every(
        3_600, "orders.tasks.check_counts", "bulk"
    ),
    "orders: forget old drafts": _every(3_600, "orders.tasks.forget", "bulk"),
    "orders: results without a match": _every(10, "orders.tasks.sync_unmatched", "bulk"),
    "patients: what staff asked": _every(2, "patients.tasks.deliver", "outbox"),
    "patients: users, providers": _every(10, "patients.tasks.sync_lists", "bulk"),
    "patients: demographics, insurance, sources": _every(3, "patients.tasks.look_up", "bulk"),
    "patients: forget old drafts and links": _every(3_600, "patients.tasks.forget", "bulk"),
    "labs: what staff asked": _every(2, "labs.tasks.deliver", "outbox"),
    "labs: the catalogue": _every(30, "labs.tasks.sync_lists", "bulk"),
    "reports: send": _every(2, "labs.tasks.send_reports", "bulk"),
    "reports: how far they are": _every(3, "labs.tasks.follow_reports", "staff"),
    "reports: forget lost files": _every(3_600, "labs.tasks.tidy_reports", "bulk"),
    "labs: markers of lab tests": _every(10, "labs.tasks.look_up", "bulk"),
    "wearables: historical pulls": _every(30, "patients.wearables.tasks.sync_pulls", "bulk"),
    "wearables: ranges, streams": _every(3, "patients.wearables.tasks.look_up", "bulk"),
    "wearables: forget the old": _every(3_600, "patients.wearables.tasks.forget", "bulk"),
    "team: what became of requests": _every(10, "backoffice.operations.tasks.tell", "bulk"),
    "team: what became of orders": _every(5, "orders.tasks.tell", "bulk"),
    "team: e-mails": _every(10, "backoffice.operations.tasks.mail", "bulk"),
    "audit: seal what came": _every(60, "backoffice.operations.tasks.seal", "bulk"),
    "audit: check what is due": _every(60, "backoffice.operations.tasks.check_audit", "bulk"),
    "audit: take away the old": _every(3_600, "backoffice.operations.tasks.retire_audit", "bulk"),
    "runs: forget the old": _every(3_600, "backoffice.operations.tasks.prune", "bulk"),
}
QUEUES: Final = tuple(queue.name for queue in app.conf.task_queues)
for _queue in QUEUES:
    app.conf.beat_schedule[f"{_queue}: does anybody answer"] = _every(
        HEARTBEAT_SECONDS, "backoffice.operations.tasks.heartbeat", _queue
    )
app.autodiscover_tasks()
app.autodiscover_tasks(["backoffice.operations"])


@beat_init.connect
def _ring_at_once(sender: Service, **_signal: object) -> None:
    """A start is a reason to look. Bells would first let their interval pass, and where clocks are
    started more often than once an hour, those of every hour would never ring."""
    for bell in sender.scheduler.schedule.values():
        bell.last_run_at = app.now() - timedelta(days=1)


@worker_init.connect
def _refuse_another_database(**_signal: object) -> None:
    from backoffice.core import installation

    try:
        installation.verify()
    except ImproperlyConfigured as error:
        raise SystemExit(str(error)) from None  # Celery goes on after any other exception here.
