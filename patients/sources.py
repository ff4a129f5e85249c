"""Sources of device data of a patient, with their historical pulls and newest data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final
from uuid import UUID

from django.db.models import QuerySet

from backoffice.core.prepared_queries import by_key, where
from backoffice.mirror.models import AS_RECEIVED
from backoffice.outbox.models import CommandRecord
from patients.commands import Deregister
from patients.models import Connection, Patient, Provider

FAILING_STATUSES: Final = ("failure", "retrying")


@dataclass(slots=True, eq=False)
class ConnectedSourceRow:
    """One source. Without a connection it is known only from its pulls."""

    slug: str
    name: str
    connection: Connection | None
    pulls: list[Any] = field(default_factory=list)
    asked_to_end: CommandRecord | None = None
    last_data: datetime | None = None

    @property
    def in_trouble(self) -> int:
        """Return the number of failing pulls."""
        return sum(pull.status in FAILING_STATUSES for pull in self.pulls)

    def for_support(self, patient_id: UUID) -> str:
        """Return a text for support: ids and states, nothing about the person."""
        one = self.connection
        lines = [f"Source: {self.slug}", f"User: {patient_id}"]
        if one is not None:
            lines += [f"State: {one.status}", f"Connected since: {_time(one.created_on)}"]
            if one.error_type:
                lines.append(f"Error: {one.error_type}, {_time(one.errored_at)}")
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


def related(patient: Patient, name: str) -> QuerySet[Any]:
    """Return the rows of a higher app that refer to the patient, without importing the app."""
    rows: QuerySet[Any] = getattr(patient, name).all()
    return rows


def sources_of(
    patient: Patient, last: Mapping[str, datetime] | None = None
) -> list[ConnectedSourceRow]:
    """Return the sources with their pulls. Sources without a connection come last.

    `last`: time of the newest data by provider.
    """
    last = last or {}
    pulls: dict[str, list[Any]] = {}
    pull_model = related(patient, "historical_pulls").model
    in_order = "user_id = %s ORDER BY provider, resource"
    for pull in where(pull_model, in_order, [patient.pk], but=AS_RECEIVED):
        pulls.setdefault(pull.provider, []).append(pull)
    connections = where(Connection, "user_id = %s ORDER BY name", [patient.pk], but=AS_RECEIVED)
    sources = [
        ConnectedSourceRow(
            one.slug, one.name, one, pulls.pop(one.slug, []), last_data=last.get(one.slug)
        )
        for one in connections
    ]
    names = {slug: one.name for slug, one in by_key(Provider, pulls, ("name",)).items()}
    rest = [
        ConnectedSourceRow(
            slug, names.get(slug, slug), None, pulls_of_source, last_data=last.get(slug)
        )
        for slug, pulls_of_source in pulls.items()
    ]
    current = [one for one in connections if one.missing_since is None]
    commands = ineffective_disconnects(patient.pk, {one.slug: one.created_on for one in current})
    for source in sources:
        source.asked_to_end = commands.get(source.slug)
    return sources + rest


def _time(moment: datetime | None) -> str:
    return f"{moment.astimezone(UTC):%Y-%m-%d %H:%M} UTC" if moment else "-"


def ineffective_disconnects(patient_id: UUID, slugs: dict[str, Any]) -> dict[str, CommandRecord]:
    """Return by slug the accepted disconnect commands of sources that are still connected.

    `slugs`: when each source was connected.
    """
    if not slugs:
        return {}
    rows = CommandRecord.objects.about("patient", patient_id).filter(
        kind=Deregister.kind, state=CommandRecord.State.DONE, remote_id__in=list(slugs)
    )
    commands: dict[str, CommandRecord] = {}
    for row in rows:
        if row.sent_at is None or row.sent_at > slugs[row.remote_id]:
            commands.setdefault(row.remote_id, row)
    return commands
