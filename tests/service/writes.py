"""A call for each write and each lookup by POST, with the request it must send."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Any

from backoffice.service import Service
from backoffice.service.insurance import NewInsurance, NewInsured, NewPayor
from backoffice.service.labs import AddOn, LabTestChange, NewLabTest, OrderSet
from backoffice.service.orders import (
    AoeResponse,
    Consent,
    ImportedOrder,
    NewOrder,
    NewPatient,
    NewPatientAddress,
    NewPhysician,
    SimulationFlags,
)
from backoffice.service.users import NewUser, NewUserInfo, UserChange

from .sample_bodies import (
    ACCOUNT,
    BORN,
    BORN_SENT,
    DELIVERY,
    DELIVERY_SENT,
    HOME,
    HOME_SENT,
    INSURANCE,
    KEY,
    LAB_TEST,
    NAME,
    ORDER,
    ORG,
    PATIENT,
    PATIENT_SENT,
    PERSON,
    PLACED,
    PROXY,
    PROXY_SENT,
    STREET,
    STREET_SENT,
    U1,
    U2,
    U3,
    UNMATCHED,
    USER,
    VISIT,
)


@dataclass(frozen=True)
class Write:
    call: Callable[[Service], Any]
    method: str
    target: str
    body: Any
    answer: Any
    """None: 204."""
    headers: tuple[tuple[str, str], ...] = ()


def _path(end: str) -> str:
    return f"/v3/order/{U2}{end}"


WRITES: dict[str, Write] = {
    "orders.create": Write(
        lambda s: s.orders.create(
            NewOrder(
                user_id=U1,
                patient_details=PATIENT,
                patient_address=DELIVERY,
                order_set=OrderSet(
                    lab_test_ids=[U2], add_on=AddOn(marker_ids=[7], provider_ids=["x"])
                ),
                collection_method="walk_in_test",
                lab_account_id=U3,
                physician=NewPhysician(
                    first_name=NAME, last_name=NAME, npi="1234567890", licensed_states=["AZ"]
                ),
                priority=True,
                billing_type="client_bill",
                icd_codes=["A00"],
                consents=[
                    Consent(
                        consent_type="privacy-policy",
                        version="2.0",
                        time_of_consent=datetime(2026, 1, 2, 3, tzinfo=UTC),
                    )
                ],
                activate_by=date(2026, 3, 4),
                aoe_answers=[AoeResponse(marker_id=7, question_id=2**62, answer="Y")],
                passthrough="p",
                clinical_notes="one\ntwo",
            ),
            idempotency_key=KEY,
        ),
        "POST",
        "/v3/order/create",
        {
            "user_id": str(U1),
            "patient_details": PATIENT_SENT,
            "patient_address": DELIVERY_SENT,
            "order_set": {
                "lab_test_ids": [str(U2)],
                "add_on": {"marker_ids": [7], "provider_ids": ["x"]},
            },
            "collection_method": "walk_in_test",
            "lab_account_id": str(U3),
            "physician": {
                "first_name": NAME,
                "last_name": NAME,
                "npi": "1234567890",
                "licensed_states": ["AZ"],
            },
            "priority": True,
            "billing_type": "client_bill",
            "icd_codes": ["A00"],
            "consents": [
                {
                    "consentType": "privacy-policy",
                    "version": "2.0",
                    "timeOfConsent": "2026-01-02T03:00:00Z",
                }
            ],
            "activate_by": "2026-03-04",
            "aoe_answers": [{"marker_id": 7, "question_id": 2**62, "answer": "Y"}],
            "passthrough": "p",
            "clinical_notes": "one\ntwo",
        },
        PLACED,
        (("x-idempotency-key", KEY),),
    ),
    "orders.create, least": Write(
        lambda s: s.orders.create(
            NewOrder(
                user_id=U1,
                patient_details=NewPatient(**PERSON, **BORN),  # type: ignore[arg-type]
                patient_address=NewPatientAddress(**STREET_SENT),
                order_set=OrderSet(lab_test_ids=[U2]),
            ),
            idempotency_key=KEY,
            no_cache=True,
        ),
        "POST",
        "/v3/order/create",
        {
            "user_id": str(U1),
            "patient_details": {**PERSON, **BORN_SENT},
            "patient_address": STREET_SENT,
            "order_set": {"lab_test_ids": [str(U2)]},
        },
        PLACED,
        (("x-idempotency-key", KEY), ("x-idempotency-error", "no-cache")),
    ),
    "orders.import_": Write(
        lambda s: s.orders.import_(
            ImportedOrder(
                user_id=U1,
                billing_type="client_bill",
                order_set=OrderSet(lab_test_ids=[U2]),
                collection_method="on_site_collection",
                patient_details=PATIENT,
                patient_address=DELIVERY,
                sample_id="S-1",
            )
        ),
        "POST",
        "/v3/order/import",
        {
            "user_id": str(U1),
            "billing_type": "client_bill",
            "order_set": {"lab_test_ids": [str(U2)]},
            "collection_method": "on_site_collection",
            "patient_details": PATIENT_SENT,
            "patient_address": DELIVERY_SENT,
            "sample_id": "S-1",
        },
        PLACED,
    ),
    "orders.cancel": Write(lambda s: s.orders.cancel(U2), "POST", _path("/cancel"), None, PLACED),
    "orders.change_activation": Write(
        lambda s: s.orders.change_activation(U2, date(2026, 3, 4)),
        "PATCH",
        _path(""),
        {"activate_by": "2026-03-04"},
        PLACED,
    ),
    "orders.change_activation, at once": Write(
        lambda s: s.orders.change_activation(U2, None),
        "PATCH",
        _path(""),
        {"activate_by": None},
        PLACED,
    ),
    "orders.draw_completed": Write(
        lambda s: s.orders.draw_completed(U2), "PATCH", _path("/draw_completed"), None, PLACED
    ),
    "orders.change_communication": Write(
        lambda s: s.orders.change_communication(U2, False),
        "PATCH",
        _path("/communication_settings"),
        {"sms_enabled": False},
        {"order_id": str(U2), "sms_enabled": False},
    ),
    "orders.simulate": Write(
        lambda s: s.orders.simulate(
            U2, "completed.testkit.completed", 3, SimulationFlags(interpretation="critical")
        ),
        "POST",
        _path("/test?final_status=completed.testkit.completed&delay=3"),
        {"interpretation": "critical"},
        {"anything": 1},
    ),
    "orders.resend_events": Write(
        lambda s: s.orders.resend_events([U2]),
        "POST",
        "/v3/order/resend_events",
        {"order_ids": [str(U2)]},
        {"order_ids": [str(U2)]},
    ),
    "appointments.request_phlebotomy": Write(
        lambda s: s.appointments.request_phlebotomy(U2, HOME, "nurses", NAME),
        "POST",
        _path("/phlebotomy/appointment/request"),
        {"address": HOME_SENT, "provider": "nurses", "appointment_notes": NAME},
        VISIT,
    ),
    "appointments.book_phlebotomy": Write(
        lambda s: s.appointments.book_phlebotomy(U2, "bk"),
        "POST",
        _path("/phlebotomy/appointment/book"),
        {"booking_key": "bk"},
        VISIT,
    ),
    "appointments.book_psc": Write(
        lambda s: s.appointments.book_psc(U2, "bk", NAME),
        "POST",
        _path("/psc/appointment/book"),
        {"booking_key": "bk", "appointment_notes": NAME},
        VISIT,
    ),
    "appointments.book_psc, keyed": Write(
        lambda s: s.appointments.book_psc(
            U2,
            "bk",
            idempotency_key=KEY,
            no_cache=True,
            async_confirmation=True,
            sync_timeout_ms=1000,
            async_timeout_ms=60_000,
        ),
        "POST",
        _path("/psc/appointment/book"),
        {
            "booking_key": "bk",
            "async_confirmation": True,
            "sync_confirmation_timeout_millisecond": 1000,
            "async_confirmation_timeout_millisecond": 60_000,
        },
        VISIT,
        (("x-idempotency-key", KEY), ("x-idempotency-error", "no-cache")),
    ),
    "appointments.reschedule_phlebotomy": Write(
        lambda s: s.appointments.reschedule_phlebotomy(U2, "bk", NAME),
        "PATCH",
        _path("/phlebotomy/appointment/reschedule"),
        {"booking_key": "bk", "appointment_notes": NAME},
        VISIT,
    ),
    "appointments.reschedule_psc": Write(
        lambda s: s.appointments.reschedule_psc(U2, "bk"),
        "PATCH",
        _path("/psc/appointment/reschedule"),
        {"booking_key": "bk"},
        VISIT,
    ),
    "appointments.cancel_phlebotomy": Write(
        lambda s: s.appointments.cancel_phlebotomy(U2, U3, NAME),
        "PATCH",
        _path("/phlebotomy/appointment/cancel"),
        {"cancellation_reason_id": str(U3), "notes": NAME},
        VISIT,
    ),
    "appointments.cancel_psc": Write(
        lambda s: s.appointments.cancel_psc(U2, U3, NAME),
        "PATCH",
        _path("/psc/appointment/cancel"),
        {"cancellationReasonId": str(U3), "note": NAME},
        VISIT,
    ),
    "users.create": Write(
        lambda s: s.users.create(
            NewUser(
                client_user_id="c-1",
                fallback_time_zone="America/Phoenix",
                fallback_birth_date=date(1980, 1, 2),
                ingestion_start=date(2026, 1, 1),
                ingestion_end=date(2026, 2, 1),
            )
        ),
        "POST",
        "/v2/user",
        {
            "client_user_id": "c-1",
            "fallback_time_zone": "America/Phoenix",
            "fallback_birth_date": "1980-01-02",
            "ingestion_start": "2026-01-01",
            "ingestion_end": "2026-02-01",
        },
        USER,
    ),
    "users.update": Write(
        lambda s: s.users.update(U1, UserChange(ingestion_end=None, client_user_id="c-2")),
        "PATCH",
        f"/v2/user/{U1}",
        {"ingestion_end": None, "client_user_id": "c-2"},
        None,
    ),
    "users.update_info": Write(
        lambda s: s.users.update_info(
            U1,
            NewUserInfo(**PERSON, **BORN, address=STREET, medical_proxy=PROXY),  # type: ignore[arg-type]
        ),
        "PATCH",
        f"/v2/user/{U1}/info",
        {**PERSON, **BORN_SENT, "address": STREET_SENT, "medical_proxy": PROXY_SENT},
        {**PERSON, **BORN_SENT, "address": STREET_SENT},
    ),
    "users.deregister": Write(
        lambda s: s.users.deregister(U1, "watch"),
        "DELETE",
        f"/v2/user/{U1}/watch",
        None,
        {"success": True},
    ),
    "users.create_link": Write(
        lambda s: s.users.create_link(U1),
        "POST",
        "/v2/link/token",
        {"user_id": str(U1)},
        {"link_token": "t", "link_web_url": "https://link.service.invalid/?token=t"},
    ),
    "users.create_link, of a provider": Write(
        lambda s: s.users.create_link(U1, "watch"),
        "POST",
        "/v2/link/token",
        {"user_id": str(U1), "provider": "watch"},
        {"link_token": "t", "link_web_url": "https://link.service.invalid/?token=t"},
    ),
    "insurance.create": Write(
        lambda s: s.insurance.create(
            U1,
            NewInsurance(
                payor_code="P",
                member_id="M",
                relationship="Spouse",
                insured=NewInsured(**PERSON, **BORN, address=STREET),  # type: ignore[arg-type]
                guarantor=PROXY,
                is_primary=False,
            ),
        ),
        "POST",
        f"/v2/user/{U1}/insurance",
        {
            "payor_code": "P",
            "member_id": "M",
            "relationship": "Spouse",
            "insured": {**PERSON, **BORN_SENT, "address": STREET_SENT},
            "guarantor": PROXY_SENT,
            "is_primary": False,
        },
        INSURANCE,
    ),
    "insurance.create_payor": Write(
        lambda s: s.insurance.create_payor(NewPayor(name="Plan", address=STREET)),
        "POST",
        "/v3/payor",
        {"name": "Plan", "address": STREET_SENT},
        {"name": "Plan", "payor_code": "P", "source": "team"},
    ),
    "labs.create_test": Write(
        lambda s: s.labs.create_test(
            NewLabTest(
                name="Panel",
                method="testkit",
                description="d",
                provider_ids=["x"],
                fasting=True,
                lab_slug="lab-a",
            )
        ),
        "POST",
        "/v3/lab_tests",
        {
            "name": "Panel",
            "method": "testkit",
            "description": "d",
            "provider_ids": ["x"],
            "fasting": True,
            "lab_slug": "lab-a",
        },
        LAB_TEST,
    ),
    "labs.update_test": Write(
        lambda s: s.labs.update_test(U1, LabTestChange(active=False)),
        "PATCH",
        f"/v3/lab_tests/{U1}",
        {"active": False},
        LAB_TEST,
    ),
    "management.set_allowlist": Write(
        lambda s: s.management.set_allowlist(U1, [U2, U3]),
        "PATCH",
        f"/v1/org/{ORG}/lab_account/sandbox/us/{U1}",
        {"team_id_allowlist": [str(U2), str(U3)]},
        {"lab_account": ACCOUNT},
    ),
    "management.create_webhook": Write(
        lambda s: s.management.create_webhook(U1, "https://desk.invalid/webhooks/", "ours"),
        "POST",
        f"/v1/org/{ORG}/team/{U1}/sandbox/webhook",
        {"url": "https://desk.invalid/webhooks/", "description": "ours"},
        {"id": "ep_1", "url": "https://desk.invalid/webhooks/", "description": "ours"},
    ),
    "management.rotate_webhook_secret": Write(
        lambda s: s.management.rotate_webhook_secret(U1, "ep_1"),
        "POST",
        f"/v1/org/{ORG}/team/{U1}/sandbox/webhook/ep_1/secret/rotate",
        {"key": None},
        None,
    ),
    "management.switch_webhook": Write(
        lambda s: s.management.switch_webhook(U1, "ep_1", disabled=True),
        "PATCH",
        f"/v1/org/{ORG}/team/{U1}/sandbox/webhook/ep_1",
        {"disabled": True},
        {"id": "ep_1", "url": "https://desk.invalid/webhooks/", "disabled": True},
    ),
    "management.delete_webhook": Write(
        lambda s: s.management.delete_webhook(U1, "ep_1"),
        "DELETE",
        f"/v1/org/{ORG}/team/{U1}/sandbox/webhook/ep_1",
        None,
        None,
    ),
    "unmatched.accept": Write(
        lambda s: s.unmatched.accept(U1, order_id=U2, note=NAME),
        "POST",
        f"/v3/unmatched_result/{U1}/accept",
        {"order_id": str(U2), "note": NAME},
        ORDER,
    ),
    "unmatched.resolve": Write(
        lambda s: s.unmatched.resolve(U1, "reject"),
        "POST",
        f"/v3/unmatched_result/{U1}/resolve",
        {"action": "reject"},
        UNMATCHED,
    ),
}

LOOKUPS: dict[str, Write] = {
    "appointments.phlebotomy_availability": Write(
        lambda s: s.appointments.phlebotomy_availability(HOME, date(2026, 3, 4)),
        "POST",
        "/v3/order/phlebotomy/appointment/availability?start_date=2026-03-04",
        HOME_SENT,
        {"slots": [], "timezone": "America/Phoenix"},
    ),
    "appointments.psc_availability": Write(
        lambda s: s.appointments.psc_availability(
            "lab-a", site_codes=["A", "B"], start_date=date(2026, 3, 4)
        ),
        "POST",
        "/v3/order/psc/appointment/availability?lab=lab-a&start_date=2026-03-04"
        "&site_codes=A&site_codes=B&allow_stale=false",
        None,
        {"slots": [], "timezone": None},
    ),
    "insurance.validate_icd_codes": Write(
        lambda s: s.insurance.validate_icd_codes(["A00", "B00"]),
        "POST",
        "/v3/insurance/validate_icd_codes",
        {"codes": ["A00", "B00"]},
        {"valid": True, "errors": [], "violations": [], "warnings": []},
    ),
}
