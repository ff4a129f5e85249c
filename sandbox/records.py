"""The JSON of orders and lab tests, ready to serve (orders.md 3, catalogue.md 2).

An order's text is made of `fixed_part`, `moving_part`, its lab test's document and a requisition
link that is new at every reading; `served_order` joins them. The parts are fragments of JSON
objects without braces.
"""

import json
import secrets
import uuid
from collections.abc import Mapping
from datetime import date, datetime
from typing import Any

import orjson
from django.db.models import Q

from sandbox import specification_forms
from sandbox.models import ExpectedResult, Lab, LabTest, Marker
from sandbox.states import EventState, OrderState, SiblingState


def to_json(value: Any) -> str:
    """JSON text of any value; datetimes as ISO 8601 with offset."""
    return orjson.dumps(value).decode()


def _text(value: str | None) -> str:
    return "null" if value is None else json.dumps(value)


def _plain(value: str | date | None) -> str:
    """JSON of text that needs no escaping (ids, slugs, dates)."""
    return "null" if value is None else f'"{value}"'


def _flag(value: bool | None) -> str:
    return "null" if value is None else "true" if value else "false"


def fixed_part(
    order: OrderState,
    *,
    patient_details: str,
    patient_address: str,
    physician: str = "null",
    notes: str | None = None,
    clinical_notes: str | None = None,
    health_insurance_id: str | None = None,
    priority: bool = False,
    shipping_details: str = "null",
    passthrough: str | None = None,
    icd_codes: str = "null",
) -> str:
    """What creation settled. `patient_*`, `physician`, `shipping_details`, `icd_codes`: JSON."""
    return (
        f'"user_id":"{order.user_id}","id":"{order.id}","team_id":"{order.team_id}",'
        f'"patient_details":{patient_details},"patient_address":{patient_address},'
        f'"notes":{_text(notes)},"clinical_notes":{_text(clinical_notes)},'
        f'"created_at":"{order.created_at.isoformat()}","physician":{physician},'
        f'"health_insurance_id":{_plain(health_insurance_id)},"priority":{_flag(priority)},'
        f'"shipping_details":{shipping_details},"activate_by":{_plain(order.activate_by)},'
        f'"passthrough":{_text(passthrough)},"billing_type":"{order.billing_type}",'
        f'"icd_codes":{icd_codes},"has_abn":{_flag(order.has_abn)},"origin":"{order.origin}"'
    )


def amend_fixed_part(part: str, changes: Mapping[str, Any]) -> str:
    """The part with some keys replaced (registration, change of `activate_by`)."""
    record = orjson.loads("{" + part + "}")
    unknown = changes.keys() - record.keys()
    if unknown:
        raise KeyError(sorted(unknown))
    record.update(changes)
    return to_json(record)[1:-1]


def _event(event: EventState) -> str:
    return (
        f'{{"id":{event.id},"created_at":"{event.created_at.isoformat()}",'
        f'"status":"{event.status}","status_detail":{_plain(event.status_detail)}}}'
    )


def _sibling(order: SiblingState) -> str:
    return (
        f'{{"id":"{order.id}","low_level_status":"{order.low_level_status}",'
        f'"low_level_status_created_at":"{order.low_level_status_created_at.isoformat()}",'
        f'"origin":"{order.origin}","parent_id":{_plain(order.parent_id)},'
        f'"created_at":"{order.created_at.isoformat()}",'
        f'"updated_at":"{order.updated_at.isoformat()}"}}'
    )


def transaction_ref(order: OrderState) -> str:
    """OrderTransactionRef JSON (orders.md 3): all orders of the group, oldest first."""
    group = sorted([order.as_sibling(), *order.siblings], key=lambda each: each.created_at)
    return (
        f'{{"id":"{order.transaction_id}","status":"{order.transaction_status}",'
        f'"orders":[{",".join(map(_sibling, group))}]}}'
    )


def _details(order: OrderState) -> str:
    data = (
        f'"id":"{order.details_id}","created_at":"{order.created_at.isoformat()}",'
        f'"updated_at":"{order.details_updated_at.isoformat()}"'
    )
    if order.method == "testkit":
        parcel = order.shipment
        if parcel is None:
            data += ',"shipment":null'
        else:
            data += (
                f',"shipment":{{"id":"{parcel.id}",'
                f'"outbound_tracking_number":{_plain(parcel.outbound_tracking_number)},'
                f'"outbound_tracking_url":{_plain(parcel.outbound_tracking_url)},'
                f'"inbound_tracking_number":{_plain(parcel.inbound_tracking_number)},'
                f'"inbound_tracking_url":{_plain(parcel.inbound_tracking_url)},'
                f'"outbound_courier":{_plain(parcel.outbound_courier)},'
                f'"inbound_courier":{_plain(parcel.inbound_courier)},'
                f'"notes":{_text(parcel.notes)},'
                f'"created_at":"{parcel.created_at.isoformat()}",'
                f'"updated_at":"{parcel.updated_at.isoformat()}"}}'
            )
    elif order.method != "on_site_collection":
        booked = order.appointment
        data += f',"appointment_id":{_plain(booked.id if booked else None)}'
    return f'{{"type":"{order.method}","data":{{{data}}}}}'


