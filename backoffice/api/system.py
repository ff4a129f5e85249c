"""Resources of the JSON API for sync runs and commands."""

from __future__ import annotations

from backoffice.accounts.access import requires
from backoffice.api.filters import FilterSet, TextFilter
from backoffice.api.serializers import ColumnSerializer
from backoffice.api.viewsets import ResourceViewSet
from backoffice.outbox.models import CommandRecord
from backoffice.pages.lists.filters import UUIDFilter
from backoffice.sync.models import SyncRun


class RunSerializer(ColumnSerializer):
    class Meta:
        model = SyncRun
        fields = (
            "id", "resource", "full", "state", "created_at", "started_at", "finished_at",
            "window_start", "server_date", "due_at", "attempts", "total", "fetched", "created",
            "changed", "unchanged", "older", "unseen", "unreadable", "drifted", "error",
        )  # fmt: skip


class RunApiFilterSet(FilterSet):
    resource = TextFilter(help_text="Only runs over this list")
    state = TextFilter(help_text="One of due, running, done, failed")


@requires("system.view")
class RunViewSet(ResourceViewSet):
    """One sync run over a list of the service."""

    queryset = SyncRun.objects.all()
    serializer_class = RunSerializer
    filterset_class = RunApiFilterSet


class CommandSerializer(ColumnSerializer):
    class Meta:
        model = CommandRecord
        fields = (
            "id", "kind", "state", "subject_type", "subject_id", "patient_id", "requested_at",
            "attempts", "first_sent_at", "remote_id", "confirmed_by", "refusal", "status",
            "finished_at",
        )  # fmt: skip


class CommandApiFilterSet(FilterSet):
    kind = TextFilter(help_text="Only commands of this kind, such as order.cancel")
    state = TextFilter(help_text="One of waiting, sending, uncertain, undecided, done, refused, …")
    subject_id = TextFilter(help_text="Only commands about this record")
    patient_id = UUIDFilter(help_text="Only commands about this patient")


@requires("commands.view")
class CommandViewSet(ResourceViewSet):
    """One command: a write to the service that staff requested."""

    queryset = CommandRecord.objects.defer("payload", "form_data")
    serializer_class = CommandSerializer
    filterset_class = CommandApiFilterSet
    patient_field = "patient_id"
