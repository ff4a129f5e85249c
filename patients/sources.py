"""Sources of device data of a patient, with their historical pulls and newest data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from types import MappingProxyType
from typing import TYPE_CHECKING
from uuid import UUID

from backoffice.core.prepared_queries import by_key, where
from backoffice.mirror.models import AS_RECEIVED
from backoffice.outbox.models import CommandRecord
from patients.commands import Deregister
from patients.models import FAILING_STATUSES, Connection, Patient, Provider

if TYPE_CHECKING:
    # Only for types: the wearables app imports this one.
    from patients.wearables.models import HistoricalPull


@dataclass(slots=True, eq=False)
class ConnectedSourceRow:
    """A source, its pulls and its newest data. Without a connection it has only pulls.

    `asked_to_end`: the accepted command that should have ended the connection.
    """

    slug: str
    name: str
    connection: Connection | None
    pulls: list[HistoricalPull] = field(default_factory=list)
    asked_to_end: CommandRecord | None = None
    last_data: datetime | None = None

    @property
    def in_trouble(self) -> int:
        """Return the number of failing pulls."""
        return sum(pull.status in FAILING_STATUSES for pull in self.pulls)

    def for_support(self, patient_id: UUID) -> str:
        """Return a text for support: ids and states, nothing about the person."""
        connection = self.connection
        lines = [f"Source: {self.slug}", f"User: {patient_id}"]
        if connection is not None:
            lines += [
                f"State: {connection.status}",
                f"Connected since: {_time(connection.created_on)}",
            ]
            if connection.error_type:
                lines.append(f"Error: {connection.error_type}, {_time(connection.errored_at)}")
        else:
            lines.append("State: not connected")
        lines.append(f"Last data: {_time(self.last_data)}")
        for pull in self.pulls:
            parts = [pull.status]
            if pull.error_details:
                parts.append(pull.error_details)
            parts += [
                f"days with data {pull.days_with_data}",
                f"range {_time(pull.range_start)} to {_time(pull.range_end)}",
                f"scheduled {_time(pull.scheduled_at)}",
                f"started {_time(pull.started_at)}",
                f"ended {_time(pull.ended_at)}",
                f"trace {pull.trace_id or '-'}",
            ]
            lines.append(f"{pull.resource}: {', '.join(parts)}")
        return "\n".join(lines)


def sources_of(
    patient: Patient, last_data: Mapping[str, datetime] = MappingProxyType({})
) -> list[ConnectedSourceRow]:
    """Return the sources with their pulls. Sources without a connection come last.

    `last_data`: time of the newest data by provider.
    """
    pulls: dict[str, list[HistoricalPull]] = {}
    for pull in where(
        patient.historical_pulls.model,
        "user_id = %s ORDER BY provider, resource",
        [patient.pk],
        exclude=AS_RECEIVED,
    ):
        pulls.setdefault(pull.provider, []).append(pull)
    connections = where(Connection, "user_id = %s ORDER BY name", [patient.pk], exclude=AS_RECEIVED)
    sources = [
        ConnectedSourceRow(row.slug, row.name, row, pulls.pop(row.slug, [])) for row in connections
    ]
    providers = by_key(Provider, pulls, ("name",))
    sources += [
        ConnectedSourceRow(slug, providers[slug].name if slug in providers else slug, None, rest)
        for slug, rest in pulls.items()
    ]
    connected_at = {row.slug: row.created_on for row in connections if row.missing_since is None}
    disconnects = ineffective_disconnects(patient.pk, connected_at)
    for source in sources:
        source.last_data = last_data.get(source.slug)
        source.asked_to_end = disconnects.get(source.slug)
    return sources


def _time(moment: datetime | None) -> str:
    return f"{moment.astimezone(UTC):%Y-%m-%d %H:%M} UTC" if moment else "-"


def ineffective_disconnects(
    patient_id: UUID, connected_at: Mapping[str, datetime]
) -> dict[str, CommandRecord]:
    """Return by slug the accepted disconnect commands of sources that are still connected.

    `connected_at`: the time of connection by slug.
    """
    if not connected_at:
        return {}
    rows = CommandRecord.objects.about("patient", patient_id).filter(
        kind=Deregister.kind, state=CommandRecord.State.DONE, remote_id__in=list(connected_at)
    )
    commands: dict[str, CommandRecord] = {}
    for row in rows:
        if row.sent_at is None or row.sent_at > connected_at[row.remote_id]:
            commands.setdefault(row.remote_id, row)
    return commands
