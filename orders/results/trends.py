"""The values of one marker of one patient over time."""

from __future__ import annotations

from uuid import UUID

from orders.models import Order
from orders.results.history import MarkerValue, values_by_marker


def marker_values(patient_id: UUID, key: str) -> list[MarkerValue]:
    """Return the values for a marker key, or for a slug alone.

    A slug is first taken as a LOINC code, then as a lab's code.
    """
    wanted = [key]
    if not key.startswith(("loinc:", "lab:")):
        labs = Order.objects.filter(user=patient_id).values_list("lab_slug", flat=True).distinct()
        wanted = [f"loinc:{key}", *(f"lab:{lab or ''}:{key}" for lab in labs)]
    values = values_by_marker(patient_id, wanted)
    return next((values[key] for key in wanted if key in values), [])
