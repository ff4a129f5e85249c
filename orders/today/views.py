"""The pages of Today: new activity, tiles, the user's work, today's visits, the hand-over sheet."""

from __future__ import annotations

from uuid import UUID

from django.core.exceptions import BadRequest
from django.db.models import BooleanField, ExpressionWrapper, Q
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.utils.translation import gettext
from django.views.decorators.http import require_POST, require_safe

from backoffice.accounts.access import may, requires, staff_user
from backoffice.accounts.models import User
from backoffice.audit.recording import record_entry, record_list
from backoffice.pages import live
from orders.appointment_list.queries import appointments_of_tab, current_appointments
from orders.appointment_list.rows import AppointmentRow, appointment_rows
from orders.today import digest, my_work
from orders.today.handover import HandoverForm, handover_sheet
from orders.today.tiles import tiles

MAX_VISITS = 8
"""Most visits of today on the page. The list page shows all of them."""


@requires("orders.view")
@require_safe
def page(request: HttpRequest) -> HttpResponse:
    """Show the page Today, where a shift starts."""
    user = staff_user(request)
    by_name = may(user, "patients.view")
    unseen = digest.build_digest(user, sees_results=may(user, "results.view"))
    work, buckets = tiles(user)
    visits = _appointments_today(user) if may(user, "appointments.view") else []
    assigned = my_work.assigned_records(user)
    shown_records = assigned[: my_work.MAX_ROWS]
    drafts = my_work.order_drafts(user) if may(user, "orders.create", "patients.view") else []
    requests = my_work.open_requests(user) if may(user, "commands.view") else []
    shown_activities = [activity for group in unseen.groups for activity in group.orders]
    record_list(
        request,
        "today",
        [
            *(activity.order_id for activity in shown_activities),
            *(shown.row.subject_id for shown in shown_records),
        ],
        [
            *(group.patient_id for group in unseen.groups),
            *(shown.row.patient_id for shown in shown_records),
            *(draft.row.patient_id for draft in drafts),
            *(visit.appointment.user_id for visit in visits),
        ],
    )
    context = {
        "digest": unseen,
        "snapshot": live.current_snapshot(user),
        "work": work,
        "buckets": buckets,
        "draws": visits,
        "held": shown_records,
        "held_more": len(assigned) > len(shown_records),
        "drafts": drafts,
        "requests": requests,
        "by_name": by_name,
        "may_take": may(user, "notes.write"),
        "today": timezone.localdate(),
    }
    return render(request, "today/page.html", context)


@requires("orders.view")
@require_safe
def counts(request: HttpRequest) -> HttpResponse:
    """Show only the tiles. An open page requests them regularly."""
    work, buckets = tiles(staff_user(request))
    return render(request, "today/_tiles.html", {"work": work, "buckets": buckets, "polled": True})


@requires("orders.view")
@require_POST
def mark_seen(request: HttpRequest) -> HttpResponse:
    """Mark the activity of one patient as seen or, with `undo`, as not seen."""
    user = staff_user(request)
    try:
        subject_id = UUID(request.POST.get("about", ""))
        if request.POST.get("undo"):
            digest.unmark_seen(user, subject_id)
        else:
            digest.mark_seen(user, subject_id, request.POST.get("snapshot", ""))
    except ValueError as error:
        raise BadRequest(gettext("This page is out of date. Reload it and try again.")) from error
    if request.headers.get("HX-Request") != "true" or request.POST.get("undo"):
        return redirect("today:page")
    return render(request, "today/_seen.html", {"about": subject_id})


@requires("orders.view")
@require_POST
def mark_all_seen(request: HttpRequest) -> HttpResponse:
    """Mark everything on the page as seen."""
    try:
        digest.mark_all_seen(staff_user(request), request.POST.get("snapshot", ""))
    except ValueError as error:
        raise BadRequest(gettext("This page is out of date. Reload it and try again.")) from error
    return redirect("today:page")


@requires("orders.view", "patients.view")
@require_safe
def hand_over(request: HttpRequest) -> HttpResponse:
    """Show the hand-over sheet of a shift, for printing."""
    user = staff_user(request)
    form = HandoverForm(request.GET, timezone.now())
    if not form.is_valid():
        return render(request, "today/hand_over.html", {"form": form}, status=400)
    values = form.cleaned_data
    sheet = handover_sheet(
        user,
        values["begin"],
        values["end"],
        all_staff=values["whose"] == "all",
        results=may(user, "results.view"),
        exceptions=may(user, "exceptions.work"),
    )
    record_entry(
        request,
        "print",
        "hand-over",
        ids=sheet.records(),
        patients=sheet.patients(),
    )
    return render(request, "today/hand_over.html", {"form": form, "sheet": sheet, **values})


def _appointments_today(user: User) -> list[AppointmentRow]:
    rows = appointments_of_tab(current_appointments().defer("record"), "today", timezone.now())
    # Completed visits are last, so that the page also shows later visits in the afternoon.
    is_completed = ExpressionWrapper(Q(status="completed"), BooleanField())
    rows = rows.order_by(is_completed, "start_at", "id")[:MAX_VISITS]
    return appointment_rows(rows, by_name=may(user, "patients.view"))
