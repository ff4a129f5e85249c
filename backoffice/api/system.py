"""Resources of the JSON API for sync runs and commands."""

from __future__ import annotations

from uuid import UUID

from backoffice.accounts.access import requires
from backoffice.api.resources import Resource, exactly
from backoffice.outbox.models import CommandRecord
from backoffice.sync.models import SyncRun


@requires("system.view")
class Runs(Resource):
    """One sync run over a list of the service."""

    model = SyncRun
    mirrored = False
    columns = (
        "resource",
        "full",
        "state",
        "created_at",
        "started_at",
        "finished_at",
        "window_start",
        "server_date",
        "due_at",
        "attempts",
        "total",
        "fetched",
        "created",
        "changed",
        "unchanged",
        "older",
        "unseen",
        "unreadable",
        "drifted",
        "error",
    )
    filters = (
        exactly("resource", str, "Only runs over this list"),
        exactly("state", str, "One of due, running, done, failed"),
    )


@requires("commands.view")
class Commands(Resource):
    """One command: a write to the service that staff requested."""

    model = CommandRecord
    mirrored = False
    patient = "patient_id"
    columns = (
        "kind",
        "state",
        "subject_type",
        "subject_id",
        "patient_id",
        "requested_at",
        "attempts",
        "first_sent_at",
        "remote_id",
        "confirmed_by",
        "refusal",
        "status",
        "finished_at",
    )
    filters = (
        exactly("kind", str, "Only commands of this kind, such as order.cancel"),
        exactly("state", str, "One of waiting, sending, uncertain, undecided, done, refused, …"),
        exactly("subject_id", str, "Only commands about this record"),
        exactly("patient_id", UUID, "Only commands about this patient"),
    )
