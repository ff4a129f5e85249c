"""Celery tasks of device data. The work is in `backoffice.sync`."""

from celery import shared_task

from backoffice.sync import runs
from backoffice.sync.lookups import run_due_lookups
from backoffice.sync.runs import sync_when_due
from patients.wearables import partitions
from patients.wearables.backfills import LOOKUP_TYPES
from patients.wearables.sync import PULL_LIST


@shared_task(soft_time_limit=runs.MAX_TASK_SECONDS, time_limit=runs.MAX_TASK_SECONDS + 60)
def sync_pulls() -> None:
    sync_when_due(PULL_LIST, seconds=runs.TIME_SLICE_SECONDS)


@shared_task
def look_up() -> None:
    run_due_lookups(LOOKUP_TYPES, seconds=runs.TIME_SLICE_SECONDS)


@shared_task
def delete_old_samples() -> None:
    partitions.drop_old()
