"""What is possible near a zip code: visits at home and service centers (appointments.md 4)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from django.http import HttpResponse

from sandbox.api import accounts, vocabulary
from sandbox.api.accounts import LAB_ACCOUNT
from sandbox.api.calls import ApiRequest, Call
from sandbox.api.errors import Invalid, Problems, Refusal, missing
from sandbox.api.orders import find_order
from sandbox.api.params import Param, Text, Whole
from sandbox.api.responses import json_response
from sandbox.models import Lab, LabAccount, PscSite, ServiceArea

_EARTH_RADIUS_MILES = 3958.8
_MOST_SITES = 30
BOOKABLE_HERE = "appointment_scheduling_via_service"

_ZIP_CODE = Param("zip_code", Text(pattern=r"\d{5}"), required=True)
_RADIUS = Param("radius", vocabulary.RADII, "25", note="miles")
_CAPABILITIES = Param(
    "capabilities", vocabulary.CAPABILITIES, many=True, note="centers that have all of these"
)


def _miles(area: ServiceArea, site: PscSite) -> float:
    """Great-circle distance."""
    south, north = math.radians(area.lat), math.radians(site.lat)
    half_lat, half_lng = (north - south) / 2, math.radians(site.lng - area.lng) / 2
    chord = math.sin(half_lat) ** 2 + math.cos(south) * math.cos(north) * math.sin(half_lng) ** 2
    return 2 * _EARTH_RADIUS_MILES * math.asin(math.sqrt(chord))


@dataclass(frozen=True, slots=True)
class NearbySite:
    """A site and how far it is from where one looked."""

    site: PscSite
    miles: float


def near_sites(area: ServiceArea | None, sites: Iterable[PscSite], radius: str) -> list[NearbySite]:
    """The sites within `radius` miles of the area, nearest first; none around unknown zip codes."""
    if area is None:
        return []
    found = [NearbySite(site, _miles(area, site)) for site in sites]
    within = [near for near in found if near.miles <= int(radius)]
    return sorted(within, key=lambda near: (near.miles, near.site.site_code))


def _bill_types(lab: Lab, account: LabAccount | None, state: str | None) -> list[str]:
    """What can be billed in the state: all of it on the platform's account."""
    if account is None:
        return list(vocabulary.BILLING_TYPES)
    if account.lab_id != lab.pk:
        return []
    allowed = account.allowed_billing
    return [kind for kind in vocabulary.BILLING_TYPES if state in allowed.get(kind, ())]


def _chosen_labs(api_request: ApiRequest) -> list[Lab]:
    """Labs named in the query, or all that patients walk in to; 422 for an unknown slug."""
    labs = {lab.slug: lab for lab in Lab.objects.order_by("id")}
    slugs: list[str] | None = api_request["labs"]
    if slugs is None and api_request["lab"] is not None:
        slugs = [api_request["lab"]]
    if slugs is None:
        return [lab for lab in labs.values() if "walk_in_test" in lab.collection_methods]
    problems = Problems()
    for place, slug in enumerate(slugs):
        if slug not in labs:
            loc: list[str | int] = ["query", "labs", place]
            if api_request["labs"] is None:
                loc = ["query", "lab"]
            problems.add(loc, Invalid("enum", "Input should be a lab slug"), slug)
    problems.settle()
    return [labs[slug] for slug in dict.fromkeys(slugs)]


