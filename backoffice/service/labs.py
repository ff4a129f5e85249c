"""Labs, lab tests, markers, lab accounts, and physicians. Interface: catalogue, chapters 1-7."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar
from uuid import UUID

from msgspec import field

from backoffice.service.exchange import Calls, as_json
from backoffice.service.payload import Payload, Reader, Record, RecordPage, RequestBody, as_text
from backoffice.service.wire import Query


class LabPayload(Payload):
    """A lab; the short form inside an order may lack ``logo_url`` and the address."""

    slug: str = ""
    id: int | None = None
    name: str = ""
    first_line_address: str = ""
    city: str = ""
    zipcode: str = ""
    collection_methods: list[str] = field(default_factory=list)
    sample_types: list[str] = field(default_factory=list)
    logo_url: str | None = None


class Loinc(Payload):
    id: int | None = None
    name: str = ""
    slug: str = ""
    code: str = ""
    unit: str | None = None


class ExpectedResultPayload(Payload):
    """One result that a marker should have.

    Compare with the results received to see which are missing.
    """

    id: int
    name: str = ""
    slug: str = ""
    lab_id: int | None = None
    provider_id: str | None = None
    loinc: Loinc | None = None
    required: bool | None = None


class AoeAnswer(Payload):
    id: int | None = None
    code: str = ""
    value: str = ""


class AoeQuestion(Payload):
    """A question asked at order entry.

    ``type``: choice, text, numeric, multi_choice (also spelled multiple_choice). ``id`` is a 64-bit
    integer.
    """

    id: int
    required: bool = False
    code: str = ""
    value: str = ""
    type: str = ""
    sequence: int = 0
    answers: list[AoeAnswer] = field(default_factory=list)
    constraint: str | None = None
    default: str | None = None


class Aoe(Payload):
    questions: list[AoeQuestion] = field(default_factory=list)


class MarkerPayload(Payload):
    """A marker.

    ``type``: biomarker, panel. ``price`` is text and may be a placeholder. Turnaround is in days.
    """

    id: int
    name: str = ""
    slug: str = ""
    description: str | None = None
    lab_id: int | None = None
    provider_id: str | None = None
    type: str | None = None
    unit: str | None = None
    price_sent: str | int | float | None = field(default=None, name="price")
    aoe: Aoe | None = None
    a_la_carte_enabled: bool = False
    common_tat_days: int | None = None
    worst_case_tat_days: int | None = None
    is_orderable: bool | None = True
    expected_results: list[ExpectedResultPayload] = field(default_factory=list)

    @property
    def price(self) -> str | None:
        return as_text(self.price_sent)


class LabTestPayload(Payload):
    """A panel that can be ordered while ``status`` is active; turnaround in days."""

    wrapped_in: ClassVar[str] = "lab_test"  # Some answers send {"lab_test": {...}}.

    id: UUID
    slug: str = ""
    name: str = ""
    description: str | None = None
    sample_type: str = ""
    method: str = ""
    price: float | None = None
    is_active: bool | None = None
    status: str = ""
    fasting: bool = False
    lab: LabPayload | None = None
    markers: list[MarkerPayload] | None = None
    is_delegated: bool = False
    auto_generated: bool = False
    has_collection_instructions: bool | None = None
    common_tat_days: int | None = None
    worst_case_tat_days: int | None = None


class LabAccountPayload(Payload):
    """A lab account.

    ``allowed_billing`` maps a billing type to two-letter states. A billing type that is absent is
    not allowed.
    """

    id: UUID
    lab: str
    org_id: UUID | None = None
    status: str = ""
    delegated_flow: str = ""
    provider_account_id: str = ""
    account_name: str | None = None
    default_clinical_notes: str | None = None
    business_units: list[str] | None = None
    allowed_billing: dict[str, list[str]] = field(default_factory=dict)
    team_id_allowlist: list[UUID] = field(default_factory=list)


class PhysicianPayload(Payload):
    """A physician of the team; an order has the same three fields."""

    first_name: str = ""
    last_name: str = ""
    npi: str = ""


class AddOn(RequestBody):
    """Markers in addition to the tests.

    Name them by the ids of the service or by the codes of the lab, not both.
    """

    marker_ids: list[int] | None = None
    provider_ids: list[str] | None = None


class OrderSet(RequestBody):
    """The items of an order: tests of one lab, add-on markers, or both.

    ``lab_account_id`` only limits the list of its markers.
    """

    lab_test_ids: list[UUID] | None = None
    add_on: AddOn | None = None
    lab_account_id: UUID | None = None


class NewLabTest(RequestBody):
    """A lab test to create.

    Name its markers by the ids of the service or, better, by the codes of the lab.
    """

    name: str
    method: str
    description: str
    marker_ids: list[int] | None = None
    provider_ids: list[str] | None = None
    fasting: bool | None = None
    lab_account_id: UUID | None = None
    lab_slug: str | None = None


class LabTestChange(RequestBody):
    """A change of a lab test.

    ``active`` False archives the test; orders in progress continue.
    """

    name: str | None = None
    active: bool | None = None


_LAB = Reader(LabPayload)
_LAB_TEST = Reader(LabTestPayload)
_MARKER = Reader(MarkerPayload)
_PHYSICIAN = Reader(PhysicianPayload)
LAB_ACCOUNT = Reader(LabAccountPayload)


class LabCalls(Calls):
    """Calls of catalogue.md 1-7 with the team key."""

    def labs(self) -> RecordPage[LabPayload]:
        return self._call.page("/v3/lab_tests/labs", _LAB)

    def lab_tests(
        self,
        limit: int = 50,
        next_cursor: str | None = None,
        generation_method: str = "all",
        *,
        lab_account_id: UUID | str | None = None,
        lab_slug: str | None = None,
        collection_method: str | None = None,
        status: str | None = None,
        marker_ids: Sequence[int] | None = None,
        provider_ids: Sequence[str] | None = None,
        name: str | None = None,
        order_key: str | None = None,
        order_direction: str | None = None,
    ) -> RecordPage[LabTestPayload]:
        """Return a page of lab tests. ``generation_method``: auto, manual, all."""
        query: Query = {
            "lab_test_limit": limit,
            "next_cursor": next_cursor,
            "generation_method": generation_method,
            "lab_account_id": lab_account_id,
            "lab_slug": lab_slug,
            "collection_method": collection_method,
            "status": status,
            "marker_ids": marker_ids,
            "provider_ids": provider_ids,
            "name": name,
            "order_key": order_key,
            "order_direction": order_direction,
        }
        return self._call.page("/v3/lab_test", _LAB_TEST, "data", query=query)

    def lab_test(
        self, lab_test_id: UUID | str, lab_account_id: UUID | str | None = None
    ) -> Record[LabTestPayload]:
        return self._call.record(
            "/v3/lab_tests/{lab_test_id}",
            _LAB_TEST,
            query={"lab_account_id": lab_account_id},
            lab_test_id=lab_test_id,
        )

    def markers(
        self,
        page: int = 1,
        size: int = 100,
        *,
        lab_id: int | Sequence[int] | None = None,
        lab_slug: str | None = None,
        name: str | None = None,
        lab_account_id: UUID | str | None = None,
        a_la_carte_enabled: bool | None = None,
    ) -> RecordPage[MarkerPayload]:
        """Return a page of active, orderable markers, without reflex markers.

        ``lab_slug`` takes precedence over ``lab_id``.
        """
        query: Query = {
            "lab_id": lab_id,
            "lab_slug": lab_slug,
            "name": name,
            "lab_account_id": lab_account_id,
            "a_la_carte_enabled": a_la_carte_enabled,
            "page": page,
            "size": size,
        }
        return self._call.page("/v3/lab_tests/markers", _MARKER, "markers", query=query)

    def lab_test_markers(
        self,
        lab_test_id: UUID | str,
        page: int = 1,
        size: int = 100,
        lab_account_id: UUID | str | None = None,
    ) -> RecordPage[MarkerPayload]:
        """Return a page of all markers of one lab test, with reflex markers."""
        query = {"page": page, "size": size, "lab_account_id": lab_account_id}
        path = "/v3/lab_tests/{lab_test_id}/markers"
        return self._call.page(path, _MARKER, "markers", query=query, lab_test_id=lab_test_id)

    def create_test(self, test: NewLabTest) -> Record[LabTestPayload]:
        """Create a lab test.

        It can be ordered after the staff of the service approve it.
        """
        return self._call.send("POST", "/v3/lab_tests", _LAB_TEST, as_json(test))

    def update_test(self, lab_test_id: UUID | str, change: LabTestChange) -> Record[LabTestPayload]:
        path = "/v3/lab_tests/{lab_test_id}"
        return self._call.send("PATCH", path, _LAB_TEST, as_json(change), lab_test_id=lab_test_id)

    def lab_accounts(
        self, lab_account_id: UUID | str | None = None, status: str | None = None
    ) -> RecordPage[LabAccountPayload]:
        query = {"lab_account_id": lab_account_id, "status": status}
        return self._call.page("/v3/lab_test/lab_account", LAB_ACCOUNT, "data", query=query)

    def physicians(self, team_id: UUID | str) -> RecordPage[PhysicianPayload]:
        return self._call.page("/v2/team/{team_id}/physicians", _PHYSICIAN, team_id=team_id)
