"""Celery tasks of the `backoffice` package, started by beat."""

from typing import Any

from celery import shared_task

from backoffice.accounts import emails as account_mailing
from backoffice.accounts import throttle
from backoffice.accounts.session_store import SessionStore
from backoffice.audit import chain_head, retention, seals, verification
from backoffice.core import heartbeats, live_changes
from backoffice.outbox.maintenance import erase_contents
from backoffice.pages.lists import bulk
from backoffice.pages.lists.registry import all_lists
from backoffice.sync import runs
from backoffice.team import emails, notifications

TIDYING = 30.0
"""Seconds that one task may seal or remove audit entries. The next task continues."""


@shared_task
def delete_old_runs() -> None:
    runs.delete_old_runs()
    erase_contents()
    bulk.delete_old_runs()
    live_changes.prune()
    throttle.delete_empty_buckets()
    SessionStore.clear_expired()


@shared_task
def run_bulk_actions() -> None:
    bulk.process_runs(all_lists())


@shared_task
def notify_about_commands() -> None:
    notifications.notify_request_outcomes()


@shared_task
def send_emails() -> None:
    account_mailing.send_due()
    emails.send_due()


@shared_task(bind=True)
def heartbeat(self: Any) -> None:
    """Record a heartbeat of the queue. Beat sends this task through every queue."""
    heartbeats.record_heartbeat(self.request.delivery_info["routing_key"], self.request.hostname)


@shared_task
def seal_audit_entries() -> None:
    chain_head.seal_and_remember(seconds=TIDYING)
    seals.flush_index_pending_lists()


@shared_task(soft_time_limit=runs.MAX_TASK_SECONDS, time_limit=runs.MAX_TASK_SECONDS + 60)
def verify_audit_chain() -> None:
    verification.run_due_check()


@shared_task
def archive_old_audit_entries() -> None:
    retention.remove_expired(seconds=TIDYING)