def area_info(api_request: ApiRequest) -> HttpResponse:
    """AreaInfo of a zip code."""
    labs = _chosen_labs(api_request)
    account = accounts.find_account(api_request)
    area = ServiceArea.objects.filter(pk=api_request["zip_code"]).first()
    sites = list(PscSite.objects.filter(lab__in=labs, is_active=True))
    centers: dict[str, Any] = {}
    for lab in labs:
        near = near_sites(
            area, (site for site in sites if site.lab_id == lab.pk), api_request["radius"]
        )
        capabilities = sorted({name for each in near for name in each.site.capabilities})
        centers[lab.slug] = {
            "patient_service_centers": {
                "within_radius": len(near),
                "radius": api_request["radius"],
                "appointment_with_service": BOOKABLE_HERE in capabilities,
                "capabilities": capabilities,
            },
            "supported_bill_types": _bill_types(lab, account, area.state if area else None),
            "lab_id": lab.pk,
        }
    served: dict[str, list[str]] = area.phlebotomy if area else {}
    return json_response(
        {
            "zip_code": api_request["zip_code"],
            "phlebotomy": {
                "is_served": bool(served),
                "providers": [
                    {"name": name, "service_types": tiers} for name, tiers in sorted(served.items())
                ],
            },
            "central_labs": centers,
        }
    )


def _site_record(near: NearbySite, bill_types: Sequence[str]) -> dict[str, Any]:
    site = near.site
    return {
        "metadata": {
            "name": site.name,
            "state": site.state,
            "city": site.city,
            "zip_code": site.zip_code,
            "first_line": site.first_line,
            "second_line": site.second_line,
            "phone_number": site.phone_number,
            "fax_number": site.fax_number,
            "hours": site.hours,
            "website": site.website,
        },
        "distance": round(near.miles),
        "site_code": site.site_code,
        "supported_bill_types": [kind for kind in site.supported_bill_types if kind in bill_types],
        "location": {"lng": site.lng, "lat": site.lat},
        "capabilities": site.capabilities,
    }


def _centers(
    lab: Lab, zip_code: str, account: LabAccount | None, api_request: ApiRequest
) -> HttpResponse:
    """PscInfo: at most thirty centers, nearest first."""
    area = ServiceArea.objects.filter(pk=zip_code).first()
    sites = PscSite.objects.filter(lab=lab, is_active=True)
    if api_request["capabilities"]:
        sites = sites.filter(capabilities__contains=api_request["capabilities"])
    bill_types = _bill_types(lab, account, area.state if area else None)
    return json_response(
        {
            "lab_id": lab.pk,
            "slug": lab.slug,
            "patient_service_centers": [
                _site_record(near, bill_types)
                for near in near_sites(area, sites, api_request["radius"])[:_MOST_SITES]
            ],
        }
    )


def psc_info(api_request: ApiRequest) -> HttpResponse:
    account = accounts.find_account(api_request)
    lab = Lab.objects.filter(pk=api_request["lab_id"]).first()
    if lab is None:
        raise missing("Lab")
    return _centers(lab, api_request["zip_code"], account, api_request)


def order_psc_info(api_request: ApiRequest) -> HttpResponse:
    """Centers of the order's lab around its patient; walk-in orders only."""
    order = find_order(api_request, "lab_test__lab", "lab_account")
    if order.method != "walk_in_test":
        raise Refusal(400, "Service centers serve walk-in orders only")
    return _centers(order.lab_test.lab, order.zip_code[:5], order.lab_account, api_request)


CALLS = (
    Call(
        "GET",
        "/v3/order/area/info",
        area_info,
        "What is possible near a zip code",
        query=(
            _ZIP_CODE,
            _RADIUS,
            Param("lab", Text(), deprecated=True),
            Param("labs", Text(), many=True, note="lab slugs"),
            LAB_ACCOUNT,
        ),
    ),
    Call(
        "GET",
        "/v3/order/psc/info",
        psc_info,
        "Service centers near a zip code",
        query=(
            _ZIP_CODE,
            Param("lab_id", Whole(), required=True),
            _RADIUS,
            _CAPABILITIES,
            LAB_ACCOUNT,
        ),
    ),
    Call(
        "GET",
        "/v3/order/{order_id}/psc/info",
        order_psc_info,
        "Service centers near an order's patient",
        query=(_RADIUS, _CAPABILITIES),
    ),
)
