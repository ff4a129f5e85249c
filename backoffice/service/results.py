"""Results as structured data. Interface: orders, chapter 8.1-8.4."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

from msgspec import field

from backoffice.service.json_text import JsonObject
from backoffice.service.payload import Instant, Payload, Reader, Word, as_text, either
from backoffice.service.written_times import read_written_time


class ResultMetadata(Payload):
    """The header of a result.

    ``status``: partial, final. ``dob`` and dates are text in the lab's own spelling (DD/MM/YYYY in
    samples).
    """

    patient: str = ""
    age_sent: str | int | float | None = field(default=None, name="age")
    dob: str = ""
    clia_mark_sent: str | None = field(default=None, name="clia_#")
    clia_number_sent: str | None = field(default=None, name="clia_number")
    provider: str | None = None
    laboratory: str | None = None
    date_reported: str | None = None
    date_collected: str | None = None
    specimen_number: str | None = None
    date_received: str | None = None
    status: Word | None = "final"
    interpretation: Word | None = None
    patient_id: str | None = None
    account_id: str | None = None

    @property
    def age(self) -> str | None:
        """Return the age in years, which is sent as text or as a number (differences.md 42)."""
        return as_text(self.age_sent)

    @property
    def clia_number(self) -> str | None:
        return either(self.clia_mark_sent, self.clia_number_sent)


class SourceMarker(Payload):
    """The ordered marker of a result."""

    marker_id: int | None = None
    name: str = ""
    slug: str = ""
    provider_id: str | None = None


class BiomarkerResult(Payload):
    """One value of a result.

    ``result`` is always text, in ``unit``. ``type``: numeric, range, comment, coded_value.
    ``source_markers`` is None when nobody ordered the value. ``value`` is deprecated. ``timestamp``
    is an instant only when it has an offset (`written_times`).

    In the interface, ``interpretation`` defaults to `normal`. Here a line that was sent without an
    interpretation has None, which is never read as normal (`vocabulary.interpretations`).
    """

    name: str
    slug: str = ""
    value: float | None = None
    result: str = ""
    type: str = ""
    unit: str | None = None
    timestamp: str | None = None
    notes: str | None = None
    reference_range: str | None = None
    min_range_value: float | None = None
    max_range_value: float | None = None
    is_above_max_range: bool | None = None
    is_below_min_range: bool | None = None
    interpretation: Word | None = None
    source_interpretation: Word | None = None
    loinc: str | None = None
    loinc_slug: str | None = None
    provider_id: str | None = None
    source_markers: list[SourceMarker] | None = None
    performing_laboratory: str | None = None
    source_sample_id: str | None = None


class MissingResult(Payload):
    """A value that the lab could not determine, and the reason when it is known."""

    name: str
    slug: str = ""
    inferred_failure_type: str = ""
    note: str | None = None
    loinc: str | None = None
    loinc_slug: str | None = None
    provider_id: str | None = None
    source_markers: list[SourceMarker] | None = None


class ZonedTime(Payload):
    """A time with its zone: ``timestamp`` in UTC, ``timezone_offset`` in seconds."""

    timestamp: Instant | None = None
    timezone_offset: int | None = None


class PerformingLaboratory(Payload):
    name: str | None = None
    phone_number: str | None = None
    medical_director: str | None = None
    address: Any = None


class ClinicalInformation(Payload):
    fasting: bool | None = None
    notes: str | None = None
    information: str | None = None
    total_volume: str | None = None


class ResultSample(Payload):
    """One specimen.

    Each date is sent as text or with its offset: :func:`moment` reads both.
    """

    sample_id: str | None = None
    control_number: str | None = None
    date_collected: ZonedTime | str | None = None
    date_received: ZonedTime | str | None = None
    date_reported: ZonedTime | str | None = None
    performing_laboratories: dict[str, PerformingLaboratory] | None = None
    clinical_information: ClinicalInformation | None = None


def moment(sent: ZonedTime | str | None) -> datetime | None:
    """Return a sample's date as an instant; None for text without an offset, or no date."""
    if isinstance(sent, ZonedTime):
        return sent.timestamp
    return read_written_time(sent).instant


class ResultTransaction(Payload):
    """The transaction of a result; its orders are on the order."""

    id: UUID
    status: str = ""


class ResultPayload(Payload):
    """The result, partial or final, of one order or of a whole transaction."""

    metadata: ResultMetadata
    results_sent: list[BiomarkerResult] | JsonObject = field(name="results")
    missing_results: list[MissingResult] | None = None
    sample_information: dict[str, ResultSample] | None = None
    order_transaction: ResultTransaction | None = None

    @property
    def results(self) -> list[BiomarkerResult]:
        """Return the values.

        The list is empty for the legacy form, a map, which is only in the record as received.
        """
        return self.results_sent if isinstance(self.results_sent, list) else []


RESULT = Reader(ResultPayload)
