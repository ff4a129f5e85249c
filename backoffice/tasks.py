"""What beat rings for about the back office itself."""

from celery import shared_task

from backoffice import sync


@shared_task
def prune() -> None:
    sync.prune()
