"""Celery tasks about orders. Each only calls a function of another module."""

from celery import shared_task

from backoffice.outbox import delivery
from backoffice.sync import runs
from backoffice.sync.lookups import run_due_lookups
from backoffice.sync.runs import sync_when_due
from orders import decided_statuses
from orders.commands import COMMANDS
from orders.documents import printing
from orders.models import OrderDraft
from orders.notifications import notify_order_changes
from orders.results import queue, rereading
from orders.results.escalation import escalate_criticals
from orders.sync import ALL_ORDERS, CHANGED_ORDERS, LOOKUP_TYPES
from orders.sync.unmatched import SYNCED_LIST as UNMATCHED
from orders.today import counts
from orders.turnaround.measurement import measure_when_due

LOOK_UP_SECONDS = 8.0
"""Seconds that a task looks up records. This is less than a slice of a sync, because commands wait
in the same queue meanwhile.
"""


@shared_task(soft_time_limit=runs.MAX_TASK_SECONDS, time_limit=runs.MAX_TASK_SECONDS + 60)
def sync_changes() -> None:
    sync_when_due(CHANGED_ORDERS, seconds=runs.TIME_SLICE_SECONDS)


@shared_task(soft_time_limit=runs.MAX_TASK_SECONDS, time_limit=runs.MAX_TASK_SECONDS + 60)
def sync_all() -> None:
    sync_when_due(ALL_ORDERS, seconds=runs.TIME_SLICE_SECONDS)


@shared_task(soft_time_limit=runs.MAX_TASK_SECONDS, time_limit=runs.MAX_TASK_SECONDS + 60)
def sync_unmatched() -> None:
    sync_when_due(UNMATCHED, seconds=runs.TIME_SLICE_SECONDS)


@shared_task
def look_up() -> None:
    run_due_lookups(LOOKUP_TYPES, seconds=LOOK_UP_SECONDS)


@shared_task(soft_time_limit=delivery.MAX_TASK_SECONDS, time_limit=delivery.MAX_TASK_SECONDS + 30)
def deliver() -> None:
    delivery.deliver(COMMANDS)


@shared_task(soft_time_limit=600, time_limit=660)
def measure_usual_times() -> None:
    measure_when_due()


@shared_task
def notify_staff() -> None:
    notify_order_changes()
    escalate_criticals()


@shared_task
def compact_counters() -> None:
    counts.compact_counts()
    queue.compact_tally()


@shared_task
def apply_status_decisions() -> None:
    decided_statuses.apply_decisions()
    rereading.apply_decisions()


@shared_task
def reread_open_results() -> None:
    rereading.reread_open_results()


@shared_task
def reread_closed_results() -> None:
    rereading.reread_closed_results()


@shared_task
def check_counters() -> None:
    counts.repair()
    counts.delete_old_activity()


@shared_task
def delete_old_drafts() -> None:
    OrderDraft.forget_old()
    printing.expire()


@shared_task(soft_time_limit=printing.LONGEST, time_limit=printing.LONGEST + 20)
def print_documents() -> None:
    printing.work()
