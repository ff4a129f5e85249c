"""What beat rings for about the catalogue. Shells: the work is in `backoffice/sync`."""

from celery import shared_task
from django.utils import timezone

from backoffice import outbox, sync
from labs.commands import COMMANDS
from labs.reports import delivery, intake
from labs.reports.sync import JOB_SUBJECT, file_strays
from labs.sync import LISTINGS, SUBJECTS


@shared_task(soft_time_limit=sync.LONGEST, time_limit=sync.LONGEST + 60)
def sync_lists() -> None:
    for listing in LISTINGS:
        sync.tick(listing, seconds=sync.SLICE / len(LISTINGS))


@shared_task
def look_up() -> None:
    sync.drain(SUBJECTS, seconds=sync.SLICE)


@shared_task(soft_time_limit=delivery.LONGEST, time_limit=delivery.LONGEST + 30)
def send_reports() -> None:
    delivery.send_due()


@shared_task
def follow_reports() -> None:
    sync.drain([JOB_SUBJECT], seconds=sync.SLICE)


@shared_task
def tidy_reports() -> None:
    intake.tidy(timezone.now())
    file_strays()


@shared_task(soft_time_limit=outbox.MAX_TASK_SECONDS, time_limit=outbox.MAX_TASK_SECONDS + 30)
def deliver() -> None:
    outbox.deliver(COMMANDS)
