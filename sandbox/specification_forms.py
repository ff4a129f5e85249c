"""The two forms of records that the sandbox can serve, and every difference between them.

By default it follows the supplement, which is less strict than the specification. With
`--as-specified` it serves and accepts exactly the forms of the specification where the two differ:
no null where the specification has none, dates without a time, no field that the specification
calls removed. Requests with `zip_code` or without `country` are accepted in both.

Each function takes a record in the default form, may change it, and returns it as it is served.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, wraps
from typing import Any

import orjson
from django.conf import settings

from sandbox.models import LabTest

Record = dict[str, Any]

MANUAL = "manual"
_REMOVED_FROM_SOURCE = ("name", "slug", "logo")  # on or after 31 July 2024


def _as_specified(change: Callable[[Record], None]) -> Callable[[Record], Record]:
    """Return a function that makes the change only with `--as-specified`."""

    @wraps(change)
    def form(record: Record) -> Record:
        if settings.AS_SPECIFIED:
            change(record)
        return record

    return form


def _leave_out_nulls(record: Record, *names: str) -> None:
    """Remove these fields if they are null: they are optional, but never null."""
    for name in names:
        if name in record and record[name] is None:
            del record[name]


def _empty_for_null(record: Record, *names: str) -> None:
    for name in names:
        if record.get(name) is None:
            record[name] = ""


# What is accepted -------------------------------------------------------------------------------


def takes_fractions() -> bool:
    """Return whether a household's income is any number, and not only an integer."""
    return bool(settings.AS_SPECIFIED)


def needs_guarantor(relationship: str) -> bool:
    return not settings.AS_SPECIFIED and relationship != "Self"


# What is answered -------------------------------------------------------------------------------


@_as_specified
def user(record: Record) -> None:
    """`fallback_time_zone` is required; a source says its provider in `source` only."""
    _leave_out_nulls(record, "fallback_birth_date")
    if record["fallback_time_zone"] is None:
        record["fallback_time_zone"] = {
            "id": "UTC",
            "source_slug": MANUAL,
            "updated_at": record["created_on"],
        }
    for source in record["connected_sources"]:
        del source["provider"]


@_as_specified
def info(record: Record) -> None:
    """The address as the example of the specification has it."""
    address = record["address"]
    address["zip_code"] = address.pop("zip")
    del address["country"]
    _leave_out_nulls(address, "access_notes")
    _leave_out_nulls(record, "medical_proxy")
    if "medical_proxy" in record:
        _guarantor(record["medical_proxy"])


def _guarantor(record: Record) -> None:
    _leave_out_nulls(record, "email", "household_income", "household_size")
    _leave_out_nulls(record["address"], "access_notes")


@_as_specified
def insurance(record: Record) -> None:
    _leave_out_nulls(record, "guarantor")
    _leave_out_nulls(record["insured"]["address"], "access_notes")
    _leave_out_nulls(record["company"]["address"], "access_notes")
    if "guarantor" in record:
        _guarantor(record["guarantor"])


@_as_specified
def payor(record: Record) -> None:
    _leave_out_nulls(record["org_address"], "access_notes")


@_as_specified
def marker(record: Record) -> None:
    _empty_for_null(record, "description", "provider_id", "price")
    record["type"] = record["type"] or "biomarker"
    for result in record.get("expected_results", ()):
        _empty_for_null(result, "provider_id")
        _leave_out_nulls(result, "loinc")


@_as_specified
def account(record: Record) -> None:
    _leave_out_nulls(record, "org_id", "account_name")
    _empty_for_null(record, "default_clinical_notes")
    record["business_units"] = record["business_units"] or []


@_as_specified
def appointment(record: Record) -> None:
    _empty_for_null(record["address"], "second_line", "unit")
    _leave_out_nulls(record["address"], "access_notes")
    _leave_out_nulls(record, "event_data")


@_as_specified
def pull(record: Record) -> None:
    """One resource of a historical pull report; what has not happened yet is left out."""
    timeline = record["timeline"]
    _leave_out_nulls(timeline, "started_at", "ended_at")
    record["range_start"] = record["range_start"] or timeline["scheduled_at"]
    record["range_end"] = record["range_end"] or timeline["scheduled_at"]
    _empty_for_null(record, "trace_id")
    _leave_out_nulls(record, "error_details")


@_as_specified
def source(record: Record) -> None:
    """The source of summaries, samples and data events, without what is removed by now."""
    for name in _REMOVED_FROM_SOURCE:
        record.pop(name, None)


@_as_specified
def connection_created(record: Record) -> None:
    """Replaced by `provider`, and removed on or after 31 July 2024."""
    del record["source"]


@_as_specified
def history_pulled(record: Record) -> None:
    """Removed in June 2024."""
    record.pop("is_final", None)


@cache
def _description(lab_test_id: str) -> str:
    """Return the description of a lab test, never empty. It does not change."""
    test = LabTest.objects.only("description", "name").get(pk=lab_test_id)
    return test.description or f"Made-up test: {test.name}"


def order(text: str) -> str:
    """Return the JSON text of an Order without `last_event`, with its lab test's description."""
    if not settings.AS_SPECIFIED:
        return text
    record = orjson.loads(text)
    del record["last_event"]
    record["lab_test"]["description"] = _description(record["lab_test"]["id"])
    if record["patient_details"] is not None:
        record["patient_details"]["dob"] = record["patient_details"]["dob"][:10]
    if record["patient_address"] is not None:
        _empty_for_null(record["patient_address"], "second_line")
        _leave_out_nulls(record["patient_address"], "phone_number", "access_notes")
    data = record["details"]["data"]
    _leave_out_nulls(data, "shipment", "appointment_id")
    if "shipment" in data:
        _leave_out_nulls(data["shipment"], *data["shipment"])
    _leave_out_nulls(record, "patient_details", "patient_address", "sample_id", "notes", "origin")
    return orjson.dumps(record).decode()
