"""System > Audit: the list, one entry, integrity, monthly reviews; and the user's own entries."""

from __future__ import annotations

from datetime import date, timedelta
from typing import Final

from django.conf import settings
from django.contrib import messages
from django.db import IntegrityError, transaction
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.utils.translation import gettext, gettext_noop
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from backoffice.accounts.access import may, requires, signed_in, staff_user
from backoffice.audit import entry_list, retention, seals
from backoffice.audit.entry_list import AUDIT_LIST, OWN_COLUMNS
from backoffice.audit.forms import AuditReviewForm
from backoffice.audit.models import AuditCheck, AuditEntry, AuditReview, AuditSeal
from backoffice.audit.recording import kind_label, record_action, record_list, record_view
from backoffice.core.time_formats import month_and_year
from backoffice.outbox.enqueueing import wake_worker
from backoffice.pages.paging.counts import capped_count
from backoffice.pages.paging.pages import Sort, fetch_page, page_position

PAGE_SIZE: Final = 50
NEWEST_FIRST: Final = Sort(("at", "id"), descending=True)
MAX_SHOWN: Final = 200
"""Records, patients, and related entries shown on the page of one entry."""
SHOWN_CHECKS: Final = 20
SHOWN_MONTHS: Final = 24
FIELD_LABELS: Final = {"works_on_it": gettext_noop("Assigned to")}
"""Labels of stored names of changed values that are not their own labels."""
UNSEALED_LIMIT: Final = timedelta(minutes=10)
"""Entries are sealed every minute. An entry that is unsealed for longer than this is a problem."""


@requires("audit.view")
@require_safe
def entry(request: HttpRequest, entry_id: int) -> HttpResponse:
    """Show one entry: actor, action, patients, changes, and other entries of the same request."""
    try:
        row = AuditEntry.objects.select_related("actor").get(pk=entry_id)
    except (AuditEntry.DoesNotExist, OverflowError) as error:
        raise Http404 from error
    related = list(AuditEntry.objects.of_same_request(row)[:MAX_SHOWN])
    patients = row.patient_ids[:MAX_SHOWN]
    record_view(
        request,
        AUDIT_LIST.subject,
        [row.pk],
        patients if may(request.user, "patients.view") else [],
    )
    context = {
        "entry": row,
        "who": entry_list.actor_name(row),
        "did": entry_list.action_label(row),
        "kind": kind_label(row.object_type),
        "outcome": row.outcome,
        "records": [
            (key, entry_list.record_page_url(row.object_type, key, request.user))
            for key in row.object_ids[:MAX_SHOWN]
        ],
        "patients": patients,
        "shown": MAX_SHOWN,
        "differences": _differences(row),
        "beside": related,
        "columns": entry_list.COLUMNS[:6],
        "seal": AuditSeal.objects.of_entry(row.pk),
    }
    return render(request, "audit/entry.html", context)


@signed_in
@require_safe
def my_entries(request: HttpRequest) -> HttpResponse:
    """Show the entries of the user, newest first."""
    rows = AuditEntry.objects.of_actor(request.user.pk)
    page = fetch_page(rows, NEWEST_FIRST, size=PAGE_SIZE, **page_position(request))
    record_list(
        request,
        "own entries",
        (row.pk for row in page.rows),
        entry_list.named_patients(page.rows, request.user),
    )
    return render(request, "audit/mine.html", {"page": page, "columns": OWN_COLUMNS})


def _differences(row: AuditEntry) -> list[dict[str, object]]:
    before, after = row.before or {}, row.after or {}
    return [
        {
            "name": gettext(FIELD_LABELS.get(name, name.replace("_", " ").capitalize())),
            "before": _display_value(before.get(name)),
            "after": _display_value(after.get(name)),
        }
        for name in dict.fromkeys([*before, *after])
    ]


def _display_value(value: object) -> object:
    """Return a value of a change for display."""
    if isinstance(value, bool):
        return gettext("Yes") if value else gettext("No")
    if isinstance(value, list):
        return ", ".join(map(str, value))
    return value


# Integrity


