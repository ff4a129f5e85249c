"""What beat rings for about the inbox. Shells: the work is elsewhere."""

from celery import shared_task

from backoffice import sync
from webhooks import applying, silence

SLICE = 5.0
"""Seconds: look-ups and changes wait on the same queue."""


@shared_task
def drain() -> None:
    applying.drain(seconds=SLICE)


@shared_task
def listen() -> None:
    silence.notice()
    sync.drain([silence.RESEND_SUBJECT], seconds=SLICE)
