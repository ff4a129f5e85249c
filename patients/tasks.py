"""What beat rings for about patients. Shells: the work is in `backoffice/sync`."""

from celery import shared_task

from backoffice import outbox, sync
from patients.commands import COMMANDS, follow_resolved_payors
from patients.models import ConnectLink, RegistrationDraft
from patients.sync import LISTINGS, SUBJECTS


@shared_task(soft_time_limit=sync.LONGEST, time_limit=sync.LONGEST + 60)
def sync_lists() -> None:
    for listing in LISTINGS:
        sync.tick(listing, seconds=sync.SLICE / len(LISTINGS))


@shared_task
def look_up() -> None:
    sync.drain(SUBJECTS, seconds=sync.SLICE)


@shared_task(soft_time_limit=outbox.MAX_TASK_SECONDS, time_limit=outbox.MAX_TASK_SECONDS + 30)
def deliver() -> None:
    outbox.deliver(COMMANDS)
    follow_resolved_payors()


@shared_task
def forget() -> None:
    RegistrationDraft.forget_old()
    ConnectLink.forget_old()