def moving_part(order: OrderState) -> str:
    """What the life cycle changes: all its events must have their ids."""
    events = [_event(event) for event in order.events]
    return (
        f'"details":{_details(order)},"sample_id":{_plain(order.sample_id)},'
        f'"updated_at":"{order.updated_at.isoformat()}","events":[{",".join(events)}],'
        f'"status":"{order.status.partition(".")[0]}","last_event":{events[-1]},'
        f'"interpretation":{_plain(order.interpretation)},'
        f'"has_missing_results":{_flag(order.has_missing_results)},'
        f'"expected_result_by_date":{_plain(order.expected_result_by_date)},'
        f'"worst_case_result_by_date":{_plain(order.worst_case_result_by_date)},'
        f'"order_transaction":{transaction_ref(order)}'
    )


def requisition_url(order_id: str | uuid.UUID) -> str:
    """A signed-looking link, good for 7 days; no two readings show the same one."""
    return (
        f"https://files.service.invalid/requisition/{order_id}.pdf"
        f"?expires_in=604800&signature={secrets.token_hex(24)}"
    )


def served_order(
    order_id: str | uuid.UUID,
    fixed: str,
    moving: str,
    has_requisition: bool,
    lab_test_document: str,
) -> str:
    """The full Order record as JSON text (orders.md 3)."""
    link = f'"{requisition_url(order_id)}"' if has_requisition else "null"
    record = f'{{{fixed},{moving},"requisition_form_url":{link},"lab_test":{lab_test_document}}}'
    return specification_forms.order(record)


def lab_documents() -> dict[str, str]:
    """LabTest JSON text by lab test id; a few dozen, read afresh by each caller that pages."""
    return {
        str(key): text for key, text in LabTest.objects.values_list("id", "document").iterator()
    }


def lab_record(lab: Lab) -> dict[str, Any]:
    """Lab (catalogue.md 2)."""
    return {
        "id": lab.id,
        "slug": lab.slug,
        "name": lab.name,
        "first_line_address": lab.first_line_address,
        "city": lab.city,
        "zipcode": lab.zipcode,
        "collection_methods": lab.collection_methods,
        "sample_types": lab.sample_types,
        "logo_url": lab.logo_url,
    }


def expected_result_record(expected: ExpectedResult, lab_id: int) -> dict[str, Any]:
    """ExpectedResult (specification; catalogue.md 4)."""
    loinc = expected.loinc
    return {
        "id": expected.id,
        "name": expected.name,
        "slug": expected.slug,
        "lab_id": lab_id,
        "provider_id": expected.provider_id,
        "required": expected.required,
        "loinc": loinc
        and {
            "id": loinc.id,
            "name": loinc.name,
            "slug": loinc.slug,
            "code": loinc.code,
            "unit": loinc.unit,
        },
    }


def marker_record(marker: Marker, *, expected_results: bool = True) -> dict[str, Any]:
    """MarkerComplete (catalogue.md 4); `price` is text, `N/A` where the contract decides."""
    record: dict[str, Any] = {
        "id": marker.id,
        "name": marker.name,
        "slug": marker.slug,
        "description": marker.description,
        "lab_id": marker.lab_id,
        "provider_id": marker.provider_id,
        "type": marker.type,
        "unit": marker.unit,
        "price": "N/A" if marker.price_minor is None else f"{marker.price_minor / 100:.2f}",
        "aoe": marker.aoe,
        "a_la_carte_enabled": marker.a_la_carte_enabled,
        "common_tat_days": marker.common_tat_days,
        "worst_case_tat_days": marker.worst_case_tat_days,
        "is_orderable": marker.is_orderable,
    }
    if expected_results:
        record["expected_results"] = [
            expected_result_record(each, marker.lab_id) for each in marker.expected_results.all()
        ]
    return record


def lab_test_record(test: LabTest) -> dict[str, Any]:
    """LabTest (catalogue.md 2), flat, with lab and markers (reflex ones included)."""
    markers = (
        Marker.objects.filter(Q(lab_tests=test) | Q(reflex_of__lab_tests=test))
        .distinct()
        .order_by("id")
        .prefetch_related("expected_results__loinc")
    )
    return {
        "id": str(test.id),
        "slug": test.slug,
        "name": test.name,
        "sample_type": test.sample_type,
        "method": test.method,
        "price": test.price_minor / 100,
        "is_active": test.status == "active",
        "status": test.status,
        "fasting": test.fasting,
        "lab": lab_record(test.lab),
        "markers": [marker_record(marker) for marker in markers],
        "is_delegated": False,
        "auto_generated": test.auto_generated,
        "has_collection_instructions": test.has_collection_instructions,
        "common_tat_days": test.common_tat_days,
        "worst_case_tat_days": test.worst_case_tat_days,
    }


def refresh_lab_test(test: LabTest) -> None:
    """Rewrite the test's `document` from its rows."""
    test.document = to_json(lab_test_record(test))
    test.save(update_fields=["document"])


def utc(value: datetime) -> str:
    """A moment as the interface writes it."""
    return value.isoformat()
