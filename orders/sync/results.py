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
from orders.sync import unreadable_lines as unreadable


def _result(fact: Fact) -> mirror.Values:
    result: service_results.Result = fact.data
    head = result.metadata
    parts = unreadable.parts_of(fact)
    return {
        "status": head.status,
        "interpretation": unreadable.interpretation(head.interpretation, parts.all),
        "laboratory": head.laboratory,
        "specimen_number": head.specimen_number or "",
        "date_collected": head.date_collected,
        "date_received": head.date_received,
        "date_reported": head.date_reported or "",
        "returned": len(result.results) + len(parts.lines["results"]),
        "missing": len(result.missing_results or ()) + len(parts.lines["missing_results"]),
        "unreadable_lines": parts.count,
        "unreadable_fields": ", ".join(parts.head),
    }


def _markers(fact: Fact) -> Iterator[mirror.Values]:
    result: service_results.Result = fact.data
    parts = unreadable.parts_of(fact)
    position = -1
    for position, line, fields in parts.in_place("results", result.results):
        if line is None:
            yield unreadable.line(fact, position, parts.name("results", position))
            continue
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
            "interpretation": unreadable.interpretation(line.interpretation, fields) or "",
            "loinc": line.loinc,
            "loinc_slug": line.loinc_slug,
            "provider_id": line.provider_id,
            "notes": line.notes,
            "failure_type": None,
            "is_unreadable": False,
            "unreadable_fields": ", ".join(fields),
        }
    start = position + 1
    for place, missing, fields in parts.in_place("missing_results", result.missing_results or ()):
        if missing is None:
            name = parts.name("missing_results", place)
            yield unreadable.line(fact, start + place, name, is_missing=True)
            continue
        yield {
            "result_id": fact.key[0],
            "position": start + place,
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
            "is_unreadable": False,
            "unreadable_fields": ", ".join(fields),
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
