"""JSON API of the catalog: labs, markers, lab tests, lab accounts."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.db.models import Prefetch
from rest_framework import serializers

from backoffice.accounts.access import requires
from backoffice.api.filters import FilterSet, IntegerFilter, TextFilter
from backoffice.api.serializers import MIRROR_FIELDS, ColumnSerializer, MirrorSerializer
from backoffice.api.viewsets import ResourceViewSet
from labs.models import (
    ExpectedResult,
    Lab,
    LabAccount,
    LabAccountTeam,
    LabTest,
    LabTestMarker,
    Marker,
)


class LabSerializer(MirrorSerializer):
    class Meta:
        model = Lab
        fields = (
            "id", "slug", "name", "first_line_address", "city", "zipcode", "collection_methods",
            "sample_types", "logo_url", *MIRROR_FIELDS,
        )  # fmt: skip


@requires("labs.view")
class LabViewSet(ResourceViewSet):
    """A lab (catalogue.md 2)."""

    queryset = Lab.objects.all()
    serializer_class = LabSerializer


class ExpectedResultSerializer(ColumnSerializer):
    class Meta:
        model = ExpectedResult
        fields = (
            "result_id", "name", "slug", "lab_id", "provider_id", "required", "loinc_code",
            "loinc_name", "loinc_slug", "unit",
        )  # fmt: skip


class MarkerSerializer(MirrorSerializer):
    expected_results = ExpectedResultSerializer(
        many=True, read_only=True, source="sorted_expected_results"
    )

    class Meta:
        model = Marker
        fields = (
            "id", "lab_id", "name", "slug", "description", "provider_id", "type", "unit", "price",
            "a_la_carte_enabled", "is_orderable", "has_questions", "common_tat_days",
            "worst_case_tat_days", *MIRROR_FIELDS, "expected_results",
        )  # fmt: skip


class LabFilterSet(FilterSet):
    lab_id = IntegerFilter("lab", help_text="Only what belongs to this lab")


@requires("labs.view")
class MarkerViewSet(ResourceViewSet):
    """An orderable or reflex marker with its expected results (catalogue.md 4)."""

    queryset = Marker.objects.prefetch_related(
        Prefetch(
            "expected_results",
            ExpectedResult.objects.order_by("marker_id", "position"),
            to_attr="sorted_expected_results",
        )
    )
    serializer_class = MarkerSerializer
    filterset_class = LabFilterSet


class LabTestSerializer(MirrorSerializer):
    marker_ids = serializers.SerializerMethodField()

    class Meta:
        model = LabTest
        fields = (
            "id", "lab_id", "slug", "name", "description", "sample_type", "method", "price",
            "is_active", "status", "fasting", "auto_generated", "has_collection_instructions",
            "common_tat_days", "worst_case_tat_days", *MIRROR_FIELDS, "marker_ids",
        )  # fmt: skip

    def get_marker_ids(self, lab_test: Any) -> list[int]:
        return [test_marker.marker_id for test_marker in lab_test.sorted_markers]


class LabTestFilterSet(LabFilterSet):
    status = TextFilter(help_text="Such as active, pending_approval or inactive")


@requires("labs.view")
class LabTestViewSet(ResourceViewSet):
    """A lab test with the ids of its markers in the service's order (catalogue.md 2)."""

    queryset = LabTest.objects.prefetch_related(
        Prefetch(
            "test_markers",
            LabTestMarker.objects.order_by("lab_test_id", "position"),
            to_attr="sorted_markers",
        )
    )
    serializer_class = LabTestSerializer
    filterset_class = LabTestFilterSet


class LabAccountSerializer(MirrorSerializer):
    team_id_allowlist = serializers.SerializerMethodField()

    class Meta:
        model = LabAccount
        fields = (
            "id", "lab", "org_id", "status", "delegated_flow", "provider_account_id",
            "account_name", "default_clinical_notes", "business_units", *MIRROR_FIELDS,
            "team_id_allowlist",
        )  # fmt: skip

    def get_team_id_allowlist(self, account: Any) -> list[UUID]:
        return [team.team_id for team in account.sorted_teams]


class LabAccountFilterSet(FilterSet):
    lab = TextFilter(help_text="Slug of the lab")
    status = TextFilter(help_text="Such as active, pending or suspended")


@requires("labs.view")
class LabAccountViewSet(ResourceViewSet):
    """An account at a lab (catalogue.md 7); `allowed_billing` is in its `record`."""

    queryset = LabAccount.objects.prefetch_related(
        Prefetch(
            "teams",
            LabAccountTeam.objects.order_by("account_id", "team_id"),
            to_attr="sorted_teams",
        )
    )
    serializer_class = LabAccountSerializer
    filterset_class = LabAccountFilterSet
