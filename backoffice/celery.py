"""Celery: how tasks run, and the whole beat schedule on one screen.

Messages only wake workers: the work is in database rows, so a lost message costs a tick and never
loses work. Each of the four queues has its own workers: `inbox` applies webhook events, `outbox`
sends commands, `staff` is for short reads a person waits for, and `bulk` for everything else,
long uploads included.
"""

import os
from datetime import timedelta
from typing import Final

from celery import Celery
from celery.beat import Service
from celery.signals import beat_init, worker_init
from django.core.exceptions import ImproperlyConfigured
from kombu import Queue

from backoffice.core import shutdown  # noqa: F401 - creates its byte before workers fork

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
    # Seconds. A sync run may need more (`sync.runs.MAX_TASK_SECONDS`): if its message is delivered
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
    # A message that no worker took before the next tick is useless.
    options = {"queue": queue, "expires": max(seconds, 5.0)}
    return {"task": task, "schedule": timedelta(seconds=seconds), "options": options}


# These only wake workers. Rows (`Event`, `SyncRun`, `Lookup`) say what is due, by the settings
# SYNC_ORDERS_SECONDS, SYNC_SWEEP_HOURS (full runs), SYNC_USERS_MINUTES and so on.
app.conf.beat_schedule = {
    "inbox: apply events": _every(1, "webhooks.tasks.apply_due_events", "inbox"),
    "inbox: detect silence of the service": _every(30, "webhooks.tasks.check_silence", "bulk"),
    "inbox: deliver endpoint commands": _every(5, "webhooks.tasks.deliver", "outbox"),
    "inbox: encrypt bodies": _every(60, "webhooks.tasks.encrypt_bodies", "bulk"),
    "inbox: delete old bodies": _every(3_600, "webhooks.tasks.delete_old_bodies", "bulk"),
    "orders: deliver commands": _every(1, "orders.tasks.deliver", "outbox"),
    "orders: prepare documents to print": _every(2, "orders.tasks.print_documents", "bulk"),
    "orders: sync changes": _every(5, "orders.tasks.sync_changes", "staff"),
    "orders: look up appointments, results, single orders": _every(
        2, "orders.tasks.look_up", "staff"
    ),
    "orders: sync all": _every(5, "orders.tasks.sync_all", "bulk"),
    "orders: measure turnaround once an hour": _every(
        60, "orders.tasks.measure_usual_times", "bulk"
    ),
    "orders: compact counters": _every(2, "orders.tasks.compact_counters", "staff"),
    "orders: apply decisions on unknown statuses": _every(
        2, "orders.tasks.apply_status_decisions", "staff"
    ),
    "orders: reread open results of earlier releases": _every(
        60, "orders.tasks.reread_open_results", "staff"
    ),
    "orders: reread closed results of earlier releases": _every(
        60, "orders.tasks.reread_closed_results", "bulk"
    ),
    "orders: check counters, delete old activity": _every(
        3_600, "orders.tasks.check_counters", "bulk"
    ),
    "orders: delete old drafts": _every(3_600, "orders.tasks.delete_old_drafts", "bulk"),
    "orders: sync unmatched results": _every(10, "orders.tasks.sync_unmatched", "bulk"),
    "patients: deliver commands": _every(2, "patients.tasks.deliver", "outbox"),
    "patients: sync users, providers": _every(10, "patients.tasks.sync_lists", "bulk"),
    "patients: look up demographics, insurance, sources": _every(
        3, "patients.tasks.look_up", "bulk"
    ),
    "patients: delete old drafts and links": _every(
        3_600, "patients.tasks.delete_old_drafts_and_links", "bulk"
    ),
    "labs: deliver commands": _every(2, "labs.tasks.deliver", "outbox"),
    "labs: sync labs, tests, markers": _every(30, "labs.tasks.sync_lists", "bulk"),
    "reports: send": _every(2, "labs.tasks.send_reports", "bulk"),
    "reports: follow progress": _every(3, "labs.tasks.follow_reports", "staff"),
    "reports: delete orphaned files": _every(3_600, "labs.tasks.delete_orphaned_files", "bulk"),
    "labs: look up markers of lab tests": _every(10, "labs.tasks.look_up", "bulk"),
    "wearables: sync historical pulls": _every(30, "patients.wearables.tasks.sync_pulls", "bulk"),
    "wearables: look up ranges, streams": _every(3, "patients.wearables.tasks.look_up", "bulk"),
    "wearables: delete old samples": _every(
        3_600, "patients.wearables.tasks.delete_old_samples", "bulk"
    ),
    "lists: run bulk actions": _every(2, "backoffice.operations.tasks.run_bulk_actions", "staff"),
    "team: notify about commands": _every(
        10, "backoffice.operations.tasks.notify_about_commands", "bulk"
    ),
    "team: notify about orders": _every(5, "orders.tasks.notify_staff", "bulk"),
    "team: send emails": _every(10, "backoffice.operations.tasks.send_emails", "bulk"),
    "audit: seal new entries": _every(60, "backoffice.operations.tasks.seal_audit_entries", "bulk"),
    "audit: verify the chain": _every(60, "backoffice.operations.tasks.verify_audit_chain", "bulk"),
    "audit: archive old entries": _every(
        3_600, "backoffice.operations.tasks.archive_old_audit_entries", "bulk"
    ),
    "runs: delete old runs": _every(3_600, "backoffice.operations.tasks.delete_old_runs", "bulk"),
}
QUEUES: Final = tuple(queue.name for queue in app.conf.task_queues)
for _queue in QUEUES:
    app.conf.beat_schedule[f"{_queue}: heartbeat"] = _every(
        HEARTBEAT_SECONDS, "backoffice.operations.tasks.heartbeat", _queue
    )
app.autodiscover_tasks()
app.autodiscover_tasks(["backoffice.operations"])


@beat_init.connect
def _run_everything_at_start(sender: Service, **_signal: object) -> None:
    """Make every schedule entry due when beat starts.

    Otherwise each first waits its interval, and where beat restarts more than once an hour, hourly
    entries would never run.
    """
    for entry in sender.scheduler.schedule.values():
        entry.last_run_at = app.now() - timedelta(days=1)


@worker_init.connect
def _refuse_another_database(**_signal: object) -> None:
    from backoffice.core import installation

    try:
        installation.verify()
    except ImproperlyConfigured as error:
        raise SystemExit(str(error)) from None  # Celery goes on after any other exception here.
