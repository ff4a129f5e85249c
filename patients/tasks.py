"""Celery tasks of patients. The work is in `backoffice.sync` and `backoffice.outbox`."""

from celery import shared_task

from backoffice import outbox, sync
from patients.commands import COMMANDS, follow_resolved_payors
from patients.models import ConnectLink, RegistrationDraft
from patients.sync import LOOKUP_TYPES, SYNCED_LISTS


@shared_task(soft_time_limit=sync.MAX_TASK_SECONDS, time_limit=sync.MAX_TASK_SECONDS + 60)
def sync_lists() -> None:
    for synced_list in SYNCED_LISTS:
        sync.tick(synced_list, seconds=sync.TIME_SLICE_SECONDS / len(SYNCED_LISTS))


@shared_task
def look_up() -> None:
    sync.run_due_lookups(LOOKUP_TYPES, seconds=sync.TIME_SLICE_SECONDS)


@shared_task(soft_time_limit=outbox.MAX_TASK_SECONDS, time_limit=outbox.MAX_TASK_SECONDS + 30)
def deliver() -> None:
    outbox.deliver(COMMANDS)
    follow_resolved_payors()


@shared_task
def forget() -> None:
    RegistrationDraft.forget_old()
    ConnectLink.forget_old()
