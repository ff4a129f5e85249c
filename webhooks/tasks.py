"""Celery tasks of the inbox, sent by beat."""

from celery import shared_task

from backoffice.outbox import delivery
from backoffice.sync.lookups import run_due_lookups
from webhooks import apply_events, body_encryption, retention, silence
from webhooks.commands import COMMANDS

TIME_SLICE = 5.0
"""Seconds that a task works: far less than its time limit. Beat sends the next task within a
second.
"""
MAINTENANCE_SLICE = 30.0
"""Seconds in which bodies may be deleted or encrypted. The rest waits for the next task."""


@shared_task
def apply_due_events() -> None:
    apply_events.drain(seconds=TIME_SLICE)


@shared_task
def check_silence() -> None:
    silence.schedule_resends()
    run_due_lookups([silence.RESEND_LOOKUPS], seconds=TIME_SLICE)


@shared_task
def encrypt_bodies() -> None:
    body_encryption.encrypt_bodies(seconds=MAINTENANCE_SLICE)


@shared_task
def delete_old_bodies() -> None:
    retention.delete_old_bodies(seconds=MAINTENANCE_SLICE)


@shared_task(soft_time_limit=delivery.MAX_TASK_SECONDS, time_limit=delivery.MAX_TASK_SECONDS + 30)
def deliver() -> None:
    delivery.deliver(COMMANDS)
