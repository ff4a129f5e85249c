"""The records of the specification, as shapes an answer can be compared with.

A shape is one of:

- a string of type names joined by "|": "uuid", "string|null", ...;
- a dict: an object; a key with a trailing "?" may be absent;
- a list of one shape: an array of it;
- ``MapOf(shape)``: an object with any keys;
- ``ByForm``: what the specification says, and what the supplement permits
  besides it, which only the sandbox's default form may use.

Fields that a shape does not name may be present: the supplement adds many.
"""

from __future__ import annotations

import datetime
import re
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True)
class MapOf:
    shape: Shape


@dataclass(frozen=True)
class ByForm:
    specified: Shape
    default: Shape


Shape: TypeAlias = "str | MapOf | ByForm | OrNull | Mapping[str, Shape] | list[Shape]"


@dataclass(frozen=True)
class OrNull:
    shape: Shape


def nullable(shape: Shape) -> ByForm:
    """Return the shape that only the supplement permits to be null."""
    return ByForm(shape, OrNull(shape))


def enum(*values: str) -> str:
    return "|".join(f"={value}" for value in values)


DATE = re.compile(r"\d{4}-\d{2}-\d{2}")


def _is_date(value: object) -> bool:
    return isinstance(value, str) and bool(DATE.fullmatch(value)) and _parses(value)


def _parses(value: str) -> bool:
    try:
        datetime.datetime.fromisoformat(value)
    except ValueError:
        return False
    return True


def _is_uuid(value: object) -> bool:
    try:
        return isinstance(value, str) and bool(uuid.UUID(value))
    except ValueError:
        return False


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


TYPES: dict[str, Callable[[object], bool]] = {
    "uuid": _is_uuid,
    "date": _is_date,
    "date-time": lambda value: isinstance(value, str) and "T" in value and _parses(value),
    "string": lambda value: isinstance(value, str),
    "integer": lambda value: isinstance(value, int) and not isinstance(value, bool),
    "number": _is_number,
    "boolean": lambda value: isinstance(value, bool),
    "object": lambda value: isinstance(value, dict),
    "null": lambda value: value is None,
}


def _is_of_type(value: object, name: str) -> bool:
    if name.startswith("="):
        return value == name[1:]
    return bool(TYPES[name](value))


def differences(
    value: object, shape: Shape, *, as_specified: bool, path: str = "answer"
) -> Iterator[str]:
    """Yield one line for each place where the value does not have the shape."""
    match shape:
        case ByForm():
            chosen = shape.specified if as_specified else shape.default
            yield from differences(value, chosen, as_specified=as_specified, path=path)
        case OrNull():
            if value is not None:
                yield from differences(value, shape.shape, as_specified=as_specified, path=path)
        case str():
            if not any(_is_of_type(value, name) for name in shape.split("|")):
                yield f"{path} is {value!r}, not {shape}"
        case list():
            if not isinstance(value, list):
                yield f"{path} is {value!r}, not an array"
                return
            for index, item in enumerate(value):
                yield from differences(
                    item, shape[0], as_specified=as_specified, path=f"{path}[{index}]"
                )
        case MapOf():
            if not isinstance(value, dict):
                yield f"{path} is {value!r}, not an object"
                return
            for key, item in value.items():
                yield from differences(
                    item, shape.shape, as_specified=as_specified, path=f"{path}.{key}"
                )
        case _:
            if not isinstance(value, dict):
                yield f"{path} is {value!r}, not an object"
                return
            for key, inner in shape.items():
                name = key.removesuffix("?")
                if name in value:
                    yield from differences(
                        value[name], inner, as_specified=as_specified, path=f"{path}.{name}"
                    )
                elif not key.endswith("?"):
                    yield f"{path}.{name} is missing"


# Users ------------------------------------------------------------------

CONNECTED_SOURCE: Shape = {
    "created_on": "date-time",
    "source": {"logo": "string", "name": "string", "slug": "string"},
}
USER: Shape = {
    "user_id": "uuid",
    "team_id": "uuid",
    "client_user_id": "string",
    "created_on": "date-time",
    "connected_sources": [CONNECTED_SOURCE],
    "fallback_time_zone": nullable(
        {"id": "string", "source_slug": "string", "updated_at": "date-time"}
    ),
    "fallback_birth_date?": nullable(
        {"value": "date", "source_slug": "string", "updated_at": "date-time"}
    ),
    "ingestion_start?": "date|null",
    "ingestion_end?": "date|null",
}
USERS: Shape = {"users": [USER], "total": "integer", "offset": "integer", "limit": "integer"}

