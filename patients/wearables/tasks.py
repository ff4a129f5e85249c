"""Celery tasks of device data. The work is in `backoffice.sync`."""

from celery import shared_task

from backoffice import sync
from patients.wearables import partitions
from patients.wearables.backfills import LOOKUP_TYPES
from patients.wearables.sync import PULL_LIST


@shared_task(soft_time_limit=sync.MAX_TASK_SECONDS, time_limit=sync.MAX_TASK_SECONDS + 60)
def sync_pulls() -> None:
    sync.tick(PULL_LIST, seconds=sync.TIME_SLICE_SECONDS)


@shared_task
def look_up() -> None:
    sync.run_due_lookups(LOOKUP_TYPES, seconds=sync.TIME_SLICE_SECONDS)


@shared_task
def forget() -> None:
    partitions.forget()
