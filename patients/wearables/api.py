"""JSON API of device data: historical pulls and summaries. Samples: `samples_api.py`."""

from __future__ import annotations

from backoffice.accounts.access import requires
from backoffice.api.filters import TextFilter
from backoffice.api.serializers import MIRROR_FIELDS, KeyField, MirrorSerializer
from backoffice.api.viewsets import ResourceViewSet
from patients.api import UserFilterSet
from patients.wearables.models import HistoricalPull, Summary


class PullSerializer(MirrorSerializer):
    id = KeyField("user_id", "provider", "resource")

    class Meta:
        model = HistoricalPull
        fields = (
            "id", "user_id", "provider", "resource", "status", "error_details", "days_with_data",
            "range_start", "range_end", "scheduled_at", "started_at", "ended_at", "release",
            "trace_id", *MIRROR_FIELDS,
        )  # fmt: skip


class PullFilterSet(UserFilterSet):
    status = TextFilter(help_text="Such as success, in_progress or failure")
    provider = TextFilter(help_text="Slug of the provider")


@requires("patients.view")
class PullViewSet(ResourceViewSet):
    """The backfill of one resource (users.md 7); `id` is `<user_id>:<provider>:<resource>`."""

    queryset = HistoricalPull.objects.all()
    serializer_class = PullSerializer
    filterset_class = PullFilterSet
    lookup_fields = ("user_id", "provider", "resource")
    patient_field = "user_id"


class SummarySerializer(MirrorSerializer):
    class Meta:
        model = Summary
        fields = (
            "id",
            *(
                field.attname
                for field in Summary._meta.concrete_fields
                if field.attname not in ("id", "content_hash", "number", *MIRROR_FIELDS)
            ),
            *MIRROR_FIELDS,
        )


class SummaryFilterSet(UserFilterSet):
    resource = TextFilter(help_text="Such as activity or sleep")
    provider = TextFilter(help_text="Slug of the provider")


@requires("patients.view")
class SummaryViewSet(ResourceViewSet):
    """A summary of any kind (wearables.md 2); columns of another resource are null."""

    queryset = Summary.objects.all()
    serializer_class = SummarySerializer
    filterset_class = SummaryFilterSet
    patient_field = "user_id"
