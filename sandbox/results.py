"""Results as a function of the order (orders.md 8): nothing is stored, everything is repeatable.

What an order's result says follows from the seed, its number, its `result_version`,
`interpretation` and `has_missing_results`, and from the expected results of its lab test; the same
order state always gives the same record.
"""

from datetime import date, datetime, timedelta
from typing import Any

import orjson
from django.db.models import Q

from sandbox.keyed_random import KeyedRandom
from sandbox.models import ExpectedResult, Order, World
from sandbox.places import AREAS

FAILURES = (
    (25, "quantity_not_sufficient_failure"),
    (10, "collection_process_failure"),
    (5, "drop_off_failure"),
    (15, "internal_lab_failure"),
    (5, "order_entry_failure"),
    (20, "non_failure"),
    (10, "unknown_failure"),
    (5, "patient_condition_failure"),
    (5, "missing_result_calc_failure"),
)
ZONE_OFFSET = -18_000  # seconds; labs report in one zone


def has_result(order: Order) -> bool:
    """Return whether there is anything to read yet."""
    return order.result_version > 0


def metadata_record(order: Order) -> dict[str, Any]:
    """LabResultsMetadata (orders.md 8.2)."""
    fixed = orjson.loads("{" + order.fixed_part + "}")
    patient = fixed["patient_details"] or {}
    born = order.patient_dob or date(1980, 1, 1)
    reported = reported_at(order)
    collected = order.collected_at or reported
    physician = fixed["physician"]
    years = (collected.date() - born).days * 400 // 146_097
    return {
        "age": str(years),
        "dob": born.strftime("%d/%m/%Y"),
        "clia_#": f"{10 + order.lab_test.lab_id}D{order.lab_test.lab_id:07d}",
        "patient": f"{patient.get('first_name', '')} {patient.get('last_name', '')}".strip(),
        "provider": physician and f"{physician['first_name']} {physician['last_name']}",
        "laboratory": order.lab_test.lab.name,
        "date_reported": reported.isoformat(),
        "date_collected": collected.isoformat(),
        "specimen_number": order.sample_id or f"N{order.number}",
        "date_received": min(collected + timedelta(hours=9), reported).isoformat(),
        "status": order.result_status or "final",
        "interpretation": order.interpretation,
        "patient_id": str(order.user_id),
        "account_id": order.lab_account.provider_account_id if order.lab_account else None,
    }


def reported_at(order: Order) -> datetime:
    """When the current version came: the last event (results arrive with events)."""
    return order.last_event_at


def result_record(order: Order) -> dict[str, Any]:
    """LabResultsRaw without `order_transaction` (orders.md 8.1).

    The order comes with `lab_test__lab` and `lab_account` selected and has a result.
    """
    rng = KeyedRandom(World.objects.get(id=1).seed, "result", order.number)
    expected = list(
        ExpectedResult.objects.filter(
            Q(marker__lab_tests=order.lab_test_id)
            | Q(marker__reflex_of__lab_tests=order.lab_test_id)
        )
        .select_related("marker", "loinc")
        .order_by("marker__id", "id")
        .distinct()
    )
    worst = rng.integer(0, 1000)  # which row carries the order's interpretation
    rows: list[dict[str, Any]] = []
    missing: list[dict[str, Any]] = []
    firm = [each for each in expected if each.required]
    spared = firm[worst % len(firm)] if firm else None
    abnormal: set[int] = set()
    for each in expected:
        row_rng = KeyedRandom(rng.integer64(), each.id)
        if not each.required and each.marker.reflex_of_id not in abnormal:
            continue  # a reflex is run when its marker is out of range
        held_back = row_rng.fraction()
        if each is not spared and _is_missing(order, held_back):
            missing.append(_missing(each, order, row_rng))
            continue
        level = "normal"
        if each is spared:
            level = order.interpretation or "normal"
        elif order.interpretation in ("abnormal", "critical") and row_rng.chance(0.2):
            level = "abnormal"
        if level in ("abnormal", "critical"):
            abnormal.add(each.marker_id)
        rows.append(_row(each, order, row_rng, level))
    return {
        "metadata": metadata_record(order),
        "results": rows,
        "missing_results": missing,
        "sample_information": _samples(order),
    }


def _is_missing(order: Order, held_back: float) -> bool:
    if not order.has_missing_results:
        return False
    partials = max(1, order.result_version)
    return held_back < (0.5 / partials if order.result_status == "partial" else 0.2)