@requires("audit.view")
@require_safe
def integrity(request: HttpRequest) -> HttpResponse:
    """Show the last check, its findings, the head to remember, and how long entries are kept."""
    checks = list(AuditCheck.objects.newest_first()[:SHOWN_CHECKS])
    done = [check for check in checks if check.finished_at]
    last = AuditSeal.objects.latest_of_entries()
    unsealed = AuditEntry.objects.after_seal(last)
    oldest = unsealed.oldest_id_at()
    context = {
        "checks": checks,
        "latest": done[0] if done else None,
        "broken": done[0].trouble if done else [],
        "asked": any(check.finished_at is None for check in checks),
        "last": last,
        "head": seals.head(),
        "unsealed": capped_count(unsealed),
        "late": oldest if oldest and oldest < timezone.now() - UNSEALED_LIMIT else None,
        "years": settings.AUDIT_KEEP_YEARS,
        "hold": settings.AUDIT_HOLD,
        "due": retention.removal_backlog(),
        "own_key": bool(settings.AUDIT_KEYS),
    }
    return render(request, "audit/integrity.html", context)


@requires("audit.view")
@require_POST
def check_now(request: HttpRequest) -> HttpResponse:
    """Request a check now: a worker runs it within a minute."""
    with transaction.atomic(durable=True):
        check = AuditCheck(asked_by=staff_user(request))
        AuditCheck.objects.bulk_create([check], ignore_conflicts=True)
        record_action(request, "audit check", [], [])
    wake_worker("backoffice.operations.tasks.verify_audit_chain", queue="bulk")
    messages.success(
        request, gettext("Check started. Reload this page in a minute for the result.")
    )
    return redirect("audit:integrity")


# Reviews


@requires("audit.view")
@require_http_methods(["GET", "HEAD", "POST"])
def reviews(request: HttpRequest) -> HttpResponse:
    """Show the months and their reviews. A POST adds a review by the user."""
    form = AuditReviewForm(request.POST) if request.method == "POST" else None
    if form is not None and form.is_valid() and _save_review(request, form):
        return redirect("audit:reviews")
    by_month = AuditReview.objects.by_month(SHOWN_MONTHS * 20)
    months = [
        _month_context(first, by_month.get(first, []), request, form) for first in _review_months()
    ]
    context = {"months": months, "form": form}
    return render(request, "audit/reviews.html", context, status=422 if form else 200)


def _save_review(request: HttpRequest, form: AuditReviewForm) -> bool:
    month, note = form.cleaned_data["month"], form.cleaned_data["note"].strip()
    try:
        with transaction.atomic(durable=True):
            AuditReview.objects.create(month=month, by=staff_user(request), note=note)
            record_action(request, "audit review", [f"{month:%Y-%m}"], [])
    except IntegrityError:
        form.add_error(None, gettext("You already signed off this month."))
        return False
    messages.success(
        request, gettext("%(month)s is signed off.") % {"month": month_and_year(month)}
    )
    return True


def _review_months() -> list[date]:
    """Return the first days of all complete months since the first entry, newest first."""
    begun = AuditEntry.objects.begun_at()
    months: list[date] = []
    month = timezone.localdate().replace(day=1)
    first = timezone.localtime(begun).date().replace(day=1) if begun else month
    while len(months) < SHOWN_MONTHS and month > first:
        month = (month - timedelta(days=1)).replace(day=1)
        months.append(month)
    return months


def _month_context(
    first: date,
    month_reviews: list[AuditReview],
    request: HttpRequest,
    form: AuditReviewForm | None,
) -> dict[str, object]:
    last = (first + timedelta(days=31)).replace(day=1) - timedelta(days=1)
    key = f"{first:%Y-%m}"
    typed = form is not None and form.data.get("month") == key
    return {
        "key": key,
        "first": first,
        "range": f"since={first}&until={last}",
        "reviews": month_reviews,
        "mine": any(review.by_id == request.user.pk for review in month_reviews),
        "form": form if typed else AuditReviewForm(initial={"month": key}, auto_id=f"{key}_%s"),
        "open": typed,
    }
