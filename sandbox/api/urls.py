"""Every call of the interface, and the document that describes them."""

from __future__ import annotations

import re
from itertools import groupby

from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.urls import URLPattern, URLResolver, re_path
from django.views.decorators.csrf import csrf_exempt

from sandbox.api import (
    accounts,
    appointments,
    availability,
    booking,
    catalogue,
    catalogue_writes,
    insurance,
    insurance_codes,
    introspection,
    kits,
    order_documents,
    order_writes,
    orders,
    reports,
    results,
    schema,
    service_areas,
    simulation,
    unmatched,
    user_writes,
    users,
    wearables,
    webhooks,
)
from sandbox.api.calls import ApiRequest, Call, endpoint, stamped
from sandbox.api.responses import error_response, json_response

CALLS: tuple[Call, ...] = (
    *users.CALLS,
    *user_writes.CALLS,
    *insurance.CALLS,
    *insurance_codes.CALLS,
    *introspection.CALLS,
    *catalogue.CALLS,
    *catalogue_writes.CALLS,
    *accounts.CALLS,
    *orders.CALLS,
    *order_writes.CALLS,
    *kits.CALLS,
    *simulation.CALLS,
    *unmatched.CALLS,
    *results.CALLS,
    *order_documents.CALLS,
    *appointments.CALLS,
    *availability.CALLS,
    *booking.CALLS,
    *service_areas.CALLS,
    *wearables.CALLS,
    *reports.CALLS,
    *webhooks.CALLS,
)


def openapi(api_request: ApiRequest) -> HttpResponse:
    """The OpenAPI document."""
    return json_response(schema.document(CALLS))


_DOCUMENT = Call("GET", "/openapi.json", openapi, "This document", key="none")


@csrf_exempt
def unknown_path(request: HttpRequest) -> HttpResponseBase:
    return stamped(error_response(404, "Not Found"))


def _specificity(path: str) -> list[bool]:
    """Literal parts sort before named ones, so that `/v3/order/psc/info` is no order."""
    return [part.startswith("{") for part in path.split("/")]


def _pattern(path: str) -> str:
    """A trailing slash is accepted: the specification writes some paths with one."""
    named = re.sub(r"\\{(\w+)\\}", r"(?P<\1>[^/]+)", re.escape(path.lstrip("/")))
    return rf"^{named}/?\Z"


def _routes() -> list[URLPattern | URLResolver]:
    calls = sorted((*CALLS, _DOCUMENT), key=lambda call: (_specificity(call.path), call.path))
    return [
        re_path(_pattern(path), endpoint({call.method: call for call in same}))
        for path, same in groupby(calls, key=lambda call: call.path)
    ]


urlpatterns: list[URLPattern | URLResolver] = [
    *_routes(),
    # The control path is not part of the interface.
    re_path(r"^(?!_control(?:/|\Z))", unknown_path),
]