def _source(each: ExpectedResult) -> list[dict[str, Any]]:
    marker = each.marker
    return [
        {
            "marker_id": marker.id,
            "name": marker.name,
            "slug": marker.slug,
            "provider_id": marker.provider_id,
        }
    ]


def _missing(each: ExpectedResult, order: Order, rng: KeyedRandom) -> dict[str, Any]:
    partial = order.result_status == "partial"
    return {
        "name": each.name,
        "slug": each.slug,
        "inferred_failure_type": "non_failure" if partial else rng.weighted_choice(FAILURES),
        "note": "Pending" if partial else "Made-up note: not reported",
        "loinc": each.loinc.code if each.loinc else None,
        "loinc_slug": each.loinc.slug if each.loinc else None,
        "provider_id": each.provider_id,
        "source_markers": _source(each),
    }


def _row(each: ExpectedResult, order: Order, rng: KeyedRandom, level: str) -> dict[str, Any]:
    value: float | None = -1
    text, above, below = "", None, None
    low, high = each.low, each.high
    out = level in ("abnormal", "critical")
    if each.kind in ("numeric", "range") and low is not None and high is not None:
        span = (high - low) or 1.0
        number = rng.uniform(low + 0.05 * span, high - 0.05 * span)
        up = rng.chance(0.6) or low <= 0
        if out:
            far = rng.uniform(0.1, 0.4) + (1.0 if level == "critical" else 0.0)
            number = high + far * span if up else max(low * (1 - min(far, 0.9)), 0.01)
        # A corrected value differs from the one it replaces, within its range.
        corrections = max(0, order.result_version - 1) if order.status.endswith("corrected") else 0
        change = 1 + 0.003 * corrections
        number = number / change if not out and number * change > high else number * change
        number = round(number, 2 if high < 20 else 1)
        above, below = number > high, number < low
        value, text = number, f"{number:g}"
        if each.kind == "range":
            value = -1
            text = f">{high:g}" if out else f"<{max(number, 0.1):g}"
    else:
        text = each.choices[1 if out and len(each.choices) > 1 else 0] if each.choices else "Seen"
    reference = None
    if low is not None and high is not None:
        reference = f"<{high:g}" if low == 0 else f"{low:g}-{high:g}"
    flag = {"normal": "", "abnormal": "A", "critical": "AA"}.get(level, "")
    return {
        "name": each.name,
        "slug": each.slug,
        "value": value,
        "result": text,
        "type": each.kind,
        "unit": each.unit,
        "timestamp": reported_at(order).isoformat(),
        "notes": text if each.kind in ("range", "comment") else None,
        "reference_range": reference,
        "min_range_value": low if reference and low else None,
        "max_range_value": high,
        "is_above_max_range": above,
        "is_below_min_range": below,
        "interpretation": level,
        "source_interpretation": flag,
        "loinc": each.loinc.code if each.loinc else None,
        "loinc_slug": each.loinc.slug if each.loinc else None,
        "provider_id": each.provider_id,
        "source_markers": _source(each),
        "performing_laboratory": order.lab_test.lab.name,
        "source_sample_id": order.sample_id,
    }


def _samples(order: Order) -> dict[str, Any]:
    lab = order.lab_test.lab
    reported = reported_at(order)
    collected = order.collected_at or reported
    city = next((area for area in AREAS if area[0] == lab.zipcode), AREAS[0])
    key = order.sample_id or f"N{order.number}"

    def stamp(moment: datetime) -> dict[str, Any]:
        return {"timestamp": moment.isoformat(), "timezone_offset": ZONE_OFFSET}

    return {
        key: {
            "sample_id": key,
            "control_number": f"C{order.number:08d}",
            "date_collected": stamp(collected),
            "date_received": stamp(min(collected + timedelta(hours=9), reported)),
            "date_reported": stamp(reported),
            "performing_laboratories": {
                lab.slug: {
                    "name": lab.name,
                    "phone_number": "+15550100199",
                    "medical_director": "Dr. Madeup Director",
                    "address": {
                        "first_line": lab.first_line_address,
                        "second_line": None,
                        "city": lab.city,
                        "state": city[2],
                        "zip": lab.zipcode,
                        "country": "US",
                    },
                }
            },
            "clinical_information": {
                "fasting": order.lab_test.fasting,
                "notes": None,
                "information": None,
                "total_volume": None,
            },
        }
    }
