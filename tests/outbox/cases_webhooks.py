"""Cases of what is asked about webhook endpoints."""

from __future__ import annotations

import uuid
from uuid import UUID

from backoffice.remote import service
from tests.outbox.scene import Case, Scene
from webhooks.commands import CreateEndpoint, RotateSecret

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


CASES = (
    Case(CreateEndpoint, _create, _created, "/webhook$"),
    Case(RotateSecret, _rotate, _rotated, "/secret/rotate$"),
)