STREET: dict[str, Shape] = {
    "first_line": "string",
    "second_line": "string|null",
    "city": "string",
    "state": "string",
}
ADDRESS: Shape = {
    **STREET,
    "zip": "string",
    "country": "string",
    "access_notes?": nullable("string"),
}
GUARANTOR: Shape = {
    "first_name": "string",
    "last_name": "string",
    "address": ADDRESS,
    "phone_number": "string",
    "email?": nullable("string"),
    "household_income?": nullable("number"),
    "household_size?": nullable("number"),
}
RACE = enum(
    "african_american_or_black",
    "asian",
    "indigenous_native_american_alaska_native",
    "other",
    "pacific_islander_or_hawaiian",
    "white_caucasian",
)
ETHNICITY = enum("hispanic", "non_hispanic", "ashkenazi_jewish", "other")
ORIENTATION = enum(
    "lesbian_gay_or_homosexual", "heterosexual_or_straight", "bisexual", "dont_know", "other"
)
GENDER_IDENTITY = enum(
    "male",
    "female",
    "female_to_male_ftm_transgender_male_trans_man",
    "male_to_female_mtf_transgender_female_trans_woman",
    "genderqueer",
    "other",
)
USER_INFO: Shape = {
    "first_name": "string",
    "last_name": "string",
    "email": "string",
    "phone_number": "string",
    "gender": "string",
    "dob": "date",
    "address": ByForm(
        {**STREET, "zip_code": "string"},
        {**STREET, "zip": "string", "country": "string"},
    ),
    "medical_proxy?": nullable(GUARANTOR),
    "race?": f"{RACE}|null",
    "ethnicity?": f"{ETHNICITY}|null",
    "sexual_orientation?": f"{ORIENTATION}|null",
    "gender_identity?": f"{GENDER_IDENTITY}|null",
}

# Insurance and payors ---------------------------------------------------

INSURANCE: Shape = {
    "payor_code": "string",
    "member_id": "string",
    "relationship": enum("Self", "Spouse", "Other"),
    "insured": {
        "first_name": "string",
        "last_name": "string",
        "gender": "string",
        "address": ADDRESS,
        "dob": "date",
        "email": "string",
        "phone_number": "string",
    },
    "group_id?": "string|null",
    "guarantor?": nullable(GUARANTOR),
    "is_primary": "boolean",
    "company": {"name": "string", "address": ADDRESS},
}
PAYOR: Shape = {
    "payor_code": "string",
    "name": "string",
    "aliases": ["string"],
    "org_address": ADDRESS,
    "source": enum("platform", "team"),
}

# Lab catalogue and accounts ---------------------------------------------

LOINC: Shape = {
    "id": "integer",
    "name": "string",
    "slug": "string",
    "code": "string",
    "unit?": "string|null",
}
MARKER: Shape = {
    "id": "integer",
    "name": "string",
    "slug": "string",
    "description?": nullable("string"),
    "lab_id": nullable("integer"),
    "provider_id": nullable("string"),
    "type": nullable("string"),
    "unit?": "string|null",
    "price?": nullable("string"),
    "expected_results": [
        {
            "id": "integer",
            "name": "string",
            "slug": "string",
            "lab_id": nullable("integer"),
            "provider_id": nullable("string"),
            "loinc?": nullable(LOINC),
        }
    ],
}
MARKERS: Shape = {"markers": [MARKER], "total": "integer", "page": "integer", "size": "integer"}
LAB_ACCOUNT: Shape = {
    "id": "uuid",
    "lab": "string",
    "status": "string",
    "delegated_flow": "string",
    "provider_account_id": "string",
    "allowed_billing": "object",
    "team_id_allowlist": ["uuid"],
    "org_id?": nullable("uuid"),
    "account_name?": nullable("string"),
    "default_clinical_notes?": nullable("string"),
    "business_units?": nullable(["string"]),
}
LAB_ACCOUNTS: Shape = {"data": [LAB_ACCOUNT]}

# Orders -----------------------------------------------------------------

LOW_LEVEL_STATUSES = """
    ordered requisition_created requisition_bypassed transit_customer out_for_delivery
    with_customer transit_lab delivered_to_lab completed failure_to_deliver_to_lab
    failure_to_deliver_to_customer problem_in_transit_lab problem_in_transit_customer
    sample_error appointment_scheduled appointment_cancelled appointment_pending
    draw_completed cancelled lost do_not_process partial_results awaiting_registration
    registered redraw_available corrected lab_processing_blocked
""".split()  # noqa: SIM905
METHODS = ["testkit", "walk_in_test", "at_home_phlebotomy", "on_site_collection"]

