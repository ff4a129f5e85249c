"""JSON API of the back office's own work: sync runs."""

from __future__ import annotations

from backoffice.access import requires
from backoffice.api import Resource, exactly
from backoffice.models import SyncRun


@requires("system.view")
class Runs(Resource):
    """One walk over a list of the service."""

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
