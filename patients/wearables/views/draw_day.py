"""The draw-day strip on the page of an order."""

from __future__ import annotations

from datetime import timedelta
from typing import Final
from uuid import UUID

from django import forms
from django.core.exceptions import BadRequest
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.http import require_safe

from backoffice.accounts.access import requires
from backoffice.audit.recording import record_view
from patients.models import Patient
from patients.wearables.draw_day_strip import expected_until, strip_days
from patients.wearables.models import HistoricalPull
from patients.wearables.recency import newest_data_by_provider
from patients.wearables.views.devices import patient_time_zone

STALE_AFTER: Final = timedelta(days=2)
"""Age of the newest data, counted from the last complete day of the strip, from which the
connection is probably broken. With newer data, the device may just not have sent the rest yet.
"""


class DrawDayForm(forms.Form):
    """The day of the draw; today by default."""

    day = forms.DateField(required=False, input_formats=["%Y-%m-%d"])


@requires("patients.view")
@require_safe
def strip(request: HttpRequest, patient_id: UUID) -> HttpResponse:
    """Show the days from three before a draw to one after: a fragment of an order's page.

    It is empty if the patient has no device.
    """
    patient = Patient.objects.filter(pk=patient_id).defer("record", "content_hash").first()
    if patient is None:
        raise Http404
    form = DrawDayForm(request.GET)
    if not form.is_valid():
        raise BadRequest("The day must be written like 2026-11-21.")
    zone = patient_time_zone(patient)
    draw = form.cleaned_data["day"] or timezone.now().astimezone(zone).date()
    if not 1971 <= draw.year <= 2098:
        raise BadRequest("The day must be between 1971 and 2098.")
    last = newest_data_by_provider(patient_id)
    trouble = HistoricalPull.objects.failing().filter(user=patient_id).count()
    record_view(request, "device data", [patient_id], [patient_id])
    if not last and not trouble:
        return HttpResponse()
    days = strip_days(patient_id, draw, zone)
    newest = max(last.values(), default=None)
    context = {
        "patient_id": patient_id,
        "days": days,
        "zone": zone.key,
        "sleep": any(day.sleep is not None for day in days),
        "steps": any(day.steps is not None for day in days),
        "glucose": any(day.covered for day in days),
        "newest": newest,
        "stale": newest is None or newest < expected_until(draw, zone) - STALE_AFTER,
        "trouble": trouble,
    }
    return render(request, "patients/wearables/_strip.html", context)
