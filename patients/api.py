"""JSON API of patients: users, connected sources, insurance, payors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar
from uuid import UUID

from django.db.models import Q
from rest_framework.request import Request

from backoffice.accounts.access import requires
from backoffice.api.resources import (
    ChildRows,
    Resource,
    ResourceFilter,
    Search,
    any_spelling,
    exactly,
)
from backoffice.core.encryption.encrypted_fields import UNREADABLE, decrypt_rows
from patients.models import Connection, Demographics, Insurance, Patient, Payor

USER_FILTER = exactly("user_id", UUID, "Only what belongs to this user of the service")


class SearchFilter(ResourceFilter):
    """A filter that finds what the search box of the patient list finds."""

    def parse(self, raw: str) -> Q:
        ResourceFilter.parse(self, raw)
        return Q(pk__in=Patient.objects.order_by().matching(raw).values("pk"))


@requires("patients.view")
class Patients(Resource):
    """A user of the service (users.md 2), with the user information (users.md 3) if it is known.

    `identity` is from the user information, except for the `fields_from_order`.
    """

    model = Patient
    patient = "id"
    columns = (
        "team_id",
        "client_user_id",
        "created_on",
        "fallback_time_zone",
        "fallback_birth_date",
        "ingestion_start",
        "ingestion_end",
    )
    children = (
        ChildRows(
            "identity",
            Patient,
            "id",
            (
                *("first_name", "last_name", "email", "phone_number", "gender", "dob"),
                *("fields_from_order", "source_order_id", "source_order_created_at"),
            ),
            many=False,
        ),
        ChildRows(
            "demographics",
            Demographics,
            "user_id",
            (
                "first_name",
                "last_name",
                "email",
                "phone_number",
                "gender",
                "dob",
                "first_line",
                "second_line",
                "city",
                "state",
                "zip",
                "country",
                "race",
                "ethnicity",
                "sexual_orientation",
                "gender_identity",
            ),
            many=False,
            record=True,
        ),
    )
    filters: ClassVar[tuple[ResourceFilter, ...]] = (
        exactly("user_id", UUID, "Only this user of the service", "id"),
        any_spelling("client_user_id", "Only the user with this id of ours, in any spelling"),
    )


@requires("patients.view")
class PatientSearch(Search, Patients):
    """Users of the service by parts of the name, phone number, email, birth date, or id."""

    filters = (
        SearchFilter(
            "search",
            str,
            "id",
            "Parts of the name, phone number, email, birth date, or id: all must match",
        ),
    )


@requires("patients.view")
class Connections(Resource):
    """A connected source (users.md 7); `id` is `<user_id>:<slug>`."""

    model = Connection
    patient = "user_id"
    key = ("user_id", "slug")
    columns = (
        "user_id",
        "slug",
        "name",
        "logo",
        "created_on",
        "status",
        "error_type",
        "error_message",
        "errored_at",
    )
    filters = (USER_FILTER, exactly("status", str, "Such as connected or error"))


@requires("patients.view")
class Insurances(Resource):
    """An insurance record (users.md 4).

    The service sends no id and shows only the latest record. `id` is derived from user, kind and
    content. Earlier records have `superseded_at`.
    """

    model = Insurance
    patient = "user_id"
    columns = (
        "user_id",
        "is_primary",
        "payor_code",
        "member_id",
        "group_id",
        "relationship",
        "company_name",
        "insured_first_name",
        "insured_last_name",
        "insured_dob",
        "superseded_at",
    )
    filters = (USER_FILTER,)

    def _items(self, request: Request, rows: Sequence[tuple[Any, ...]]) -> list[dict[str, Any]]:
        names = self.sources()
        items = [dict(zip(names, row, strict=True)) for row in decrypt_rows(Insurance, names, rows)]
        for item in items:
            if item["record"] == UNREADABLE:
                item["record"] = "null"
        return super()._items(request, [tuple(item.values()) for item in items])


@requires("patients.view")
class Payors(Resource):
    """A payor that a search returned (users.md 5); `id` is its `payor_code`."""

    model = Payor
    columns = ("payor_code", "name", "aliases", "source", "city", "state")
