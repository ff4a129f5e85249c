"""JSON API of the catalog: labs, markers, lab tests, lab accounts."""

from __future__ import annotations

from backoffice.accounts.access import requires
from backoffice.api.resources import ChildRows, Resource, exactly
from labs.models import (
    ExpectedResult,
    Lab,
    LabAccount,
    LabAccountTeam,
    LabTest,
    LabTestMarker,
    Marker,
)

LAB_FILTER = exactly("lab_id", int, "Only what belongs to this lab")


@requires("labs.view")
class Labs(Resource):
    """A lab (catalogue.md 2)."""

    model = Lab
    columns = (
        "slug",
        "name",
        "first_line_address",
        "city",
        "zipcode",
        "collection_methods",
        "sample_types",
        "logo_url",
    )


@requires("labs.view")
class Markers(Resource):
    """An orderable or reflex marker with its expected results (catalogue.md 4)."""

    model = Marker
    columns = (
        "lab_id",
        "name",
        "slug",
        "description",
        "provider_id",
        "type",
        "unit",
        "price",
        "a_la_carte_enabled",
        "is_orderable",
        "has_questions",
        "common_tat_days",
        "worst_case_tat_days",
    )
    children = (
        ChildRows(
            "expected_results",
            ExpectedResult,
            "marker_id",
            (
                "result_id",
                "name",
                "slug",
                "lab_id",
                "provider_id",
                "required",
                "loinc_code",
                "loinc_name",
                "loinc_slug",
                "unit",
            ),
            order=("marker_id", "position"),
        ),
    )
    filters = (LAB_FILTER,)


@requires("labs.view")
class LabTests(Resource):
    """A lab test with the ids of its markers in the service's order (catalogue.md 2)."""

    model = LabTest
    columns = (
        "lab_id",
        "slug",
        "name",
        "description",
        "sample_type",
        "method",
        "price",
        "is_active",
        "status",
        "fasting",
        "auto_generated",
        "has_collection_instructions",
        "common_tat_days",
        "worst_case_tat_days",
    )
    children = (
        ChildRows(
            "marker_ids",
            LabTestMarker,
            "lab_test_id",
            ("marker_id",),
            order=("lab_test_id", "position"),
        ),
    )
    filters = (
        LAB_FILTER,
        exactly("status", str, "Such as active, pending_approval or inactive"),
    )


@requires("labs.view")
class LabAccounts(Resource):
    """An account at a lab (catalogue.md 7); `allowed_billing` is in its `record`."""

    model = LabAccount
    columns = (
        "lab",
        "org_id",
        "status",
        "delegated_flow",
        "provider_account_id",
        "account_name",
        "default_clinical_notes",
        "business_units",
    )
    children = (
        ChildRows(
            "team_id_allowlist",
            LabAccountTeam,
            "account_id",
            ("team_id",),
            order=("account_id", "team_id"),
        ),
    )
    filters = (
        exactly("lab", str, "Slug of the lab"),
        exactly("status", str, "Such as active, pending or suspended"),
    )
