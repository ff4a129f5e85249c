"""Cases of commands about webhook endpoints."""

from __future__ import annotations

import uuid
from uuid import UUID

from backoffice.core.service_client import service
from tests.outbox.records import CommandCase, SandboxRecords
from webhooks.commands import CreateEndpoint, DeleteEndpoint, RotateSecret, SwitchEndpoint

TEAM = UUID("7ea00000-0000-4000-8000-000000000001")


def _unused_url() -> str:
    """Return a new address where nothing listens."""
    return f"http://127.0.0.1:9/{uuid.uuid4().hex}/webhooks/"


def _create_endpoint(records: SandboxRecords) -> CreateEndpoint:
    return CreateEndpoint(team_id=TEAM, url=_unused_url())


def _count_endpoints(records: SandboxRecords, command: CreateEndpoint, _: UUID) -> int:
    return records.count("SELECT count(*) FROM sandbox_webhookendpoint WHERE url = %s", command.url)


def _create_rotation(records: SandboxRecords) -> RotateSecret:
    endpoint = service().management.create_webhook(TEAM, _unused_url(), "Made up")
    return RotateSecret(team_id=TEAM, endpoint_id=endpoint.data.id)


def _count_rotations(records: SandboxRecords, command: RotateSecret, _: UUID) -> int:
    return records.count(
        "SELECT count(*) FROM sandbox_webhookendpoint WHERE id = %s AND former_secret IS NOT NULL",
        command.endpoint_id,
    )


def _create_switch(records: SandboxRecords) -> SwitchEndpoint:
    endpoint = service().management.create_webhook(TEAM, _unused_url(), "Made up")
    return SwitchEndpoint(team_id=TEAM, endpoint_id=endpoint.data.id, disabled=True)


def _count_switches(records: SandboxRecords, command: SwitchEndpoint, _: UUID) -> int:
    return records.count(
        "SELECT count(*) FROM sandbox_webhookendpoint WHERE id = %s AND disabled",
        command.endpoint_id,
    )


def _create_deletion(records: SandboxRecords) -> DeleteEndpoint:
    endpoint = service().management.create_webhook(TEAM, _unused_url(), "Made up")
    return DeleteEndpoint(team_id=TEAM, endpoint_id=endpoint.data.id)


def _count_deletions(records: SandboxRecords, command: DeleteEndpoint, _: UUID) -> int:
    return 1 - records.count(
        "SELECT count(*) FROM sandbox_webhookendpoint WHERE id = %s", command.endpoint_id
    )


CASES = (
    CommandCase(CreateEndpoint, _create_endpoint, _count_endpoints, "/webhook$"),
    CommandCase(RotateSecret, _create_rotation, _count_rotations, "/secret/rotate$"),
    CommandCase(SwitchEndpoint, _create_switch, _count_switches, "/webhook/[^/]+$"),
    CommandCase(DeleteEndpoint, _create_deletion, _count_deletions, "/webhook/[^/]+$"),
)
