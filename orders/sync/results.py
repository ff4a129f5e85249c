"""Results with their markers (orders.md 8)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from uuid import UUID

from backoffice import mirror, sync
from backoffice.mirror import Fact
from backoffice.service import Record
from backoffice.service import results as service_results
from orders.models import Result, ResultMarker
from orders.reviewing.identity import lock_patients_of, update_reviews
from orders.reviewing.versions import note_versions


def _result(fact: Fact) -> mirror.Values:
    result: service_results.Result = fact.data
    head = result.metadata
    return {
        "status": head.status,
        "interpretation": head.interpretation,
        "laboratory": head.laboratory,
        "specimen_number": head.specimen_number or "",
        "date_collected": head.date_collected,
        "date_received": head.date_received,
        "date_reported": head.date_reported or "",
        "returned": len(result.results),
        "missing": len(result.missing_results or ()),
    }


def _markers(fact: Fact) -> Iterator[mirror.Values]:
    result: service_results.Result = fact.data
    position = -1
    for position, line in enumerate(result.results):
        yield {
            "result_id": fact.key[0],
            "position": position,
            "is_missing": False,
            "name": line.name,
            "slug": line.slug,
            "text": line.result,
            "value": line.value,
            "type": line.type,
            "unit": line.unit,
            "timestamp": line.timestamp,
            "reference_range": line.reference_range,
            "min_range_value": line.min_range_value,
            "max_range_value": line.max_range_value,
            "is_above_max_range": line.is_above_max_range,
            "is_below_min_range": line.is_below_min_range,
            "interpretation": line.interpretation,
            "loinc": line.loinc,
            "loinc_slug": line.loinc_slug,
            "provider_id": line.provider_id,
            "notes": line.notes,
            "failure_type": None,
        }
    for missing_position, missing in enumerate(result.missing_results or (), position + 1):
        yield {
            "result_id": fact.key[0],
            "position": missing_position,
            "is_missing": True,
            "name": missing.name,
            "slug": missing.slug,
            "text": "",
            "value": None,
            "type": "",
            "unit": None,
            "timestamp": None,
            "reference_range": None,
            "min_range_value": None,
            "max_range_value": None,
            "is_above_max_range": None,
            "is_below_min_range": None,
            "interpretation": "",
            "loinc": missing.loinc,
            "loinc_slug": missing.loinc_slug,
            "provider_id": missing.provider_id,
            "notes": missing.note,
            "failure_type": missing.inferred_failure_type,
        }


RESULTS = mirror.Table(
    model=Result,
    key=("order_id",),
    promote=_result,
    children=(
        mirror.Children(
            model=ResultMarker,
            parent="result_id",
            key=("result_id", "position"),
            rows=_markers,
            vocabularies={
                "type": "result.type",
                "interpretation": "order.interpretation",
                "failure_type": "missing.failure_type",
            },
        ),
    ),
    vocabularies={"status": "result.status", "interpretation": "order.interpretation"},
)


def _store(
    answers: Mapping[str, Record[service_results.Result]],
) -> dict[str, timedelta | None]:
    facts = [Fact.of(r, UUID(key)) for key, r in answers.items()]
    keys = [fact.key[0] for fact in facts]
    lock_patients_of(keys)
    mirror.apply(RESULTS, facts)
    # The unchanged ones, too: the order may have been called corrected since.
    note_versions(keys)
    update_reviews(keys)
    return {}


def _absent(keys: Sequence[str], asked_at: datetime) -> None:
    mirror.flag_missing(RESULTS, [(UUID(key),) for key in keys], asked_at)


RESULT_SUBJECT = sync.Subject(
    kind="results",
    fetch=lambda service, key: service.orders.result(key),
    store=_store,
    absent=_absent,
    absent_again=lambda key: timedelta(hours=1),
)
