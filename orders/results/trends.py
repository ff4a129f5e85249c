"""One marker of one person over time."""

from __future__ import annotations

from uuid import UUID

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from backoffice import audit
from backoffice.core.access import may, requires
from labs.models import Lab
from orders.models import Order
from orders.results.history import Value, values_of
from patients.models import Demographics


def _values(patient_id: UUID, key: str) -> list[Value]:
    """By a key of `history`, or by a marker's bare slug: as LOINC calls it, else as a lab does."""
    wanted = [key]
    if not key.startswith(("loinc:", "lab:")):
        labs = Order.objects.filter(user=patient_id).values_list("lab_slug", flat=True).distinct()
        wanted = [f"loinc:{key}", *(f"lab:{lab or ''}:{key}" for lab in labs)]
    found = values_of(patient_id, wanted)
    return next((found[one] for one in wanted if one in found), [])


@requires("results.view")
@require_safe
def trend(request: HttpRequest, patient_id: UUID, key: str) -> HttpResponse:
    """Every value there is, drawn and as a table."""
    values = _values(patient_id, key)
    if not values:
        raise Http404
    audit.viewed(request, "result", {value.order_id for value in values}, [patient_id])
    by_name = may(request.user, "patients.view")
    numbers = [value for value in values if value.number is not None]
    labs = dict(Lab.objects.filter(slug__in={v.lab for v in values}).values_list("slug", "name"))
    context = {
        "values": values,
        "rows": [(value, labs.get(value.lab, value.lab)) for value in reversed(values)],
        "newest": values[-1],
        "unit": numbers[-1].unit if numbers else "",
        "drawn": [v for v in numbers if v.is_in(numbers[-1].unit)],
        "other_units": sorted(
            {v.unit or "no unit" for v in numbers if not v.is_in(numbers[-1].unit)}
        )
        if numbers
        else [],
        "person": Demographics.objects.filter(pk=patient_id).defer("record").first(),
        "patient_id": patient_id,
        "by_name": by_name,
    }
    return render(request, "reviewing/trend.html", context)
