"""JSON API of device data: historical pulls and summaries. Samples: `samples_api.py`."""

from __future__ import annotations

from backoffice.accounts.access import requires
from backoffice.api.resources import Resource, exactly
from patients.api import USER_FILTER
from patients.wearables.models import HistoricalPull, Summary


@requires("patients.view")
class Pulls(Resource):
    """The backfill of one resource (users.md 7); `id` is `<user_id>:<provider>:<resource>`."""

    model = HistoricalPull
    patient = "user_id"
    key = ("user_id", "provider", "resource")
    columns = (
        "user_id",
        "provider",
        "resource",
        "status",
        "error_details",
        "days_with_data",
        "range_start",
        "range_end",
        "scheduled_at",
        "started_at",
        "ended_at",
        "release",
        "trace_id",
    )
    filters = (
        USER_FILTER,
        exactly("status", str, "Such as success, in_progress or failure"),
        exactly("provider", str, "Slug of the provider"),
    )


@requires("patients.view")
class Summaries(Resource):
    """A summary of any kind (wearables.md 2); columns of another resource are null."""

    model = Summary
    patient = "user_id"
    columns = tuple(
        field.attname
        for field in Summary._meta.concrete_fields
        if field.attname not in ("id", "record", "content_hash", "as_of", "missing_since", "number")
    )
    filters = (
        USER_FILTER,
        exactly("resource", str, "Such as activity or sleep"),
        exactly("provider", str, "Slug of the provider"),
    )