SHIPMENT: Shape = {
    "id": "uuid",
    **{
        f"{key}?": nullable("string")
        for key in (
            "outbound_tracking_number",
            "outbound_tracking_url",
            "inbound_tracking_number",
            "inbound_tracking_url",
            "outbound_courier",
            "inbound_courier",
            "notes",
        )
    },
    "created_at?": "date-time",
    "updated_at?": "date-time",
}
ORDER_TRANSACTION: Shape = {
    "id": "uuid",
    "status": "string",
    "orders": [
        {
            "id": "uuid",
            "created_at": "date-time",
            "updated_at": "date-time",
            "low_level_status": nullable("string"),
            "low_level_status_created_at": nullable("date-time"),
            "origin": nullable("string"),
        }
    ],
}
ORDER: Shape = {
    "id": "uuid",
    "team_id": "uuid",
    "user_id": "uuid",
    "patient_details?": ByForm(
        {"dob": "date", "gender": "string"}, OrNull({"dob": "date|date-time", "gender": "string"})
    ),
    "priority": "boolean",
    "patient_address?": nullable(
        {
            "receiver_name": "string",
            "first_line": "string",
            "second_line?": nullable("string"),
            "city": "string",
            "state": "string",
            "zip": "string",
            "country": "string",
            "phone_number?": nullable("string"),
        }
    ),
    "details": {
        "type": enum(*METHODS),
        "data?": nullable(
            {
                "id": "uuid",
                "created_at": "date-time",
                "updated_at": "date-time",
                "shipment?": nullable(SHIPMENT),
            }
        ),
    },
    "lab_test": ByForm(
        {"name": "string", "description": "string", "method": enum(*METHODS)},
        {"name": "string", "method": enum(*METHODS)},
    ),
    "sample_id?": nullable("string"),
    "notes?": nullable("string"),
    "created_at": "date-time",
    "updated_at": "date-time",
    "status": nullable("string"),
    "events": [{"id": "integer", "created_at": "date-time", "status": "string"}],
    "origin?": nullable("string"),
    "order_transaction?": nullable(ORDER_TRANSACTION),
}
ORDERS: Shape = {
    "orders": [ORDER],
    "total": "integer|null",
    "page": "integer|null",
    "size": "integer|null",
}
ONE_ORDER: Shape = {"order": ORDER}

# Appointments -----------------------------------------------------------

APPOINTMENT: Shape = {
    "id": "uuid",
    "user_id": "uuid",
    "order_id": "uuid",
    "address": {
        "first_line": "string",
        "second_line?": nullable("string"),
        "city": "string",
        "state": "string",
        "zip_code": "string",
        "unit?": nullable("string"),
    },
    "location": {"lng": "number", "lat": "number"},
    "start_at": "date-time|null",
    "end_at": "date-time|null",
    "type": enum("phlebotomy", "patient_service_center"),
    "provider": "string",
    "status": enum("confirmed", "pending", "reserved", "in_progress", "completed", "cancelled"),
    "provider_id": "string",
    "can_reschedule": "boolean",
    "event_status": enum(
        "pending", "reserved", "scheduled", "completed", "cancelled", "in_progress"
    ),
    "events": ["object"],
    "order_transaction_id?": "uuid|null",
    "iana_timezone?": "string|null",
    "external_id?": "string|null",
    "appointment_notes?": "string|null",
    "event_data?": nullable("object"),
}
AVAILABILITY: Shape = {"slots": [{"date": "date", "slots": ["object"]}]}

# Introspection and reports ----------------------------------------------

PULLED: Shape = {
    "days_with_data": "integer",
    "range_start": nullable("date-time"),
    "range_end": nullable("date-time"),
    "release": "string",
    "status": "string",
    "error_details?": nullable("string"),
    "timeline": {
        "scheduled_at": "date-time",
        "started_at?": nullable("date-time"),
        "ended_at?": nullable("date-time"),
    },
    "trace_id?": nullable("string"),
}
HISTORICAL_PULLS: Shape = {
    "data": [
        {
            "user_id": "string",
            "provider": MapOf({"not_pulled": ["string"], "pulled": MapOf(PULLED)}),
        }
    ],
    "next": "string|null",
    "next_cursor": "string|null",
}
REPORT_JOB: Shape = {"id": "uuid", "status": "string"}
SUCCESS: Shape = {"success": "boolean"}
