"""What beat rings for about the back office itself."""

from typing import Any

from celery import shared_task

from backoffice import changes, outbox, sync, upkeep
from backoffice.lists import bulk
from backoffice.team import mailing, telling


@shared_task
def prune() -> None:
    sync.prune()
    outbox.forget()
    bulk.forget()
    changes.prune()


@shared_task
def tell() -> None:
    telling.tell_of_requests()


@shared_task
def mail() -> None:
    mailing.send_due()


@shared_task(bind=True)
def heartbeat(self: Any) -> None:
    """Rung through every queue."""
    upkeep.beat(self.request.delivery_info["routing_key"], self.request.hostname)
