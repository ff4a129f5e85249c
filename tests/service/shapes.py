"""Labs, orders, results and appointments as the interface's documents have them."""

from __future__ import annotations

from hypothesis import strategies as st

from .kinds import (
    ANY,
    choice,
    day,
    flag,
    instant,
    integer,
    loose,
    many,
    mapping,
    number,
    number_or_text,
    record,
    storable,
    text,
    uid,
    without,
    words,
)
from .people import guarantor, identity

method = choice("testkit", "walk_in_test", "at_home_phlebotomy", "on_site_collection")
interpretation = choice("normal", "abnormal", "critical", "unknown")
billing = choice("client_bill", "commercial_insurance", "patient_bill_passthrough", "patient_bill")
origin = choice("initial", "redraw", "recreation")
dotted = choice("received.testkit.ordered", "received.testkit.testkit_registered")

lab = record(
    {
        "id": integer,
        "slug": text,
        "name": text,
        "first_line_address": text,
        "city": text,
        "zipcode": text,
        "collection_methods": many(method),
        "sample_types": many(choice("serum", "saliva")),
        "logo_url?": text,
    }
)
communication = record({"order_id": uid, "sms_enabled": flag})
loinc = record({"id": integer, "name": text, "slug": text, "code": text, "unit?": text})
expected_result = record(
    {
        "id": integer,
        "name": text,
        "slug": text,
        "lab_id?": integer,
        "provider_id?": text,
        "loinc?": loinc,
        "required": flag,
    }
)
question = record(
    {
        "id": integer,
        "required": flag,
        "code": text,
        "value": text,
        "type": choice("multi_choice", "multiple_choice"),
        "sequence": integer,
        "answers": many(record({"id": integer, "code": text, "value": text})),
        "constraint?": text,
        "default?": text,
    }
)
marker = record(
    {
        "id": integer,
        "name": text,
        "slug": text,
        "description?": text,
        "lab_id?": integer,
        "provider_id?": text,
        "type?": choice("biomarker", "panel"),
        "unit?": text,
        "price?": number_or_text,
        "aoe?": record({"questions": many(question, 1)}),
        "a_la_carte_enabled": flag,
        "common_tat_days?": integer,
        "worst_case_tat_days?": integer,
        "is_orderable": flag,
        "expected_results": many(expected_result, 1),
    }
)
_lab_test = {
    "id": uid,
    "slug": text,
    "name": text,
    "description?": text,
    "sample_type": choice("serum"),
    "method": method,
    "price": number,
    "is_active": flag,
    "status": choice("active"),
    "fasting": flag,
    "lab?": lab,
    "markers": many(marker, 1),
    "is_delegated": flag,
    "auto_generated": flag,
    "has_collection_instructions?": flag,
    "common_tat_days?": integer,
    "worst_case_tat_days?": integer,
}
flat_lab_test = record(_lab_test)
lab_test = st.one_of(
    flat_lab_test, flat_lab_test.map(lambda drawn: ({"lab_test": drawn[0]}, drawn[1]))
)
lab_account = record(
    {
        "id": uid,
        "lab": text,
        "org_id?": uid,
        "status": choice("active", "ready_to_launch"),
        "delegated_flow": choice("not_delegated"),
        "provider_account_id": text,
        "account_name?": text,
        "default_clinical_notes?": text,
        "business_units?": many(text),
        "allowed_billing": mapping(many(text)),
        "team_id_allowlist": many(uid),
    }
)
physician = record({"first_name": text, "last_name": text, "npi": text})

