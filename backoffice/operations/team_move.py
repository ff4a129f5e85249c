"""Move this installation to another team of the service, for `manage.py adoptteam`.

Nothing is deleted. Patients and orders of the former team stay readable and are marked as missing
at the service, because the service does not show them to the key of the new team. A move back to
the former team finds them again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from django.db import connection, transaction
from django.db.models import F, QuerySet
from django.db.models.functions import Now
from django.utils.translation import gettext_noop

from backoffice.audit.recording import record_console_action
from backoffice.core import service_team
from backoffice.core.installation import INSTALLATION_ID
from backoffice.core.models import Installation
from backoffice.outbox.models import CommandRecord
from backoffice.pages.models import BulkRun
from backoffice.sync.models import Lookup, SyncRun
from backoffice.sync.runs import SyncedList, request_run
from labs.reports.models import SENDING, STORED, UNCERTAIN, Report
from orders.models import Order
from patients.models import Patient
from webhooks.models import Event

MOVED: Final = gettext_noop("This installation moved to another team of the service.")
"""Error of the sync runs that were open at the move."""
_LOCK: Final = (
    f"LOCK TABLE {CommandRecord._meta.db_table}, {Report._meta.db_table},"
    f" {BulkRun._meta.db_table} IN SHARE MODE"
)


class CannotMove(Exception):
    """The move was refused and nothing was changed. The text is for the operator."""


@dataclass(frozen=True, slots=True)
class FormerRecords:
    """The number of records of the former team, which stay in the mirror."""

    patients: int
    orders: int
    unapplied_events: int

    @classmethod
    def count(cls, team: UUID) -> FormerRecords:
        unapplied = Event.objects.filter(state__in=[Event.State.PENDING, Event.State.RETRY])
        return cls(_patients(team).count(), _orders(team).count(), unapplied.count())


def waiting() -> list[str]:
    """Describe the open commands, reports and bulk actions; empty if there are none."""
    counts = {
        "requests waiting to be sent or for their outcome": CommandRecord.objects.open().count(),
        "reports waiting to be sent or for their outcome": Report.objects.filter(
            state__in=[STORED, SENDING, UNCERTAIN]
        ).count(),
        "bulk actions in progress": BulkRun.objects.filter(state=BulkRun.State.OPEN).count(),
    }
    return [f"{words}: {count}" for words, count in counts.items() if count]


def move(our_team: UUID, their_team: UUID, synced_lists: Sequence[SyncedList]) -> None:
    """Store `their_team` as the team of this installation, and request full syncs of its records.

    Raises CannotMove if something waits to be sent, or if the team was changed meanwhile.
    """
    with transaction.atomic(durable=True):
        with connection.cursor() as cursor:
            # Nobody can enqueue a command between the check and the change.
            cursor.execute(_LOCK)
        if open_work := waiting():
            raise CannotMove(open_work_message(open_work))
        if service_team.mirror_team() != our_team:
            raise CannotMove("Someone else just changed the team.")
        Installation.objects.filter(pk=INSTALLATION_ID).update(team_id=their_team)
        _patients(our_team).filter(missing_since=None).update(missing_since=Now())
        _orders(our_team).filter(missing_since=None).update(missing_since=Now())
        # Lookups of the former team's records would fail again and again.
        Lookup.objects.filter(due_at__isnull=False).update(
            due_at=None, attempts=0, error="", generation=F("generation") + 1
        )
        SyncRun.objects.filter(state__in=[SyncRun.State.DUE, SyncRun.State.RUNNING]).update(
            state=SyncRun.State.FAILED, finished_at=Now(), lease_until=None, error=MOVED
        )
        record_console_action(
            "adopt team", [our_team, their_team], f"from team {our_team} to team {their_team}"
        )
    for synced_list in synced_lists:
        if synced_list.full and (run := request_run(synced_list)) is not None:
            # Without `expected_until` the run reports no drift. All records of the new team are
            # new here, and that is expected.
            SyncRun.objects.filter(pk=run.pk).update(checkpoint={})


def open_work_message(open_work: Sequence[str]) -> str:
    return (
        f"Nothing was changed: {', '.join(open_work)}. Wait until they end, or withdraw"
        " them (System > Requests, Uploaded reports), and run this again."
    )


def _patients(team: UUID) -> QuerySet[Patient]:
    return Patient.objects.filter(team_id=team)


def _orders(team: UUID) -> QuerySet[Order]:
    return Order.objects.filter(team_id=team)
