"""What beat rings for about the back office itself."""

from celery import shared_task

from backoffice import changes, outbox, sync


@shared_task
def prune() -> None:
    sync.prune()
    outbox.forget()
    changes.prune()
