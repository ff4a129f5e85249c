"""What beat rings for about the inbox. Shells: the work is in `applying`."""

from celery import shared_task

from webhooks import applying

SLICE = 5.0
"""Seconds: look-ups and changes wait on the same queue."""


@shared_task
def drain() -> None:
    applying.drain(seconds=SLICE)
