"""What beat rings for about device data. Shells: the work is in `backoffice/sync`."""

from celery import shared_task

from backoffice import sync
from patients.wearables import partitions
from patients.wearables.backfills import SUBJECTS
from patients.wearables.sync import PULL_LIST


@shared_task(soft_time_limit=sync.LONGEST, time_limit=sync.LONGEST + 60)
def sync_pulls() -> None:
    sync.tick(PULL_LIST, seconds=sync.SLICE)


@shared_task
def look_up() -> None:
    sync.drain(SUBJECTS, seconds=sync.SLICE)


@shared_task
def forget() -> None:
    partitions.forget()
