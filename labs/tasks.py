"""Celery tasks of labs and reports. The work is in the functions that they call."""

from celery import shared_task
from django.utils import timezone

from backoffice.outbox.delivery import MAX_TASK_SECONDS
from backoffice.outbox.delivery import deliver as deliver_commands
from backoffice.sync import runs
from backoffice.sync.lookups import run_due_lookups
from backoffice.sync.runs import sync_when_due
from labs.commands import COMMANDS
from labs.reports import delivery, intake
from labs.reports.sync import JOB_LOOKUP, create_missing_reports
from labs.sync import LOOKUP_TYPES, SYNCED_LISTS


@shared_task(soft_time_limit=runs.MAX_TASK_SECONDS, time_limit=runs.MAX_TASK_SECONDS + 60)
def sync_lists() -> None:
    for synced_list in SYNCED_LISTS:
        sync_when_due(synced_list, seconds=runs.TIME_SLICE_SECONDS / len(SYNCED_LISTS))


@shared_task
def look_up() -> None:
    run_due_lookups(LOOKUP_TYPES, seconds=runs.TIME_SLICE_SECONDS)


@shared_task(soft_time_limit=MAX_TASK_SECONDS, time_limit=MAX_TASK_SECONDS + 30)
def send_reports() -> None:
    delivery.send_due()


@shared_task
def follow_reports() -> None:
    run_due_lookups([JOB_LOOKUP], seconds=runs.TIME_SLICE_SECONDS)


@shared_task
def delete_orphaned_files() -> None:
    intake.delete_orphaned_files(timezone.now())
    create_missing_reports()


@shared_task(soft_time_limit=MAX_TASK_SECONDS, time_limit=MAX_TASK_SECONDS + 30)
def deliver() -> None:
    deliver_commands(COMMANDS)
