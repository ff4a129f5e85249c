"""Today: what is urgent, what is new, how much waits, what is mine."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.core.exceptions import BadRequest
from django.db.models import BooleanField, ExpressionWrapper, Q
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.views.decorators.http import require_POST, require_safe

from backoffice import audit
from backoffice.core.access import may, requires
from backoffice.models import User
from backoffice.pages import live
from orders.appointments.forms import visits_of
from orders.appointments.rows import visits
from orders.today import digest, my_work
from orders.today.handover import Period, sheet
from orders.today.tiles import tiles

DRAWS = 8
"""Visits of today on the page; the list has them all."""


@requires("orders.view")
@require_safe
def page(request: HttpRequest) -> HttpResponse:
    """Where a shift begins."""
    user = _user(request)
    by_name = may(user, "patients.view")
    told = digest.digest(user, sees_results=may(user, "results.view"))
    work, buckets = tiles(user)
    draws = _draws(user) if may(user, "appointments.view") else []
    taken = my_work.held_by(user)
    held = taken[: my_work.MOST]
    drafts = my_work.drafts_of(user) if may(user, "orders.create", "patients.view") else []
    asked = my_work.requests_of(user) if may(user, "commands.view") else []
    shown = [news for group in told.groups for news in group.orders]
    audit.listed(
        request,
        "today",
        [*(news.order_id for news in shown), *(one.row.subject_id for one in held)],
        [
            *(group.patient_id for group in told.groups),
            *(one.row.patient_id for one in held),
            *(one.row.patient_id for one in drafts),
            *(one.appointment.user_id for one in draws),
        ],
    )
    context = {
        "digest": told,
        "snapshot": live.now_of(user),
        "work": work,
        "buckets": buckets,
        "draws": draws,
        "held": held,
        "held_more": len(taken) > len(held),
        "drafts": drafts,
        "asked": asked,
        "by_name": by_name,
        "may_take": may(user, "notes.write"),
        "today": timezone.localdate(),
    }
    return render(request, "today/page.html", context)


@requires("orders.view")
@require_safe
def counts(request: HttpRequest) -> HttpResponse:
    """The tiles alone, for a page that stands open."""
    work, buckets = tiles(request.user)
    return render(request, "today/_tiles.html", {"work": work, "buckets": buckets, "polled": True})


@requires("orders.view")
@require_POST
def seen(request: HttpRequest) -> HttpResponse:
    """One patient's news is known, or, with `undo`, is to be told again."""
    user = _user(request)
    try:
        about = UUID(request.POST.get("about", ""))
        if request.POST.get("undo"):
            digest.unsee(user, about)
        else:
            digest.see(user, about, request.POST.get("snapshot", ""))
    except ValueError as error:
        raise BadRequest("The form does not say what was seen. Load the page again.") from error
    if request.headers.get("HX-Request") != "true" or request.POST.get("undo"):
        return redirect("today:page")
    return render(request, "today/_seen.html", {"about": about})


@requires("orders.view")
@require_POST
def seen_all(request: HttpRequest) -> HttpResponse:
    """All that was new when the page was made is known."""
    try:
        digest.see_all(_user(request), request.POST.get("snapshot", ""))
    except ValueError as error:
        raise BadRequest("The form does not say what was seen. Load the page again.") from error
    return redirect("today:page")


@requires("orders.view", "patients.view")
@require_safe
def hand_over(request: HttpRequest) -> HttpResponse:
    """What one shift leaves to the next, on a sheet to print."""
    user = _user(request)
    form = Period(request.GET, timezone.now())
    if not form.is_valid():
        return render(request, "today/hand_over.html", {"form": form}, status=400)
    given = form.cleaned_data
    found = sheet(
        user,
        given["begin"],
        given["end"],
        all_staff=given["whose"] == "all",
        results=may(user, "results.view"),
        exceptions=may(user, "exceptions.work"),
    )
    audit.record(
        request,
        "print",
        "hand-over",
        ids=found.records(),
        patients=found.patients(),
    )
    return render(request, "today/hand_over.html", {"form": form, "sheet": found, **given})


def _draws(user: User) -> list[Any]:
    rows = visits_of("today", timezone.now(), by_name=may(user, "patients.view"))
    # What is still to come matters in the afternoon, too.
    done = ExpressionWrapper(Q(status="completed"), BooleanField())
    return visits(rows.order_by(done, "start_at", "id")[:DRAWS])


def _user(request: HttpRequest) -> User:
    assert isinstance(request.user, User)
    return request.user
