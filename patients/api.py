"""JSON API of patients: users, connected sources, insurance, payors."""

from __future__ import annotations

from typing import Any

from django.db.models import QuerySet
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from backoffice.accounts.access import requires
from backoffice.api.errors import bad_request
from backoffice.api.filters import FilterSet, IdentifierFilter, TextFilter, list_parameters
from backoffice.api.serializers import (
    MIRROR_FIELDS,
    ColumnSerializer,
    KeyField,
    MirrorSerializer,
    SearchSerializer,
)
from backoffice.api.viewsets import ResourceViewSet
from backoffice.pages.lists.filters import UUIDFilter
from patients.models import Connection, Demographics, Insurance, Patient, Payor
from patients.search_text import parse_search_text


class UserFilterSet(FilterSet):
    user_id = UUIDFilter(help_text="Only what belongs to this user of the service")


class IdentitySerializer(ColumnSerializer):
    class Meta:
        model = Patient
        fields = (
            *("first_name", "last_name", "email", "phone_number", "gender", "dob"),
            *("fields_from_order", "source_order_id", "source_order_created_at"),
        )


class DemographicsSerializer(MirrorSerializer):
    class Meta:
        model = Demographics
        fields = (
            "first_name", "last_name", "email", "phone_number", "gender", "dob", "first_line",
            "second_line", "city", "state", "zip", "country", "race", "ethnicity",
            "sexual_orientation", "gender_identity", *MIRROR_FIELDS,
        )  # fmt: skip


class PatientSerializer(MirrorSerializer):
    identity = IdentitySerializer(source="*", read_only=True)
    demographics = DemographicsSerializer(allow_null=True, read_only=True)

    class Meta:
        model = Patient
        fields = (
            *("id", "team_id", "client_user_id", "created_on"),
            *("fallback_time_zone", "fallback_birth_date", "ingestion_start", "ingestion_end"),
            *MIRROR_FIELDS,
            *("identity", "demographics"),
        )


class PatientFilterSet(FilterSet):
    user_id = UUIDFilter("id", help_text="Only this user of the service")
    client_user_id = IdentifierFilter(
        help_text="Only the user with this id of ours, in any spelling"
    )


class PatientSearchFilterSet(FilterSet):
    search = TextFilter(method="filter_search")

    def filter_search(self, patients: QuerySet[Patient], name: str, value: str) -> Any:
        """Find what the search box of the patient list finds."""
        found = Patient.objects.order_by().matching(parse_search_text(value))
        return patients.filter(pk__in=found.values("pk"))


class PatientSearchSerializer(SearchSerializer):
    """The body of a search for patients."""

    search = serializers.CharField(
        help_text="Parts of the name, phone number, email, birth date, or id: all must match"
    )


@requires("patients.view")
class PatientViewSet(ResourceViewSet):
    """A user of the service (users.md 2), with the user information (users.md 3) if it is known.

    `identity` is from the user information, except for the `fields_from_order`.
    """

    queryset = Patient.objects.prefetch_related("demographics")
    serializer_class = PatientSerializer
    filterset_class = PatientFilterSet
    patient_field = "id"

    @extend_schema(request=PatientSearchSerializer, filters=False)
    @action(detail=False, methods=["post"], filterset_class=PatientSearchFilterSet)
    def search(self, request: Request) -> Response:
        """Users of the service by parts of the name, phone number, email, birth date, or id."""
        # By POST, because words about people must not be in a URL.
        if not list_parameters(request).get("search"):
            raise bad_request("search is missing.")
        return self.list(request)


class ConnectionSerializer(MirrorSerializer):
    id = KeyField("user_id", "slug")

    class Meta:
        model = Connection
        fields = (
            "id", "user_id", "slug", "name", "logo", "created_on", "status", "error_type",
            "error_message", "errored_at", *MIRROR_FIELDS,
        )  # fmt: skip


class ConnectionFilterSet(UserFilterSet):
    status = TextFilter(help_text="Such as connected or error")


@requires("patients.view")
class ConnectionViewSet(ResourceViewSet):
    """A connected source (users.md 7); `id` is `<user_id>:<slug>`."""

    queryset = Connection.objects.all()
    serializer_class = ConnectionSerializer
    filterset_class = ConnectionFilterSet
    lookup_fields = ("user_id", "slug")
    patient_field = "user_id"


class InsuranceSerializer(MirrorSerializer):
    class Meta:
        model = Insurance
        fields = (
            "id", "user_id", "is_primary", "payor_code", "member_id", "group_id", "relationship",
            "company_name", "insured_first_name", "insured_last_name", "insured_dob",
            "superseded_at", *MIRROR_FIELDS,
        )  # fmt: skip


@requires("patients.view")
class InsuranceViewSet(ResourceViewSet):
    """An insurance record (users.md 4).

    The service sends no id and shows only the latest record. `id` is derived from user, kind and
    content. Earlier records have `superseded_at`.
    """

    queryset = Insurance.objects.all()
    serializer_class = InsuranceSerializer
    filterset_class = UserFilterSet
    patient_field = "user_id"


class PayorSerializer(MirrorSerializer):
    id = serializers.CharField(source="payor_code", read_only=True)

    class Meta:
        model = Payor
        fields = (
            *("id", "payor_code", "name", "aliases", "source", "city", "state"),
            *MIRROR_FIELDS,
        )


@requires("patients.view")
class PayorViewSet(ResourceViewSet):
    """A payor that a search returned (users.md 5); `id` is its `payor_code`."""

    queryset = Payor.objects.all()
    serializer_class = PayorSerializer
