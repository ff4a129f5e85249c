"""Cases of what is asked about webhook endpoints."""

from __future__ import annotations

import uuid
from uuid import UUID

from backoffice.core.service_client import service
from tests.outbox.scene import Case, Scene
from webhooks.commands import CreateEndpoint, DeleteEndpoint, RotateSecret, SwitchEndpoint

TEAM = UUID("7ea00000-0000-4000-8000-000000000001")


def _url() -> str:
    """Where nobody answers."""
    return f"http://127.0.0.1:9/{uuid.uuid4().hex}/webhooks/"


def _create(scene: Scene) -> CreateEndpoint:
    return CreateEndpoint(team_id=TEAM, url=_url())


def _created(scene: Scene, command: CreateEndpoint, _: UUID) -> int:
    return scene.count("SELECT count(*) FROM sandbox_webhookendpoint WHERE url = %s", command.url)


def _rotate(scene: Scene) -> RotateSecret:
    made = service().management.create_webhook(TEAM, _url(), "Made up")
    return RotateSecret(team_id=TEAM, endpoint_id=made.data.id)


def _rotated(scene: Scene, command: RotateSecret, _: UUID) -> int:
    return scene.count(
        "SELECT count(*) FROM sandbox_webhookendpoint WHERE id = %s AND former_secret IS NOT NULL",
        command.endpoint_id,
    )


def _switch(scene: Scene) -> SwitchEndpoint:
    made = service().management.create_webhook(TEAM, _url(), "Made up")
    return SwitchEndpoint(team_id=TEAM, endpoint_id=made.data.id, disabled=True)


def _switched(scene: Scene, command: SwitchEndpoint, _: UUID) -> int:
    return scene.count(
        "SELECT count(*) FROM sandbox_webhookendpoint WHERE id = %s AND disabled",
        command.endpoint_id,
    )


def _delete(scene: Scene) -> DeleteEndpoint:
    made = service().management.create_webhook(TEAM, _url(), "Made up")
    return DeleteEndpoint(team_id=TEAM, endpoint_id=made.data.id)


def _deleted(scene: Scene, command: DeleteEndpoint, _: UUID) -> int:
    return 1 - scene.count(
        "SELECT count(*) FROM sandbox_webhookendpoint WHERE id = %s", command.endpoint_id
    )


CASES = (
    Case(CreateEndpoint, _create, _created, "/webhook$"),
    Case(RotateSecret, _rotate, _rotated, "/secret/rotate$"),
    Case(SwitchEndpoint, _switch, _switched, "/webhook/[^/]+$"),
    Case(DeleteEndpoint, _delete, _deleted, "/webhook/[^/]+$"),
)
