"""JSON API of report jobs."""

from __future__ import annotations

from uuid import UUID

from backoffice.accounts.access import requires
from backoffice.api.resources import ChildRows, Resource, exactly
from labs.reports.models import Report, ReportJob, ReportResult


@requires("reports.view", "results.view")
class Reports(Resource):
    """A parsing job with its results (errors and limits, 7.2 and 7.3), and its upload.

    `upload` is the record of this product: its `state`, when it was accepted, and whether it was
    parsed again or corrected since, so that the acceptance is no longer valid. It is null for a job
    without a report.
    """

    model = ReportJob
    columns = (
        "user_id",
        "status",
        "failure_reason",
        "needs_human_review",
        "is_reviewed",
        "patient_first_name",
        "patient_last_name",
        "dob",
        "gender",
        "lab_name",
        "date_reported",
        "date_collected",
        "specimen_number",
    )
    patient = "user_id"
    children = (
        ChildRows(
            "results",
            ReportResult,
            "job_id",
            (
                "test_name",
                "value",
                "type",
                "units",
                "min_reference_range",
                "max_reference_range",
                "interpretation",
                "interpretation_received",
                "is_above_max_range",
                "is_below_min_range",
                "sample_type",
                "measurement_kind",
                "sensitivity",
                "source_panel_name",
                "loinc_match_status",
                "loinc_matches",
            ),
            order=("job_id", "position"),
        ),
        ChildRows(
            "upload",
            Report,
            "job_id",
            ("id", "state", "uploaded_at", "sent_at", "accepted_at", "changed_since_accepted"),
            many=False,
        ),
    )
    filters = (
        exactly("user_id", UUID, "Only jobs of this patient"),
        exactly("status", str, "Such as upload_pending, started, completed or failed"),
    )
