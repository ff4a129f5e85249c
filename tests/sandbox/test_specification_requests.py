"""Requests written from the specification's text alone, before the sandbox's code.

Each entry of REQUESTS names the chapter of the specification it comes from.
They run against the sandbox in both of its forms.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.sandbox.specification_rules import (
    MANAGEMENT,
    PDF,
    TEAM_KEY,
    Asked,
    Values,
    at_most,
    days_from,
    differs,
    equals,
    every,
    filled,
    has,
    is_text,
    last_low_level_status_in,
    none_has,
    only_key,
    some,
    sorted_by,
    values_of,
)
from tests.sandbox.specification_shapes import (
    APPOINTMENT,
    AVAILABILITY,
    HISTORICAL_PULLS,
    INSURANCE,
    LAB_ACCOUNTS,
    LOW_LEVEL_STATUSES,
    MARKERS,
    ONE_ORDER,
    ORDERS,
    PAYOR,
    REPORT_JOB,
    SUCCESS,
    USER,
    USER_INFO,
    USERS,
    differences,
)
from tests.sandboxes import running

STREET = {"first_line": "12 Elm Street", "city": "Phoenix", "state": "AZ"}
INSURANCE_ADDRESS = {**STREET, "zip_code": "85004"}
FULL_ADDRESS = {**STREET, "second_line": "", "zip": "85004", "country": "US"}
VISIT_ADDRESS = {**STREET, "first_line": "12 West Lincoln Street", "zip_code": "85004"}
REQUESTED_ADDRESS = {"first_line": "7 Oak Street", "city": "Onalaska", "state": "WI",
                     "zip_code": "54650"}  # fmt: skip
INSURED = {
    "first_name": "Ada",
    "last_name": "Stone",
    "gender": "female",
    "address": INSURANCE_ADDRESS,
    "dob": "1976-04-19",
    "email": "ada@example.test",
    "phone_number": "+15550100165",
}
COVER = {
    "payor_code": "{payor_code}",
    "member_id": "M-1001",
    "relationship": "Self",
    "insured": INSURED,
}
GUARANTOR = {
    "first_name": "Ben",
    "last_name": "Stone",
    "address": INSURANCE_ADDRESS,
    "phone_number": "+15550100166",
    "email": "ben@example.test",
    "household_income": 41250.5,
    "household_size": 3,
}
ORDERED = {
    "user_id": "{user_id}",
    "order_set": {"lab_test_ids": ["{lab_test_id}"]},
    "patient_details": {key: value for key, value in INSURED.items() if key != "address"},
    "patient_address": {**FULL_ADDRESS, "receiver_name": "Ada Stone"},
}
IMPORTED = {
    **ORDERED,
    "billing_type": "client_bill",
    "collection_method": "{collection_method}",
    "sample_id": "IMPORT-{random}",
}


def without(body: dict[str, Any], key: str) -> dict[str, Any]:
    return {name: value for name, value in body.items() if name != key}


USERS_OF = "/v2/user/"
INSURANCE_OF = "/v2/user/{user_id}/insurance"
LATEST_INSURANCE = "/v2/user/{user_id}/insurance/latest"
PULLS = "/v2/introspect/historical_pull"
ALL_MARKERS = "/v3/lab_tests/markers"
TEST_MARKERS = "/v3/lab_tests/{lab_test_id}/markers"
ACCOUNTS = "/v3/lab_test/lab_account"
ACCOUNT = "/v1/org/{org_id}/lab_account/sandbox/us/{active_account}"
LIST = "/v3/orders"
VISIT = "/v3/order/{phlebotomy_order}/phlebotomy/appointment/request"
MOVE = "/v3/order/{psc_order}/psc/appointment/reschedule"

# fmt: off
CHAPTERS = {
    "Authentication", "User", "Users", "Insurance", "Payors", "Introspection", "Lab catalogue",
    "Lab accounts", "Orders", "Appointments", "Lab report parsing",
}
REQUESTS = [
    # Authentication
    Asked("Authentication 1", "GET", USERS_OF, headers={}, status="4xx"),
    Asked("Authentication 1", "GET", USERS_OF, headers={TEAM_KEY: "wrong"}, status="4xx"),
    Asked(
        "Authentication 3", "PATCH", ACCOUNT, body={"team_id_allowlist": ["{team_id}"]},
        status="4xx", at="management", note="team key in the team key's header",
    ),
    Asked(
        "Authentication 3", "PATCH", ACCOUNT, body={"team_id_allowlist": ["{team_id}"]},
        headers={"X-Management-Key": "{team_key}"}, status="4xx", at="management",
        note="team key in the management key's header",
    ),
    # Users
    Asked("Users", "GET", USERS_OF, answer=USERS),
    Asked(
        "Users", "GET", "/v2/user/resolve/{client_user_id}", answer=USER,
        rules=[equals("client_user_id", "{client_user_id}"), equals("user_id", "{user_id}")],
    ),
    Asked("Users", "GET", "/v2/user/resolve/no-such-reference", status="4xx"),
    Asked("Users", "GET", "/v2/user/{user_id}/info/latest", answer=USER_INFO),
    Asked(
        "Users", "DELETE", "/v2/user/{connected_user_id}/{connected_provider}", answer=SUCCESS,
    ),
    Asked("Users", "DELETE", "/v2/user/{user_id}/no-such-provider", status="4xx"),
    Asked("User", "POST", "/v2/user", body={"client_user_id": "ref-{random}"}),
    Asked(
        "User", "POST", "/v2/user", body={"client_user_id": "ada@example.test"}, status="4xx",
        note="an email address is personal data",
    ),
    Asked(
        "User", "POST", "/v2/user", body={"client_user_id": "+1 (555) 010-0165"}, status="4xx",
        note="a phone number is personal data",
    ),
    Asked("User", "POST", "/v2/user", body={"client_user_id": "5550100165"}, status="4xx"),
    # Insurance
    Asked(
        "Insurance", "POST", INSURANCE_OF, body=COVER, answer=INSURANCE,
        rules=[equals("is_primary", True), equals("member_id", "M-1001"),
               equals("insured.address.zip", "85004")],
        note="zip_code and no country, as the examples show",
    ),
    Asked(
        "Insurance", "POST", INSURANCE_OF,
        body={**COVER, "insured": {**INSURED, "address": FULL_ADDRESS}, "group_id": None},
        answer=INSURANCE, rules=[equals("insured.address.country", "US")],
        note="zip and country, as the table shows",
    ),
    Asked(
        "Insurance", "POST", INSURANCE_OF,
        body={**COVER, "insured": {**INSURED, "address": {**FULL_ADDRESS,
              "access_notes": "Gate code 12"}}},
        answer=INSURANCE, rules=[equals("insured.address.access_notes", "Gate code 12")],
    ),
    Asked(
        "Insurance", "POST", INSURANCE_OF, body={**COVER, "relationship": "Spouse"},
        answer=INSURANCE, default_status="4xx",
        note="guarantor is optional; the supplement requires it unless Self",
    ),
    Asked(
        "Insurance", "POST", INSURANCE_OF,
        body={**COVER, "relationship": "Other", "guarantor": GUARANTOR},
        answer=INSURANCE, rules=[equals("guarantor.household_income", 41250.5)],
        default_status="4xx", note="a number; the supplement has integers",
    ),
    Asked(
        "Insurance", "POST", INSURANCE_OF,
        body={**COVER, "relationship": "Spouse",
              "guarantor": {**GUARANTOR, "household_income": 41250}},
        answer=INSURANCE, rules=[equals("guarantor.household_size", 3)],
    ),
    Asked(
        "Insurance", "POST", INSURANCE_OF, body={**COVER, "is_primary": False},
        answer=INSURANCE, rules=[equals("is_primary", False)],
    ),
    Asked("Insurance", "POST", INSURANCE_OF, body=without(COVER, "payor_code"), status="4xx"),
    Asked("Insurance", "POST", INSURANCE_OF, body=without(COVER, "member_id"), status="4xx"),
    Asked("Insurance", "POST", INSURANCE_OF, body=without(COVER, "relationship"), status="4xx"),
    Asked("Insurance", "POST", INSURANCE_OF, body=without(COVER, "insured"), status="4xx"),
    Asked(
        "Insurance", "POST", INSURANCE_OF, body={**COVER, "payor_code": "MEDFED"},
        answer=INSURANCE, rules=[differs("payor_code", "MEDFED")],
        note="the state's plan is stored",
    ),
    Asked(
        "Insurance", "POST", INSURANCE_OF, body={**COVER, "payor_code": "MAIDFED"},
        answer=INSURANCE, rules=[differs("payor_code", "MAIDFED")],
    ),
    Asked(
        "Insurance", "GET", LATEST_INSURANCE, answer=INSURANCE,
        rules=[equals("is_primary", True)], note="is_primary is true by default",
    ),
    Asked(
        "Insurance", "GET", LATEST_INSURANCE, query={"is_primary": "false"}, answer=INSURANCE,
        rules=[equals("is_primary", False)],
    ),
    # Payors
    Asked(
        "Payors", "POST", "/v3/payor",
        body={"name": "Own Fund {random}", "address": {**FULL_ADDRESS, "access_notes": "Suite 4"}},
        answer=PAYOR,
        rules=[equals("source", "team"), equals("org_address.access_notes", "Suite 4")],
    ),
    Asked(
        "Payors", "POST", "/v3/payor",
        body={"name": "Own Fund {random}", "address": INSURANCE_ADDRESS, "provider": None,
              "provider_payor_id": None},
        answer=PAYOR, rules=[equals("org_address.zip", "85004")],
    ),
    Asked("Payors", "POST", "/v3/payor", body={"address": FULL_ADDRESS}, status="4xx"),
    Asked("Payors", "POST", "/v3/payor", body={"name": "Own Fund"}, status="4xx"),
    # Introspection
    Asked(
        "Introspection", "GET", PULLS, answer=HISTORICAL_PULLS, rules=[at_most("data", 50)],
        note="user_limit is 50 by default",
    ),
    Asked(
        "Introspection", "GET", PULLS, query={"user_limit": "2"}, answer=HISTORICAL_PULLS,
        rules=[at_most("data", 2), is_text("next_cursor")],
    ),
    Asked(
        "Introspection", "GET", PULLS, query={"user_limit": "2", "next_cursor": "{next_cursor}"},
        answer=HISTORICAL_PULLS, rules=[none_has("data", "user_id", "{first_pulled_user}")],
        note="the page after the first",
    ),
    Asked(
        "Introspection", "GET", PULLS, query={"user_id": "{pulled_user}"},
        answer=HISTORICAL_PULLS, rules=[every("data", "user_id", "{pulled_user}")],
    ),
    Asked(
        "Introspection", "GET", PULLS, query={"provider": "{pulled_provider}"},
        answer=HISTORICAL_PULLS, rules=[only_key("data", "provider", "{pulled_provider}")],
    ),
    # Lab catalogue and accounts
    Asked("Lab catalogue", "GET", ALL_MARKERS, answer=MARKERS, rules=[equals("page", 1)]),
    Asked(
        "Lab catalogue", "GET", ALL_MARKERS, query={"size": "100"}, answer=MARKERS,
        rules=[equals("size", 100), at_most("markers", 100)],
    ),
    Asked("Lab catalogue", "GET", ALL_MARKERS, query={"size": "101"}, status="4xx"),
    Asked("Lab catalogue", "GET", ALL_MARKERS, query={"size": "0"}, status="4xx"),
    Asked("Lab catalogue", "GET", ALL_MARKERS, query={"page": "0"}, status="4xx"),
    Asked(
        "Lab catalogue", "GET", ALL_MARKERS,
        query={"lab_id": "{other_lab_id}", "lab_slug": "{lab_slug}"}, answer=MARKERS,
        rules=[some("markers"), every("markers", "lab_id", "{lab_id}")],
        note="lab_slug takes precedence over the lab's id",
    ),
    Asked(
        "Lab catalogue", "GET", ALL_MARKERS, query={"name": "{marker_name}"}, answer=MARKERS,
        rules=[has("markers", "name", "{marker_name}")],
    ),
    Asked(
        "Lab catalogue", "GET", ALL_MARKERS, query={"name": "{marker_code}"}, answer=MARKERS,
        rules=[has("markers", "provider_id", "{marker_code}")], note="or by the test's code",
    ),
    Asked(
        "Lab catalogue", "GET", ALL_MARKERS, query={"lab_account_id": "{active_account}"},
        answer=MARKERS, rules=[some("markers")],
    ),
    Asked("Lab catalogue", "GET", TEST_MARKERS, answer=MARKERS, rules=[some("markers")]),
    Asked("Lab catalogue", "GET", TEST_MARKERS, query={"size": "101"}, status="4xx"),
    Asked("Lab accounts", "GET", ACCOUNTS, answer=LAB_ACCOUNTS, rules=[some("data")]),
    Asked(
        "Lab accounts", "GET", ACCOUNTS, query={"status": "pending"}, answer=LAB_ACCOUNTS,
        rules=[some("data"), every("data", "status", "pending")],
    ),
    Asked(
        "Lab accounts", "GET", ACCOUNTS, query={"lab_account_id": "{active_account}"},
        answer=LAB_ACCOUNTS, rules=[some("data"), every("data", "id", "{active_account}")],
    ),
    Asked("Lab accounts", "GET", ACCOUNTS, query={"status": "no-such-status"}, status="4xx"),
    Asked(
        "Lab accounts", "PATCH", ACCOUNT, body={"team_id_allowlist": ["{team_id}"]},
        headers=MANAGEMENT, at="management",
        rules=[equals("lab_account.team_id_allowlist", ["{team_id}"])],
    ),
    Asked(
        "Lab accounts", "PATCH", ACCOUNT.replace("/sandbox/", "/staging/"),
        body={"team_id_allowlist": ["{team_id}"]}, headers=MANAGEMENT, at="management",
        status="4xx", note="production or sandbox",
    ),
    Asked(
        "Lab accounts", "PATCH", ACCOUNT.replace("/us/", "/asia/"),
        body={"team_id_allowlist": ["{team_id}"]}, headers=MANAGEMENT, at="management",
        status="4xx", note="us or eu",
    ),
    # Orders
    Asked(
        "Orders", "GET", LIST, answer=ORDERS,
        rules=[equals("page", 1), equals("size", 50), at_most("orders", 50)],
    ),
    Asked("Orders", "GET", LIST, query={"size": "100"}, rules=[equals("size", 100)]),
    Asked("Orders", "GET", LIST, query={"size": "101"}, status="4xx"),
    Asked("Orders", "GET", LIST, query={"size": "0"}, status="4xx"),
    Asked("Orders", "GET", LIST, query={"page": "0"}, status="4xx"),
    Asked(
        "Orders", "GET", LIST, query={"status": ["completed", "cancelled"]}, answer=ORDERS,
        rules=[some("orders"), last_low_level_status_in("completed", "cancelled")],
    ),
    Asked("Orders", "GET", LIST, query={"status": LOW_LEVEL_STATUSES}, answer=ORDERS),
    Asked("Orders", "GET", LIST, query={"status": "no-such-status"}, status="4xx"),
    Asked(
        "Orders", "GET", LIST, query={"order_type": "testkit"}, answer=ORDERS,
        rules=[some("orders"), every("orders", "details.type", "testkit")],
    ),
    Asked(
        "Orders", "GET", LIST, query={"order_key": "created_at", "order_direction": "asc"},
        answer=ORDERS, rules=[sorted_by("orders", "created_at")],
    ),
    Asked(
        "Orders", "GET", LIST, query={"order_key": "created_at", "order_direction": "desc"},
        answer=ORDERS, rules=[sorted_by("orders", "created_at", reverse=True)],
    ),
    Asked(
        "Orders", "GET", LIST, query={"order_key": "last_status", "order_direction": "asc"},
        answer=ORDERS,
    ),
    Asked(
        "Orders", "GET", LIST, query={"order_key": "patient_name", "order_direction": "asc"},
        answer=ORDERS,
    ),
    Asked("Orders", "GET", LIST, query={"order_key": "price"}, status="4xx"),
    Asked("Orders", "GET", LIST, query={"order_direction": "up"}, status="4xx"),
    Asked(
        "Orders", "GET", LIST, query={"user_id": "{user_id}"}, answer=ORDERS,
        rules=[some("orders"), every("orders", "user_id", "{user_id}")],
    ),
    Asked(
        "Orders", "GET", LIST, query={"search_input": "{order_id}"}, answer=ORDERS,
        rules=[has("orders", "id", "{order_id}")],
    ),
    Asked(
        "Orders", "GET", LIST, query={"search_input": "{user_id}"}, answer=ORDERS,
        rules=[has("orders", "user_id", "{user_id}")],
    ),
    Asked(
        "Orders", "GET", LIST, query={"search_input": "{receiver_name}"}, answer=ORDERS,
        rules=[has("orders", "patient_address.receiver_name", "{receiver_name}")],
    ),
    Asked(
        "Orders", "GET", LIST, query={"search_input": "{patient_dob}"}, answer=ORDERS,
        rules=[has("orders", "id", "{order_id}")], note="the birth date",
    ),
    Asked(
        "Orders", "GET", LIST, query={"shipping_recipient_name": "{receiver_name}"},
        answer=ORDERS, rules=[has("orders", "id", "{order_id}")],
    ),
    Asked(
        "Orders", "GET", LIST, query={"order_ids": ["{order_id}", "{psc_order}"]}, answer=ORDERS,
        rules=[equals("total", 2), has("orders", "id", "{psc_order}")],
    ),
    Asked(
        "Orders", "GET", LIST, query={"order_transaction_id": "{transaction_id}"}, answer=ORDERS,
        rules=[has("orders", "id", "{order_id}"),
               every("orders", "order_transaction.id", "{transaction_id}")],
    ),
    Asked(
        "Orders", "GET", LIST, query={"start_date": "{created_day}", "end_date": "{created_day}",
                                      "user_id": "{user_id}"},
        answer=ORDERS, rules=[has("orders", "id", "{order_id}")],
        note="from 00:00:00 to 23:59:59 of the day",
    ),
    Asked(
        "Orders", "GET", LIST, query={"updated_start_date": "{updated_day}",
                                      "user_id": "{user_id}"},
        answer=ORDERS, rules=[has("orders", "id", "{order_id}")],
        note="a date means 00:00:00",
    ),
    Asked(
        "Orders", "GET", LIST, query={"updated_end_date": "{updated_day}",
                                      "user_id": "{user_id}"},
        answer=ORDERS, rules=[none_has("orders", "id", "{order_id}")],
        note="a date means 00:00:00, the start of the day",
    ),
    Asked("Orders", "GET", LIST, query={"is_critical": "true"}, answer=ORDERS),
    Asked("Orders", "GET", LIST, query={"interpretation": "abnormal"}, answer=ORDERS),
    Asked(
        "Orders", "GET", LIST, query={"order_activation_types": ["current", "scheduled"]},
        answer=ORDERS, rules=[some("orders")],
    ),
    Asked(
        "Orders", "POST", "/v3/order/create",
        body={**ORDERED, "lab_account_id": "{active_account}", "clinical_notes": "n" * 1000},
        answer=ONE_ORDER, note="a comment of 1,000 characters",
    ),
    Asked(
        "Orders", "POST", "/v3/order/create",
        body={**ORDERED, "lab_account_id": "{active_account}", "clinical_notes": "n" * 1001},
        status="4xx", note="a comment of 1,001 characters",
    ),
    Asked(
        "Orders", "POST", "/v3/order/import",
        body={**IMPORTED, "lab_account_id": "{pending_account}",
              "order_set": {"lab_test_ids": ["{pending_lab_test_id}"]}},
        answer=ONE_ORDER, note="a pending account can be used for an import",
    ),
    # Appointments
    Asked(
        "Appointments", "GET", "/v3/order/{visited_order}/phlebotomy/appointment",
        answer=APPOINTMENT, rules=[equals("order_id", "{visited_order}"),
                                   equals("type", "phlebotomy")],
    ),
    Asked("Appointments", "POST", VISIT, status="4xx",
          body={"address": REQUESTED_ADDRESS, "provider": "{phlebotomy_provider}",
                "appointment_notes": "n" * 1001}),
    Asked("Appointments", "POST", VISIT, status="4xx", body={"address": REQUESTED_ADDRESS}),
    Asked("Appointments", "POST", VISIT, status="4xx",
          body={"provider": "{phlebotomy_provider}"}),
    Asked("Appointments", "POST", VISIT, answer=APPOINTMENT,
          body={"address": REQUESTED_ADDRESS, "provider": "{phlebotomy_provider}",
                "appointment_notes": "n" * 1000},
          rules=[equals("order_id", "{phlebotomy_order}"), equals("type", "phlebotomy"),
                 equals("appointment_notes", "n" * 1000)]),
    Asked("Appointments", "PATCH", MOVE, status="4xx", body={"appointment_notes": "later"}),
    Asked("Appointments", "PATCH", MOVE, status="4xx",
          body={"booking_key": "{booking_key}", "appointment_notes": "n" * 1001}),
    Asked("Appointments", "PATCH", MOVE, answer=APPOINTMENT,
          body={"booking_key": "{booking_key}", "appointment_notes": None},
          rules=[equals("order_id", "{psc_order}"), equals("type", "patient_service_center")]),
    Asked("Appointments", "POST", "/v3/order/phlebotomy/appointment/availability",
          query={"start_date": "{tomorrow}"}, body=VISIT_ADDRESS, answer=AVAILABILITY,
          rules=[days_from("{tomorrow}", 14)], note="14 days of slots"),
    Asked("Appointments", "POST", "/v3/order/psc/appointment/availability",
          query={"start_date": "{tomorrow}", "lab": "{psc_lab}", "zip_code": "{psc_zip_code}",
                 "radius": "25"},
          answer=AVAILABILITY, rules=[days_from("{tomorrow}", 14)], note="14 days of slots"),
    # Lab report parsing
    Asked("Lab report parsing", "POST", "/lab_report/v1/parser/job",
          upload=("report.pdf", PDF), answer=REPORT_JOB),
    Asked("Lab report parsing", "POST", "/lab_report/v1/parser/job",
          upload=("report.txt", b"no report"), status="4xx", note="PDF, JPEG or PNG"),
    Asked("Lab report parsing", "POST", "/lab_report/v1/parser/job",
          upload=("report.pdf", PDF + b" " * 10 * 1024 * 1024), status="4xx",
          note="more than 10 MB"),
    Asked("Lab report parsing", "GET", "/lab_report/v1/parser/job/{job_id}", answer=REPORT_JOB),
]
# fmt: on


@pytest.fixture(scope="module", params=["default", "as-specified"])
def world(request: pytest.FixtureRequest) -> Iterator[tuple[bool, httpx.Client, Values]]:
    """A sandbox of one form, a client of it, and the values that the requests name."""
    as_specified = request.param == "as-specified"
    with (
        running(users=150, orders=700, seed=29, as_specified=as_specified) as sandbox,
        httpx.Client(base_url=sandbox.url, timeout=30) as http,
    ):
        yield as_specified, http, values_of(http)


@pytest.mark.parametrize("asked", REQUESTS, ids=str)
def test_answer_is_what_the_specification_says(
    world: tuple[bool, httpx.Client, Values], asked: Asked
) -> None:
    as_specified, http, values = world
    answer = asked.send(http, values)
    status = f"{answer.status_code // 100}xx"
    if not as_specified and status == asked.default_status:
        return
    assert status == asked.status, answer.text[:600]
    if asked.answer is not None:
        body = answer.json()
        assert list(differences(body, asked.answer, as_specified=as_specified)) == []
    for rule in asked.rules:
        assert rule.holds(answer.json(), lambda value: filled(value, values)), (
            rule.text,
            answer.text[:600],
        )


def test_requests_cover_every_chapter_of_endpoints() -> None:
    assert len(REQUESTS) >= 60
    assert {asked.chapter.rstrip(" 0123456789") for asked in REQUESTS} == CHAPTERS
