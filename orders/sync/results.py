"""Sync of results with their markers (orders.md 8)."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from uuid import UUID

from backoffice.core import vocabulary
from backoffice.core.vocabulary import interpretations
from backoffice.core.vocabulary.interpretations import Reading
from backoffice.mirror.applying import apply_batch, flag_missing
from backoffice.mirror.promotion import already_stored_keys
from backoffice.mirror.rows import StoredVersions, stored_versions
from backoffice.mirror.tables import ChildTable, MirrorRecord, MirrorTable, RowValues
from backoffice.service import Record
from backoffice.service import results as service_results
from backoffice.service.written_times import read_written_time
from backoffice.sync.lookups import LookupType
from orders.models import Result, ResultMarker
from orders.models.review import OPEN, Review
from orders.rules.result_identity import checks_by_order, lock_patients_of, write_checks
from orders.sync import unreadable_lines as unreadable
from orders.sync.result_versions import digests_by_order, store_versions


def read_marker(line: service_results.BiomarkerResult) -> Reading:
    """Return our reading of a line."""
    return interpretations.read_line(
        line.interpretation,
        line.source_interpretation,
        type=line.type,
        text=line.result,
        value=line.value,
        unit=line.unit,
        low=line.min_range_value,
        high=line.max_range_value,
        above=line.is_above_max_range,
        below=line.is_below_min_range,
        reference_range=line.reference_range,
    )


def _result(record: MirrorRecord) -> RowValues:
    result: service_results.ResultPayload = record.data
    head = result.metadata
    parts = unreadable.parts_of(record)
    status = interpretations.read_status(head.status or "")
    read = interpretations.read_head(
        head.interpretation,
        map(read_marker, result.results),
        all_read=result.results_sent is result.results or not result.results_sent,
        is_partial=status == interpretations.PARTIAL,
    ).interpretation
    reading = unreadable.interpretation(read, parts.all) or ""
    return {
        "status": status,
        "interpretation": reading or None,
        "interpretation_received": interpretations.as_received(head.interpretation, reading),
        "read_under": vocabulary.decisions.last_decision(),
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


def _markers(record: MirrorRecord) -> Iterator[RowValues]:
    result: service_results.ResultPayload = record.data
    parts = unreadable.parts_of(record)
    position = -1
    for position, line, fields in parts.in_place("results", result.results):
        if line is None:
            yield unreadable.line(record, position, parts.name("results", position))
            continue
        reading = read_marker(line)
        interpretation = unreadable.interpretation(reading.interpretation, fields) or ""
        at = read_written_time(line.timestamp)
        yield {
            "result_id": record.key[0],
            "position": position,
            "is_missing": False,
            "name": line.name,
            "slug": line.slug,
            "text": line.result,
            "value": line.value,
            "type": line.type,
            "unit": line.unit,
            "timestamp": at.instant,
            "timestamp_written": at.text.strip() or None if at.instant is None else None,
            "reference_range": line.reference_range,
            "min_range_value": line.min_range_value,
            "max_range_value": line.max_range_value,
            "is_above_max_range": line.is_above_max_range,
            "is_below_min_range": line.is_below_min_range,
            "interpretation": interpretation,
            "interpretation_received": interpretations.as_received(
                line.interpretation, interpretation
            ),
            "source_interpretation": (line.source_interpretation or "").strip(),
            "side": reading.side,
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
            yield unreadable.line(record, start + place, name, is_missing=True)
            continue
        yield {
            "result_id": record.key[0],
            "position": start + place,
            "is_missing": True,
            "name": missing.name,
            "slug": missing.slug,
            "text": "",
            "value": None,
            "type": "",
            "unit": None,
            "timestamp": None,
            "timestamp_written": None,
            "reference_range": None,
            "min_range_value": None,
            "max_range_value": None,
            "is_above_max_range": None,
            "is_below_min_range": None,
            "interpretation": "",
            "interpretation_received": None,
            "source_interpretation": "",
            "side": "",
            "loinc": missing.loinc,
            "loinc_slug": missing.loinc_slug,
            "provider_id": missing.provider_id,
            "notes": missing.note,
            "failure_type": missing.inferred_failure_type,
            "is_unreadable": False,
            "unreadable_fields": ", ".join(fields),
        }


RESULTS = MirrorTable(
    model=Result,
    key=("order_id",),
    promote=_result,
    children=(
        ChildTable(
            model=ResultMarker,
            parent="result_id",
            key=("result_id", "position"),
            rows=_markers,
            vocabularies={
                "type": "result.type",
                "interpretation_received": interpretations.VOCABULARY,
                "source_interpretation": interpretations.VOCABULARY,
                "failure_type": "missing.failure_type",
            },
        ),
    ),
    vocabularies={
        "status": "result.status",
        "interpretation_received": interpretations.VOCABULARY,
    },
    revision=4,
)


def _closed_with_new_records(versions: StoredVersions, same: Collection[UUID]) -> list[UUID]:
    """Return closed results that received another record and were read by the current release."""
    changed = [
        key
        for (key,), stored in versions.items()
        if key not in same and stored.digest[-1] == RESULTS.revision
    ]
    closed = Review.objects.filter(pk__in=changed).exclude(OPEN)
    return list(closed.values_list("pk", flat=True)) if changed else []


def _contents(orders: Collection[UUID]) -> dict[UUID, tuple[bytes, tuple[str, str]]]:
    """Return the contents of results and the persons that they name.

    Records that differ only in their times have the same content.
    """
    checks = checks_by_order(orders) if orders else {}
    return {
        key: (digest, checks[key].possible_prints)
        for key, digest in digests_by_order(orders).items()
    }


def _store(
    answers: Mapping[str, Record[service_results.ResultPayload]],
) -> dict[str, timedelta | None]:
    vocabulary.decisions.refresh_if_stale()
    records = [MirrorRecord.from_service(r, UUID(key)) for key, r in answers.items()]
    keys = [record.key[0] for record in records]
    lock_patients_of(keys)
    versions = stored_versions(RESULTS, [record.key for record in records], lock=True)
    same = {key for (key,) in already_stored_keys(versions, records, RESULTS)}
    before = _contents(_closed_with_new_records(versions, same))
    apply_batch(RESULTS, records, stored=versions)
    after = _contents(before)
    same |= {key for key, content in before.items() if after[key] == content}
    # Unchanged results are included: their order may have become corrected since.
    checks = checks_by_order(keys)
    store_versions(keys, reread=same, checks=checks)
    write_checks(checks)
    return {}


def _flag_missing(keys: Sequence[str], asked_at: datetime) -> None:
    flag_missing(RESULTS, [(UUID(key),) for key in keys], asked_at)


RESULT_LOOKUP = LookupType(
    kind="results",
    fetch=lambda service, key: service.orders.result(key),
    store=_store,
    on_missing=_flag_missing,
    retry_missing_after=lambda key: timedelta(hours=1),
)
