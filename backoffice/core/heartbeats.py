"""State of the deployment: worker heartbeats, backups, and the hold on sending."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from django.db import connection, models, transaction
from django.db.models.functions import Now
from django.utils.translation import gettext_noop

from backoffice.core.models import Backup, Heartbeat, Hold

ON_HOLD: Final = gettext_noop(
    "Sending is on hold because this back office was restored from a backup."
)

NOT_ON_HOLD: Final = f"NOT EXISTS (SELECT FROM {Hold._meta.db_table} WHERE released_at IS NULL)"
"""SQL condition for statements that claim commands to send."""

_UPSERT_HEARTBEAT: Final = f"""
INSERT INTO {Heartbeat._meta.db_table} (queue, worker, at) VALUES (%s, %s, now())
ON CONFLICT (queue) DO UPDATE SET worker = excluded.worker, at = excluded.at
"""
_AGES: Final = f"SELECT queue, extract(epoch FROM now() - at) FROM {Heartbeat._meta.db_table}"


def record_heartbeat(queue: str, worker: str) -> None:
    """Record that a worker took a heartbeat message from a queue."""
    with connection.cursor() as cursor:
        cursor.execute(_UPSERT_HEARTBEAT, [queue, worker[:100]])


def heartbeat_ages() -> dict[str, float]:
    """Return seconds since the last heartbeat by queue, by the database's clock."""
    with connection.cursor() as cursor:
        cursor.execute(_AGES)
        return {queue: float(age) for queue, age in cursor.fetchall()}


def active_hold() -> Hold | None:
    """Return the hold that is active, if any."""
    return Hold.objects.filter(released_at=None).first()


def release_hold(user_id: int | None) -> bool:
    """End the hold; returns False when there was none. `user_id` is None on the command line."""
    with transaction.atomic():
        return bool(
            Hold.objects.filter(released_at=None).update(released_at=Now(), released_by=user_id)
        )


def backup_age() -> timedelta | None:
    """Return the age of the data in the latest backup; None without a backup."""
    latest = Backup.objects.annotate(age=Now() - models.F("at")).order_by("-at").first()
    return latest.age if latest else None
