"""What the mirror must hold, derived from the sandbox's own tables.

Each check has one statement for the sandbox's database and one for the mirror's. Both must return
the same rows. The first `key` columns identify a row, the others are compared. The only code of the
back office that is used here decrypts encrypted columns.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from typing import Any

from backoffice.core.encryption.cipher import decrypt

TEAM = "7ea00000-0000-4000-8000-000000000001"
ORG = "0d4f7c1e-0000-4000-8000-00000000c11c"

Row = tuple[Any, ...]


@dataclass(frozen=True)
class Check:
    """Two statements that must return the same rows.

    `derive_row` turns a row of the sandbox into the expected row where SQL cannot. `decrypt_row`
    decrypts the encrypted columns of a row of the mirror.
    """

    name: str
    key: int
    sandbox: str
    mirror: str
    derive_row: Callable[[Row], Row] = lambda row: row
    decrypt_row: Callable[[Row], Row] = lambda row: row


def decrypt_insurance(row: Row) -> Row:
    """Decrypt the columns and drop the id at the end, which the encryption is bound to."""
    *values, key = row
    for position, column in ENCRYPTED_INSURANCE_COLUMNS.items():
        if values[position]:
            values[position] = decrypt(values[position], f"patients_insurance.{column}:{key}")
    values[9] = date.fromisoformat(values[9]) if values[9] else None
    return tuple(values)


ENCRYPTED_INSURANCE_COLUMNS = {
    3: "member_id",
    4: "group_id",
    7: "insured_first_name",
    8: "insured_last_name",
    9: "insured_dob",
}


def normalize_name(*parts: str | None) -> str:
    """Return a name as search stores it.

    That is letters and digits in lower case without accents, with single spaces between words.
    After two spaces a stored key has alternative spellings, which tests/patients cover.
    """
    text = " ".join(part for part in parts if part).casefold()
    for letter, plain in {"ø": "o", "ł": "l", "đ": "d", "ð": "d", "þ": "th", "ı": "i"}.items():
        text = text.replace(letter, plain)
    decomposed = unicodedata.normalize("NFKD", text)
    base_characters = (c for c in decomposed if not unicodedata.combining(c))
    words = (c if c.isalnum() else " " for c in base_characters)
    return " ".join("".join(words).split())


_ACTIVE_USER = f"team_id = '{TEAM}' AND deleted_at IS NULL"
_TEAM_TEST = f"(t.team_id IS NULL OR t.team_id = '{TEAM}')"

PEOPLE = (
    Check(
        "users",
        1,
        "SELECT id, team_id, client_user_id, created_on, fallback_time_zone, fallback_birth_date,"
        f" ingestion_start, ingestion_end FROM sandbox_user WHERE {_ACTIVE_USER}",
        "SELECT id, team_id, client_user_id, created_on, fallback_time_zone, fallback_birth_date,"
        " ingestion_start, ingestion_end FROM patients_patient WHERE missing_since IS NULL",
    ),
    Check(
        "demographics",
        1,
        "SELECT user_id, first_name, last_name, email, phone_number,"
        " reverse(regexp_replace(phone_number, '[^0-9]', '', 'g')), gender, dob, first_line,"
        " coalesce(second_line, ''), city, state, zip, country, race, ethnicity,"
        " sexual_orientation, gender_identity FROM sandbox_userinfo i"
        f" JOIN sandbox_user u ON u.id = i.user_id WHERE u.{_ACTIVE_USER}",
        "SELECT user_id, first_name, last_name, email, phone_number, phone_digits, gender, dob,"
        " first_line, second_line, city, state, zip, country, race, ethnicity,"
        " sexual_orientation, gender_identity, split_part(name_key, '  ', 1)"
        " FROM patients_demographics"
        " WHERE missing_since IS NULL",
        derive_row=lambda row: (*row, normalize_name(row[1], row[2])),
    ),
    Check(
        "insurance",
        2,
        "SELECT DISTINCT ON (i.user_id, i.is_primary) i.user_id, i.is_primary, i.payor_id,"
        " i.member_id, i.group_id, i.relationship, p.name, i.insured->>'first_name',"
        " i.insured->>'last_name', left(i.insured->>'dob', 10)::date FROM sandbox_insurance i"
        " JOIN sandbox_payor p ON p.payor_code = i.payor_id"
        f" JOIN sandbox_user u ON u.id = i.user_id WHERE u.{_ACTIVE_USER}"
        " ORDER BY i.user_id, i.is_primary, i.created_at DESC, i.id DESC",
        "SELECT i.user_id, is_primary, payor_code, member_id, group_id, relationship,"
        " company_name, insured_first_name, insured_last_name, insured_dob, i.id"
        " FROM patients_insurance i JOIN patients_patient p ON p.id = i.user_id"
        " WHERE superseded_at IS NULL AND p.missing_since IS NULL",
        decrypt_row=decrypt_insurance,
    ),
    Check(
        "connections",
        2,
        "SELECT c.user_id, p.slug, p.name, coalesce(p.logo, ''), c.created_on, c.status,"
        " CASE WHEN c.status = 'error' THEN c.error_type END,"
        " CASE WHEN c.status = 'error' THEN coalesce(c.error_message, '') END,"
        " CASE WHEN c.status = 'error' THEN c.errored_at END"
        " FROM sandbox_connection c JOIN sandbox_provider p ON p.slug = c.provider_id"
        f" JOIN sandbox_user u ON u.id = c.user_id WHERE u.{_ACTIVE_USER}",
        "SELECT user_id, slug, name, logo, created_on, status, error_type, error_message,"
        " errored_at FROM patients_connection WHERE missing_since IS NULL",
    ),
    Check(
        "payors met",
        1,
        "SELECT payor_code, name, aliases, CASE WHEN team_id IS NULL THEN 'platform' ELSE 'team'"
        f" END, city, state FROM sandbox_payor p WHERE (team_id IS NULL OR team_id = '{TEAM}')"
        " AND EXISTS (SELECT FROM sandbox_insurance i JOIN sandbox_payor m"
        " ON m.payor_code = i.payor_id JOIN sandbox_user u ON u.id = i.user_id"
        f" WHERE u.team_id = '{TEAM}' AND position(lower(m.name) IN"
        " lower(p.name || E'\\n' || array_to_string(p.aliases, E'\\n'))) > 0)",
        "SELECT payor_code, name, aliases, source, city, state FROM patients_payor"
        " WHERE missing_since IS NULL",
    ),
    Check(
        "providers",
        1,
        "SELECT slug, name, description, logo, auth_type, supported_resources"
        " FROM sandbox_provider",
        "SELECT slug, name, description, logo, auth_type, supported_resources"
        " FROM patients_provider WHERE missing_since IS NULL",
    ),
    Check(
        "historical pulls",
        3,
        "SELECT h.user_id, h.provider_id, h.resource, coalesce(h.status, 'not_pulled'),"
        " h.error_details, CASE WHEN h.status IS NULL THEN 0 ELSE h.days_with_data END,"
        " h.range_start, h.range_end, h.scheduled_at, h.started_at, h.ended_at,"
        " CASE WHEN h.status IS NOT NULL THEN h.release END, h.trace_id"
        " FROM sandbox_historicalpull h JOIN sandbox_user u ON u.id = h.user_id"
        f" WHERE u.{_ACTIVE_USER}",
        "SELECT user_id, provider, resource, status, error_details, days_with_data, range_start,"
        " range_end, scheduled_at, started_at, ended_at, release, trace_id"
        " FROM wearables_historicalpull WHERE missing_since IS NULL",
    ),
)

_TEST_MARKERS = (
    "(SELECT tm.lab_test_id, tm.marker_id FROM sandbox_labtestmarker tm"
    f" JOIN sandbox_labtest t ON t.id = tm.lab_test_id WHERE {_TEAM_TEST}"
    " UNION SELECT tm.lab_test_id, r.id FROM sandbox_labtestmarker tm"
    " JOIN sandbox_marker r ON r.reflex_of_id = tm.marker_id AND r.is_reflex"
    f" JOIN sandbox_labtest t ON t.id = tm.lab_test_id WHERE {_TEAM_TEST})"
)
_MARKERS = (
    "(SELECT * FROM sandbox_marker WHERE (is_active AND is_orderable AND NOT is_reflex)"
    f" OR id IN (SELECT marker_id FROM {_TEST_MARKERS} AS held))"
)

CATALOG = (
    Check(
        "labs",
        1,
        "SELECT id, slug, name, first_line_address, city, zipcode, collection_methods,"
        " sample_types, logo_url FROM sandbox_lab",
        "SELECT id, slug, name, first_line_address, city, zipcode, collection_methods,"
        " sample_types, logo_url FROM labs_lab WHERE missing_since IS NULL",
    ),
    Check(
        "markers",
        1,
        "SELECT id, lab_id, name, slug, description, provider_id, type, unit,"
        " coalesce(to_char(price_minor / 100.0, 'FM99999990.00'), 'N/A'), a_la_carte_enabled,"
        " is_orderable, coalesce(jsonb_path_exists(aoe, '$.questions[*]'), false),"
        f" common_tat_days, worst_case_tat_days FROM {_MARKERS} AS m",
        "SELECT id, lab_id, name, slug, description, provider_id, type, unit, price,"
        " a_la_carte_enabled, is_orderable, has_questions, common_tat_days, worst_case_tat_days"
        " FROM labs_marker WHERE missing_since IS NULL",
    ),
    Check(
        "expected results",
        2,
        "SELECT m.id, row_number() OVER (PARTITION BY m.id ORDER BY e.id) - 1, e.id, e.name,"
        " e.slug, m.lab_id, e.provider_id, e.required, l.code, l.name, l.slug, l.unit"
        f" FROM sandbox_expectedresult e JOIN {_MARKERS} AS m ON m.id = e.marker_id"
        " LEFT JOIN sandbox_loinc l ON l.id = e.loinc_id",
        "SELECT marker_id, position, result_id, name, slug, lab_id, provider_id, required,"
        " loinc_code, loinc_name, loinc_slug, unit FROM labs_expectedresult",
    ),
    Check(
        "lab tests",
        1,
        "SELECT id, lab_id, slug, name, document::jsonb->>'description', sample_type, method,"
        " price_minor / 100.0::float8, status = 'active', status, fasting, auto_generated,"
        " has_collection_instructions, common_tat_days, worst_case_tat_days"
        f" FROM sandbox_labtest t WHERE {_TEAM_TEST}",
        "SELECT id, lab_id, slug, name, description, sample_type, method, price, is_active,"
        " status, fasting, auto_generated, has_collection_instructions, common_tat_days,"
        " worst_case_tat_days FROM labs_labtest WHERE missing_since IS NULL",
    ),
    Check(
        "markers of lab tests",
        2,
        "SELECT lab_test_id, marker_id, row_number() OVER (PARTITION BY lab_test_id"
        f" ORDER BY marker_id) - 1 FROM {_TEST_MARKERS} AS held",
        "SELECT lab_test_id, marker_id, position FROM labs_labtestmarker",
    ),
    Check(
        "lab accounts",
        1,
        "SELECT a.id, l.slug, org_id, status, delegated_flow, provider_account_id, account_name,"
        " default_clinical_notes, business_units FROM sandbox_labaccount a"
        " JOIN sandbox_lab l ON l.id = a.lab_id"
        f" WHERE org_id = '{ORG}' OR '{TEAM}' = ANY(team_id_allowlist)",
        "SELECT id, lab, org_id, status, delegated_flow, provider_account_id, account_name,"
        " default_clinical_notes, business_units FROM labs_labaccount WHERE missing_since IS NULL",
    ),
    Check(
        "allowlists",
        2,
        "SELECT id, unnest(team_id_allowlist) FROM sandbox_labaccount"
        f" WHERE org_id = '{ORG}' OR '{TEAM}' = ANY(team_id_allowlist)",
        "SELECT account_id, team_id FROM labs_labaccountteam",
    ),
    Check(
        "lab tests of accounts",
        2,
        "SELECT a.id, t.id FROM sandbox_labaccount a JOIN sandbox_labtest t USING (lab_id)"
        f" WHERE '{TEAM}' = ANY(team_id_allowlist) AND {_TEAM_TEST}"
        " AND (t.lab_account_id = a.id OR CASE WHEN"
        " EXISTS (SELECT FROM sandbox_labaccount_lab_tests o WHERE o.labaccount_id = a.id)"
        " THEN EXISTS (SELECT FROM sandbox_labaccount_lab_tests o"
        "  WHERE o.labaccount_id = a.id AND o.labtest_id = t.id)"
        " ELSE t.lab_account_id IS NULL END)",
        "SELECT account_id, lab_test_id FROM labs_labaccounttest",
    ),
    Check(
        "markers of accounts",
        2,
        "SELECT a.id, m.id FROM sandbox_labaccount a JOIN sandbox_marker m USING (lab_id)"
        f" WHERE '{TEAM}' = ANY(team_id_allowlist)"
        " AND m.is_active AND m.is_orderable AND NOT m.is_reflex AND (NOT"
        " EXISTS (SELECT FROM sandbox_labaccount_markers o WHERE o.labaccount_id = a.id)"
        " OR EXISTS (SELECT FROM sandbox_labaccount_markers o"
        "  WHERE o.labaccount_id = a.id AND o.marker_id = m.id))",
        "SELECT account_id, marker_id FROM labs_labaccountmarker",
    ),
    Check(
        "physicians",
        1,
        f"SELECT npi, first_name, last_name FROM sandbox_physician WHERE team_id = '{TEAM}'",
        "SELECT npi, first_name, last_name FROM labs_physician WHERE missing_since IS NULL",
    ),
)

_RECORD = "('{' || o.fixed_part || ',' || o.moving_part || '}')::jsonb"
_LOW_LEVEL_STATUS = (
    "CASE split_part({0}, '.', 3) WHEN 'testkit_registered' THEN 'registered'"
    " ELSE split_part({0}, '.', 3) END"
)

_STATUS_GROUPS = {
    "preparing": "received ordered awaiting_registration",
    "on-the-way": "transit_customer out_for_delivery appointment_pending appointment_scheduled"
    " draw_scheduled draw_completed collected transit_lab",
    "with-patient": "with_customer registered",
    "at-lab": "delivered_to_lab partial_results",
    "result-in": "completed corrected",
    "needs-action": "appointment_cancelled failure_to_deliver_to_customer sample_error lost"
    " failure_to_deliver_to_lab lab_processing_blocked problem_in_transit_customer"
    " problem_in_transit_lab redraw_available",
    "closed": "cancelled do_not_process",
}
_GROUP_BY_STATUS = {
    status: group for group, statuses in _STATUS_GROUPS.items() for status in statuses.split()
}


def _status_group(low_level_status: str, method: str, history: list[str]) -> str:
    if low_level_status in _GROUP_BY_STATUS:
        return _GROUP_BY_STATUS[low_level_status]
    assert low_level_status in ("requisition_created", "requisition_bypassed"), low_level_status
    if method in ("walk_in_test", "at_home_phlebotomy"):
        return "with-patient"
    past_statuses = {each.rpartition(".")[2].removeprefix("testkit_") for each in history}
    if method == "testkit" and past_statuses & {"with_customer", "registered"}:
        return "with-patient"
    if method == "testkit" and "transit_customer" in past_statuses:
        return "on-the-way"
    return "preparing"


def _derive_order(row: Row) -> Row:
    *plain, first, last, recipient, low_level_status, method, history = row
    return (
        *plain,
        first or "",
        last or "",
        normalize_name(first, last),
        normalize_name(recipient),
        _status_group(low_level_status, method, history),
    )


ORDERS = (
    Check(
        "orders",
        1,
        "SELECT o.id, o.team_id, o.user_id, o.transaction_id, o.parent_id, o.created_at,"
        " o.updated_at, e.id, e.created_at, e.status, split_part(e.status, '.', 1),"
        f" {_LOW_LEVEL_STATUS.format('e.status')}, e.status_detail, o.method, o.origin,"
        " (o.f->>'priority')::boolean, o.activate_by, o.sample_id,"
        " o.f#>>'{details,data,shipment,outbound_tracking_number}',"
        " o.f#>>'{details,data,shipment,inbound_tracking_number}', o.lab_test_id, t.name, l.slug,"
        " o.billing_type, o.interpretation, o.has_missing_results, o.has_abn,"
        " o.expected_result_by_date, o.worst_case_result_by_date, o.f->>'passthrough',"
        " left(o.f#>>'{patient_details,dob}', 10)::date,"
        " coalesce(o.f#>>'{patient_details,gender}', ''),"
        " o.f#>>'{patient_details,first_name}', o.f#>>'{patient_details,last_name}',"
        " o.f#>>ARRAY[CASE WHEN jsonb_typeof(o.f->'patient_address') = 'object'"
        " THEN 'patient_address' ELSE 'shipping_details' END, 'receiver_name'],"
        f" {_LOW_LEVEL_STATUS.format('e.status')}, o.method,"
        " (SELECT array_agg(h.status) FROM sandbox_orderevent h WHERE h.order_id = o.number)"
        f" FROM (SELECT o.*, {_RECORD} AS f FROM sandbox_order o WHERE team_id = '{TEAM}') o"
        " JOIN LATERAL (SELECT * FROM sandbox_orderevent e WHERE e.order_id = o.number"
        " ORDER BY id DESC LIMIT 1) e ON true"
        " JOIN sandbox_labtest t ON t.id = o.lab_test_id JOIN sandbox_lab l ON l.id = t.lab_id",
        "SELECT id, team_id, user_id, order_transaction_id, parent_id, created_at, updated_at,"
        " last_event_id, last_event_at, last_status, status, low_level_status, status_detail,"
        " method, origin, priority, activate_by, sample_id, outbound_tracking_number,"
        " inbound_tracking_number, lab_test_id, lab_test_name, lab_slug,"
        " billing_type, interpretation, has_missing_results, has_abn, expected_result_by_date,"
        " worst_case_result_by_date, passthrough, patient_dob, patient_gender,"
        " patient_first_name, patient_last_name, split_part(patient_name, '  ', 1),"
        " split_part(recipient_name, '  ', 1), bucket"
        " FROM orders_order WHERE missing_since IS NULL",
        derive_row=_derive_order,
    ),
    Check(
        "orders as received",
        1,
        f"SELECT o.id, md5(({_RECORD} || jsonb_build_object('lab_test', t.document::jsonb))::text)"
        " FROM sandbox_order o JOIN sandbox_labtest t ON t.id = o.lab_test_id"
        f" WHERE o.team_id = '{TEAM}'",
        "SELECT id, md5((record::jsonb - 'requisition_form_url')::text) FROM orders_order",
    ),
    Check(
        "order events",
        2,
        "SELECT o.id, e.id, e.created_at, e.status,"
        f" {_LOW_LEVEL_STATUS.format('e.status')}, e.status_detail"
        " FROM sandbox_orderevent e JOIN sandbox_order o ON o.number = e.order_id"
        f" WHERE o.team_id = '{TEAM}'",
        "SELECT order_id, event_id, created_at, status, low_level_status, status_detail"
        " FROM orders_orderevent",
    ),
    Check(
        "transactions",
        1,
        f"SELECT id, status FROM sandbox_ordertransaction WHERE team_id = '{TEAM}'",
        "SELECT id, status FROM orders_transaction WHERE missing_since IS NULL",
    ),
)

_RESULTS = (
    "(SELECT o.*, coalesce(collected_at, last_event_at) AS collected FROM sandbox_order o"
    f" WHERE team_id = '{TEAM}' AND result_version > 0)"
)

DETAILS = (
    Check(
        "appointments",
        1,
        "SELECT a.id, a.user_id, o.id, o.transaction_id, a.type, a.provider, a.provider_id,"
        " a.external_id, a.status, a.event_status, a.start_at, a.end_at, a.iana_timezone,"
        " a.can_reschedule, a.appointment_notes, upper(a.first_line), coalesce(a.second_line, ''),"
        " a.city, a.state, a.zip_code, a.lng, a.lat FROM sandbox_appointment a"
        f" JOIN sandbox_order o ON o.number = a.order_id WHERE o.team_id = '{TEAM}'"
        " AND a.is_current",
        "SELECT id, user_id, order_id, order_transaction_id, type, provider, provider_id,"
        " external_id, status, event_status, start_at, end_at, iana_timezone, can_reschedule,"
        " appointment_notes, first_line, second_line, city, state, zip_code, lng, lat"
        " FROM orders_appointment WHERE superseded_at IS NULL AND missing_since IS NULL",
    ),
    Check(
        "appointment events",
        2,
        "SELECT a.id, row_number() OVER (PARTITION BY a.id ORDER BY e.created_at, e.id) - 1,"
        " e.created_at, e.status FROM sandbox_appointmentevent e"
        " JOIN sandbox_appointment a ON a.id = e.appointment_id"
        f" JOIN sandbox_order o ON o.number = a.order_id WHERE o.team_id = '{TEAM}'"
        " AND a.is_current",
        "SELECT e.appointment_id, position, created_at, e.status FROM orders_appointmentevent e"
        " JOIN orders_appointment a ON a.id = e.appointment_id WHERE a.superseded_at IS NULL",
    ),
    Check(
        "results",
        1,
        "SELECT o.id, coalesce(o.result_status, 'final'), o.interpretation, l.name,"
        " coalesce(o.sample_id, 'N' || o.number), o.collected,"
        " least(o.collected + interval '9 hours', o.last_event_at), o.last_event_at"
        f" FROM {_RESULTS} AS o JOIN sandbox_labtest t ON t.id = o.lab_test_id"
        " JOIN sandbox_lab l ON l.id = t.lab_id",
        "SELECT order_id, status, interpretation, laboratory, specimen_number,"
        " date_collected::timestamptz, date_received::timestamptz, date_reported::timestamptz"
        " FROM orders_result WHERE missing_since IS NULL",
    ),
)

ALL_CHECKS = (*PEOPLE, *CATALOG, *ORDERS, *DETAILS)
