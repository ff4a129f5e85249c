"""Users, insurance and payors as the interface's documents have them."""

from __future__ import annotations

from .kinds import (
    ANY,
    choice,
    day,
    flag,
    instant,
    integer,
    many,
    mapping,
    number,
    record,
    storable,
    text,
    uid,
    without,
    words,
)

provider = record({"name": text, "slug": text, "logo": text})
user = record(
    {
        "user_id": uid,
        "team_id": uid,
        "client_user_id": text,
        "created_on": instant,
        "connected_sources": many(
            record({"created_on": instant, "source|provider": provider}).map(
                lambda drawn: (drawn[0], without(drawn[1], "source"))
            )
        ),
        "fallback_time_zone?": record({"id": text, "source_slug": text, "updated_at": instant}),
        "fallback_birth_date?": record({"value": day, "source_slug": text, "updated_at": instant}),
        "ingestion_start?": day,
        "ingestion_end?": day,
    }
)
address = record(
    {
        "first_line": text,
        "second_line?": text,
        "city": text,
        "state": text,
        "zip|zip_code": words.filter(bool).map(lambda word: (word, storable(word))),
        "country?": text,
        "access_notes?": text,
    }
)
guarantor = record(
    {
        "first_name": text,
        "last_name": text,
        "address": address,
        "phone_number": text,
        "email?": text,
        "household_income?": number,
        "household_size?": integer,
    }
)
identity = {
    "race?": choice("asian", "white_caucasian"),
    "ethnicity?": choice("hispanic"),
    "sexual_orientation?": choice("bisexual", "dont_know"),
    "gender_identity?": choice("female", "genderqueer"),
}
user_info = record(
    {
        "first_name": text,
        "last_name": text,
        "email": text,
        "phone_number": text,
        "gender": choice("male", "Male"),
        "dob": day,
        "address": address,
        "medical_proxy?": guarantor,
    }
    | identity
)
scopes = record({"required": many(text), "optional": many(text)})
connect_link = record({"link_web_url": text})
connection = record(
    {
        "name": text,
        "slug": text,
        "logo": text,
        "created_on": instant,
        "status": choice("connected", "error"),
        "external_user_id?": text,
        "error_details?": record(
            {"error_type": text, "error_message": text, "errored_at": instant}
        ),
        "resource_availability": mapping(
            record(
                {
                    "status": choice("available"),
                    "scope_requirements?": record({"user_granted": scopes, "user_denied": scopes}),
                }
            )
        ),
    }
)
pull = record(
    {
        "status": choice("success", "retrying"),
        "days_with_data": integer,
        "range_start?": instant,
        "range_end?": instant,
        "release?": text,
        "error_details?": choice("transport_failure"),
        "timeline": record({"scheduled_at": instant, "started_at?": instant, "ended_at?": instant}),
        "trace_id?": text,
    }
)
pull_report = record(
    {
        "user_id": uid,
        "provider": mapping(
            record({"not_pulled": many(text), "pulled": mapping(pull.map(lambda p: (p[0], ANY)))})
        ),
    }
)
insurance = record(
    {
        "payor_code": text,
        "member_id": text,
        "relationship": choice("Self", "Spouse", "Other"),
        "insured": record(
            {
                "first_name": text,
                "last_name": text,
                "gender": choice("Male", "female"),
                "address": address,
                "dob": day,
                "email": text,
                "phone_number": text,
            }
        ),
        "group_id?": text,
        "guarantor?": guarantor,
        "is_primary": flag,
        "company": record({"name": text, "address": address}),
    }
)
payor = record(
    {
        "payor_code|code": text,
        "name": text,
        "aliases": many(text),
        "org_address": address,
        "source": choice("platform", "team"),
    }
).map(lambda drawn: (drawn[0], without(drawn[1], "code")))
diagnosis = record({"diagnosis_code": text, "description": text, "is_secondary": flag})