event = record({"id": integer, "created_at": instant, "status": dotted, "status_detail?": text})
_parts = {
    "receiver_name?": text,
    "phone_number?": text,
    "first_line": text,
    "second_line?": text,
    "city": text,
    "state": text,
    "zip|zip_code": words.filter(bool).map(lambda word: (word, storable(word))),
    "country": text,
    "access_notes?": text,
}
order_address = record(_parts)
patient_details = record(
    {
        "first_name?": text,
        "last_name?": text,
        "dob": day,
        "gender": choice("Female"),
        "phone_number?": text,
        "email?": text,
        "medical_proxy?": guarantor,
        "household_income?": number,
        "household_size?": integer,
    }
    | identity
)
shipment = record(
    {
        "id": uid,
        "outbound_tracking_number?": text,
        "outbound_tracking_url?": text,
        "inbound_tracking_number?": text,
        "inbound_tracking_url?": text,
        "outbound_courier?": text,
        "inbound_courier?": text,
        "notes?": text,
        "created_at?": instant,
        "updated_at?": instant,
    }
)
details = record(
    {
        "type": method,
        "data?": record(
            {
                "id": uid,
                "created_at": instant,
                "updated_at": instant,
                "shipment?": shipment,
                "appointment_id?": uid,
            }
        ),
    }
)
transaction_order = record(
    {
        "id": uid,
        "low_level_status|last_status": words.filter(bool).map(lambda word: (word, storable(word))),
        "low_level_status_created_at|last_status_created_at": instant,
        "origin?": origin,
        "parent_id?": uid,
        "created_at": instant,
        "updated_at": instant,
    }
)
_transaction = {"id": uid, "status": choice("active"), "orders": many(transaction_order)}
transaction = record(_transaction | {"team_id": uid})
order = record(
    {
        "id": uid,
        "user_id": uid,
        "team_id": uid,
        "patient_details?": patient_details,
        "patient_address?": order_address,
        "lab_test": st.one_of(
            flat_lab_test, record({"name": text, "description": text, "method": method})
        ),
        "details": details,
        "sample_id?": text,
        "notes?": text,
        "clinical_notes?": text,
        "created_at": instant,
        "updated_at": instant,
        "events": many(event),
        "status?": choice("received", "collecting_sample"),
        "last_event?": event,
        "physician?": physician,
        "health_insurance_id?": uid,
        "requisition_form_url?": words.map(lambda word: (f"https://{word}", ANY)),
        "priority": flag,
        "shipping_details?": order_address,
        "activate_by?": day,
        "passthrough?": text,
        "billing_type": billing,
        "icd_codes?": many(text),
        "has_abn": flag,
        "interpretation?": interpretation,
        "has_missing_results?": flag,
        "expected_result_by_date?": day,
        "worst_case_result_by_date?": day,
        "origin?": origin,
        "order_transaction?": record(_transaction),
    }
)
metadata = record(
    {
        "age": number_or_text,
        "dob": text,
        "clia_#|clia_number?": words.filter(bool).map(lambda word: (word, storable(word))),
        "patient": text,
        "provider?": text,
        "laboratory?": text,
        "date_reported": text,
        "date_collected?": text,
        "specimen_number": text,
        "date_received?": text,
        "status": choice("final", "partial"),
        "interpretation?": interpretation,
        "patient_id?": text,
        "account_id?": text,
    }
)
source_markers = many(
    record({"marker_id": integer, "name": text, "slug": text, "provider_id?": text}), 1
)
biomarker = record(
    {
        "name": text,
        "slug": text,
        "value?": number,
        "result": text,
        "type": choice("numeric", "coded_value"),
        "unit?": text,
        "timestamp?": text,
        "notes?": text,
        "reference_range?": text,
        "min_range_value?": number,
        "max_range_value?": number,
        "is_above_max_range?": flag,
        "is_below_min_range?": flag,
        "interpretation": interpretation,
        "source_interpretation": text,
        "loinc?": text,
        "loinc_slug?": text,
        "provider_id?": text,
        "source_markers?": source_markers,
        "performing_laboratory?": text,
        "source_sample_id?": text,
    }
)
missing_result = record(
    {
        "name": text,
        "slug": text,
        "inferred_failure_type": choice("non_failure"),
        "note?": text,
        "loinc?": text,
        "loinc_slug?": text,
        "provider_id?": text,
        "source_markers?": source_markers,
    }
)
moment = st.one_of(text, record({"timestamp": instant, "timezone_offset": integer}))
sample = record(
    {
        "sample_id?": text,
        "control_number?": text,
        "date_collected?": moment,
        "date_received?": moment,
        "date_reported?": moment,
        "performing_laboratories?": mapping(
            record(
                {"name?": text, "phone_number?": text, "medical_director?": text, "address?": loose}
            )
        ),
        "clinical_information?": record(
            {"fasting": flag, "notes?": text, "information?": text, "total_volume?": text}
        ),
    }
)
result = record(
    {
        "metadata": metadata,
        "results": many(biomarker),
        "missing_results?": many(missing_result, 1),
        "sample_information?": mapping(sample),
        "order_transaction?": record(_transaction).map(
            lambda drawn: (drawn[0], without(drawn[1], "orders"))
        ),
    }
)

place = record({"lng": number, "lat": number})
us_address = record(
    {
        "first_line": text,
        "second_line?": text,
        "city": text,
        "state": text,
        "zip_code|zip": words.filter(bool).map(lambda word: (word, storable(word))),
        "access_notes?": text,
    }
)
appointment = record(
    {
        "id": uid,
        "user_id": uid,
        "order_id": uid,
        "order_transaction_id?": uid,
        "address": us_address,
        "location": place,
        "start_at?": instant,
        "end_at?": instant,
        "iana_timezone?": text,
        "type": choice("phlebotomy"),
        "provider": text,
        "status": choice("confirmed"),
        "provider_id": text,
        "external_id?": text,
        "can_reschedule": flag,
        "appointment_notes?": text,
        "event_status": choice("scheduled"),
        "event_data?": loose,
        "events": many(record({"created_at": instant, "status": text, "data?": loose})),
    }
)
area = record(
    {
        "zip_code": text,
        "phlebotomy": record(
            {
                "is_served": flag,
                "providers": many(
                    record({"name": text, "service_types|tier": many(text)}).map(
                        lambda drawn: (drawn[0], without(drawn[1], "tier"))
                    )
                ),
            }
        ),
        "central_labs": mapping(
            record(
                {
                    "lab_id": integer,
                    "patient_service_centers": loose,
                    "supported_bill_types": many(billing),
                }
            )
        ),
    }
)
site = record(
    {
        "site_code": text,
        "distance": number_or_text.map(lambda drawn: (drawn[0], float(drawn[1]))),
        "supported_bill_types": many(billing),
        "location": place,
        "capabilities": many(choice("stat", "appointment_scheduling_with_lab")),
        "metadata": record(
            {
                "name": text,
                "state": text,
                "city": text,
                "zip_code": text,
                "first_line": text,
                "second_line?": text,
                "phone_number?": text,
                "fax_number?": text,
                "hours?": loose,
                "website?": text,
            }
        ),
    }
)
psc_info = record({"lab_id": integer, "slug": text, "patient_service_centers": many(site)})
catalogue_provider = record(
    {
        "name": text,
        "slug": text,
        "description": text,
        "logo?": text,
        "auth_type?": choice("oauth", ""),
        "supported_resources": many(text),
    }
)
