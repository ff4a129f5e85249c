"""Appointments of an order and the reasons for cancelling one (appointments.md 1, 3, 5)."""

from __future__ import annotations

import uuid
from typing import Any

from django.http import HttpResponse

from sandbox import specification_forms
from sandbox.api.calls import ApiRequest, Call
from sandbox.api.errors import Refusal
from sandbox.api.orders import find_order
from sandbox.api.responses import json_response
from sandbox.models import Appointment

_REASONS = uuid.UUID("c0a0ce11-0000-4000-8000-000000000000")


def _reasons(kind: str, *names: tuple[str, bool]) -> tuple[dict[str, Any], ...]:
    return tuple(
        {
            "id": uuid.uuid5(_REASONS, f"{kind}/{name}"),
            "name": name,
            "is_refundable": is_refundable,
        }
        for name, is_refundable in names
    )


# The same ids in every world.
PHLEBOTOMY_REASONS = _reasons(
    "phlebotomy",
    ("Patient asked to cancel", True),
    ("Patient is ill", True),
    ("Patient not at home", False),
    ("Time no longer suits", True),
    ("Address was wrong", False),
    ("Booked elsewhere", True),
    ("Order was cancelled", True),
    ("Visit no longer needed", True),
    ("Provider is unavailable", True),
    ("Weather or road conditions", True),
    ("Other", False),
)
PSC_REASONS = _reasons("psc", ("Other", False))


def address_record(appointment: Appointment) -> dict[str, Any]:
    """Return the USAddress of an appointment, as the provider writes it, which may differ from
    what was sent. `unit` is deprecated beside `second_line`."""
    return {
        "first_line": appointment.first_line.upper(),
        "second_line": appointment.second_line,
        "city": appointment.city,
        "state": appointment.state,
        "zip_code": appointment.zip_code,
        "unit": appointment.second_line,
        "access_notes": appointment.access_notes,
    }


def appointment_record(appointment: Appointment) -> dict[str, Any]:
    """Return an Appointment with its events, oldest first. Select `order` and `events` before."""
    return specification_forms.appointment(
        {
            "id": appointment.pk,
            "user_id": appointment.user_id,
            "order_id": appointment.order.id,
            "order_transaction_id": appointment.order.transaction_id,
            "address": address_record(appointment),
            "location": {"lng": appointment.lng, "lat": appointment.lat},
            "start_at": appointment.start_at,
            "end_at": appointment.end_at,
            "iana_timezone": appointment.iana_timezone,
            "type": appointment.type,
            "provider": appointment.provider,
            "status": appointment.status,
            "provider_id": appointment.provider_id,
            "external_id": appointment.external_id,
            "can_reschedule": appointment.can_reschedule,
            "appointment_notes": appointment.appointment_notes,
            "event_status": appointment.event_status,
            "event_data": appointment.event_data,
            "events": [
                {"created_at": event.created_at, "status": event.status, "data": event.data}
                for event in appointment.events.order_by("created_at", "id")
            ],
        }
    )


def _current(api_request: ApiRequest, kind: str) -> HttpResponse:
    order = find_order(api_request)
    found = (
        Appointment.objects.filter(order=order, is_current=True, type=kind)
        .select_related("order")
        .first()
    )
    if found is None:
        raise Refusal(404, "This order has no such appointment")
    return json_response(appointment_record(found))


def phlebotomy_appointment(api_request: ApiRequest) -> HttpResponse:
    return _current(api_request, "phlebotomy")


def psc_appointment(api_request: ApiRequest) -> HttpResponse:
    return _current(api_request, "patient_service_center")


def phlebotomy_reasons(api_request: ApiRequest) -> HttpResponse:
    return json_response(PHLEBOTOMY_REASONS)


def psc_reasons(api_request: ApiRequest) -> HttpResponse:
    return json_response(PSC_REASONS)


CALLS = (
    Call(
        "GET",
        "/v3/order/{order_id}/phlebotomy/appointment",
        phlebotomy_appointment,
        "The order's visit at home",
    ),
    Call(
        "GET",
        "/v3/order/{order_id}/psc/appointment",
        psc_appointment,
        "The order's visit at a service center",
    ),
    Call(
        "GET",
        "/v3/order/phlebotomy/appointment/cancellation-reasons",
        phlebotomy_reasons,
        "Reasons for cancelling a visit at home",
    ),
    Call(
        "GET",
        "/v3/order/psc/appointment/cancellation-reasons",
        psc_reasons,
        "Reasons for cancelling a visit at a service center",
    ),
)
