"""Celery tasks of patients. The work is in `backoffice.sync` and `backoffice.outbox`."""

from celery import shared_task

from backoffice.outbox import delivery
from backoffice.sync import runs
from backoffice.sync.lookups import run_due_lookups
from backoffice.sync.runs import sync_when_due
from patients.commands import COMMANDS, follow_resolved_payors
from patients.models import ConnectLink, RegistrationDraft
from patients.sync import LOOKUP_TYPES, SYNCED_LISTS


@shared_task(soft_time_limit=runs.MAX_TASK_SECONDS, time_limit=runs.MAX_TASK_SECONDS + 60)
def sync_lists() -> None:
    for synced_list in SYNCED_LISTS:
        sync_when_due(synced_list, seconds=runs.TIME_SLICE_SECONDS / len(SYNCED_LISTS))


@shared_task
def look_up() -> None:
    run_due_lookups(LOOKUP_TYPES, seconds=runs.TIME_SLICE_SECONDS)


@shared_task(soft_time_limit=delivery.MAX_TASK_SECONDS, time_limit=delivery.MAX_TASK_SECONDS + 30)
def deliver() -> None:
    delivery.deliver(COMMANDS)
    follow_resolved_payors()


@shared_task
def delete_old_drafts_and_links() -> None:
    RegistrationDraft.forget_old()
    ConnectLink.forget_old()
