"""JSON API of report jobs."""

from __future__ import annotations

from django.db.models import Prefetch

from backoffice.accounts.access import requires
from backoffice.api.filters import FilterSet, TextFilter
from backoffice.api.serializers import MIRROR_FIELDS, ColumnSerializer, MirrorSerializer
from backoffice.api.viewsets import ResourceViewSet
from backoffice.pages.lists.filters import UUIDFilter
from labs.reports.models import Report, ReportJob, ReportResult


class ReportResultSerializer(ColumnSerializer):
    class Meta:
        model = ReportResult
        fields = (
            "test_name", "value", "type", "units", "min_reference_range", "max_reference_range",
            "interpretation", "interpretation_received", "is_above_max_range", "is_below_min_range",
            "sample_type", "measurement_kind", "sensitivity", "source_panel_name",
            "loinc_match_status", "loinc_matches",
        )  # fmt: skip


class UploadSerializer(ColumnSerializer):
    class Meta:
        model = Report
        fields = ("id", "state", "uploaded_at", "sent_at", "accepted_at", "changed_since_accepted")


class ReportSerializer(MirrorSerializer):
    results = ReportResultSerializer(many=True, read_only=True, source="sorted_results")
    upload = UploadSerializer(source="report", allow_null=True, read_only=True)

    class Meta:
        model = ReportJob
        fields = (
            "id", "user_id", "status", "failure_reason", "needs_human_review", "is_reviewed",
            "patient_first_name", "patient_last_name", "dob", "gender", "lab_name", "date_reported",
            "date_collected", "specimen_number", *MIRROR_FIELDS, "results", "upload",
        )  # fmt: skip


class ReportApiFilterSet(FilterSet):
    user_id = UUIDFilter(help_text="Only jobs of this patient")
    status = TextFilter(help_text="Such as upload_pending, started, completed or failed")


@requires("reports.view", "results.view")
class ReportViewSet(ResourceViewSet):
    """A parsing job with its results (errors and limits, 7.2 and 7.3), and its upload.

    `upload` is the record of this product: its `state`, when it was accepted, and whether it was
    parsed again or corrected since, so that the acceptance is no longer valid. It is null for a job
    without a report.
    """

    queryset = ReportJob.objects.prefetch_related(
        Prefetch(
            "results",
            ReportResult.objects.order_by("job_id", "position"),
            to_attr="sorted_results",
        ),
        Prefetch("report", Report.objects.only("job_id", *UploadSerializer.Meta.fields)),
    )
    serializer_class = ReportSerializer
    filterset_class = ReportApiFilterSet
    patient_field = "user_id"
