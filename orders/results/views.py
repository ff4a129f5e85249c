"""The review pages: the queue with an open report, its actions, quality, and trends."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar, cast
from uuid import UUID

from csp.constants import SELF
from csp.decorators import csp_update
from django import forms
from django.contrib import messages
from django.core.exceptions import BadRequest, PermissionDenied
from django.db import transaction
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils import timezone
from django.utils.http import url_has_allowed_host_and_scheme
from django.utils.translation import gettext
from django.views.decorators.http import require_POST, require_safe

from backoffice.accounts.access import may, requires, staff_user
from backoffice.audit.recording import (
    record_action,
    record_change,
    record_entry,
    record_list,
    record_view,
)
from backoffice.sync.lookups import schedule_lookups
from labs.models import Lab
from orders.models import Order
from orders.models.review import Delegation, ResultVersion, Review, Signature
from orders.results import critical_calls, sign_off, unreadable_versions
from orders.results.filters import review_queue
from orders.results.forms import CallForm, DelegateForm, SignForm
from orders.results.history import marker_values
from orders.results.page_context import (
    QueueContext,
    difference_between,
    queue_context,
    report_context,
    undoable_signature,
)
from orders.results.quality import (
    causes_by_frequency,
    month_bounds,
    quality_lines,
    recent_months,
)
from orders.results.queue import next_in_queue
from patients.models import Demographics, Patient

T = TypeVar("T")
ViewFunction = TypeVar("ViewFunction", bound=Callable[..., HttpResponse])


def allow_document_frame(view: ViewFunction) -> ViewFunction:
    """Allow the page to show the lab's document in a frame."""
    return cast(ViewFunction, csp_update({"frame-src": [SELF]})(view))


@requires("results.view")
@require_safe
@allow_document_frame
def first_of_queue(request: HttpRequest) -> HttpResponse:
    """Show the queue with its first report open."""
    queue_data = queue_context(request)
    if queue_data["items"]:
        return _page(request, queue_data["items"][0].review, queue_data=queue_data)
    context = {**queue_data, "undo": undoable_signature(request)}
    record_list(request, "result", [], [])
    return render(request, "results/empty.html", context)


@requires("results.view")
@require_safe
@allow_document_frame
def report(request: HttpRequest, order_id: UUID) -> HttpResponse:
    """Show one report with the queue beside it."""
    return _page(request, get_object_or_404(Review, pk=order_id))


@requires("results.view")
@require_POST
def read_again(request: HttpRequest, order_id: UUID) -> HttpResponse:
    """Ask the service again for an unreadable record: a result, its order, or a patient."""
    what = request.POST.get("what", unreadable_versions.RESULT)
    if what not in unreadable_versions.LOOKUPS:
        raise BadRequest(gettext("This record does not exist."))
    patient: UUID | None
    if what == unreadable_versions.PATIENT:
        patient = get_object_or_404(Patient.objects.only("pk"), pk=order_id).pk
    else:
        patient = get_object_or_404(Order.objects.only("pk", "user_id"), pk=order_id).user_id
    for kind in unreadable_versions.LOOKUPS[what]:
        schedule_lookups(kind, [order_id])
    record_entry(request, "change", f"{what}-check", ids=[order_id], patients=[patient])
    messages.success(
        request,
        gettext("Checking with the service again. The notice disappears once it can be read."),
    )
    back = request.POST.get("next", "")
    if back.startswith("/") and url_has_allowed_host_and_scheme(back, None):
        return redirect(back)
    if what == unreadable_versions.PATIENT:
        return redirect("patients:detail", order_id)
    return redirect("orders:detail", order_id)


def _page(
    request: HttpRequest,
    review: Review,
    status: int = 200,
    problem: sign_off.CannotSign | None = None,
    queue_data: QueueContext | None = None,
    **bound_forms: forms.Form,
) -> HttpResponse:
    queue_data = queue_data or queue_context(request)
    before, following = _neighbors(queue_data, review)
    record_view(request, "result", [review.pk], [review.user_id])
    others = [item.review for item in queue_data["items"] if item.review != review]
    if others:
        record_list(
            request, "result", [other.pk for other in others], [other.user_id for other in others]
        )
    context = {
        **queue_data,
        **report_context(request, review, **bound_forms),
        "following": following,
        "before": before,
        "problem": problem,
        "undo": undoable_signature(request),
        "now": timezone.now(),
    }
    return render(request, "results/report.html", context, status=status)


def _neighbors(queue_data: QueueContext, review: Review) -> tuple[Review | None, Review | None]:
    """Return the review before this one, if it is shown, and the review after it."""
    reviews = [item.review for item in queue_data["items"]]
    place = next((n for n, queued in enumerate(reviews) if queued.pk == review.pk), None)
    before = reviews[place - 1] if place else None
    if place is not None and place + 1 < len(reviews):
        return before, reviews[place + 1]
    return before, next_in_queue(queue_data["queue"].qs, review)


def _run_and_record(
    request: HttpRequest, review: Review, kind: str, act: Callable[[], T], reason: str = ""
) -> T:
    """Run `act` and record the change in the audit log, in one transaction."""
    with transaction.atomic(durable=True):
        before = _review_state(review.pk)
        record = act()
        record_change(
            request,
            kind,
            [review.pk],
            before=before,
            after=_review_state(review.pk),
            patients=[review.user_id],
            reason=reason,
        )
    return record


def _review_state(order_id: UUID) -> dict[str, object]:
    """Return the versions that were signed, acknowledged and called about; -1 for none."""
    columns = ("version", "signed", "seen", "acknowledged", "called")
    confirmed = Signature.objects.filter(order_id=order_id, is_identity_confirmed=True)
    state = Review.objects.filter(pk=order_id).values(*columns).first() or {}
    return {**state, "identity_confirmed": confirmed.count()}


def _address(request: HttpRequest, order_id: UUID | None, **more: object) -> str:
    query = request.GET.copy()
    query.pop("signed", None)
    for name, value in more.items():
        query[name] = str(value)
    place = reverse("reviewing:report", args=[order_id]) if order_id else reverse("reviewing:queue")
    return f"{place}?{query.urlencode()}" if query else place


@requires("results.view")
@require_POST
@allow_document_frame
def sign(request: HttpRequest, order_id: UUID) -> HttpResponse:
    """Sign the shown version, or acknowledge a partial one, and open the next report."""
    review = get_object_or_404(Review, pk=order_id)
    user = staff_user(request)
    form = SignForm(request.POST)
    if not form.is_valid():
        return _page(request, review, 422, sign_form=form)
    values = form.cleaned_data
    try:
        signature = _run_and_record(
            request,
            review,
            "sign result",
            lambda: sign_off.sign(
                review.pk,
                values["version"],
                user,
                note=values["note"],
                tells=values["tells"],
                is_identity_confirmed=values["is_identity_confirmed"],
            ),
        )
    except sign_off.NotAllowed as error:
        raise PermissionDenied from error
    except sign_off.CannotSign as error:
        review.refresh_from_db()
        # Keep the input, but sign the version that the page now shows.
        rebound = SignForm({**request.POST.dict(), "version": review.version})
        return _page(request, review, 409, problem=error, sign_form=rebound)
    following = next_in_queue(review_queue(request.GET, user).qs, review)
    return redirect(_address(request, following.pk if following else None, signed=signature.pk))


@requires("results.view")
@require_POST
@allow_document_frame
def undo(request: HttpRequest, signature_id: int) -> HttpResponse:
    """Undo the signature just made and open its report again."""
    user = staff_user(request)
    signature = get_object_or_404(Signature, pk=signature_id)
    review = get_object_or_404(Review, pk=signature.order_id)
    try:
        _run_and_record(
            request, review, "undo signature", lambda: sign_off.undo(signature_id, user)
        )
    except sign_off.UndoExpired as error:
        review.refresh_from_db()
        return _page(request, review, 409, problem=error)
    return redirect(_address(request, review.pk))


@requires("results.view", "results.acknowledge")
@require_POST
@allow_document_frame
def acknowledge(request: HttpRequest, order_id: UUID) -> HttpResponse:
    """Acknowledge the critical values of a result."""
    review = get_object_or_404(Review, pk=order_id)
    user = staff_user(request)
    form = SignForm(request.POST)
    if not form.is_valid():
        return _page(request, review, 422)
    version = form.cleaned_data["version"]
    try:
        _run_and_record(
            request,
            review,
            "acknowledge critical",
            lambda: critical_calls.acknowledge(review, version, user),
        )
    except sign_off.ResultChanged as error:
        review.refresh_from_db()
        return _page(request, review, 409, problem=error)
    return redirect(_address(request, review.pk) + "#call")


@requires("results.view", "results.acknowledge")
@require_POST
@allow_document_frame
def call(request: HttpRequest, order_id: UUID) -> HttpResponse:
    """Record a call about critical values, made or tried."""
    review = get_object_or_404(Review, pk=order_id)
    user = staff_user(request)
    form = CallForm(request.POST)
    if not form.is_valid():
        return _page(request, review, 422, call_form=form)
    values = dict(form.cleaned_data)
    version = values.pop("version")
    try:
        _run_and_record(
            request,
            review,
            "critical call",
            lambda: critical_calls.record_call(review, version, user, **values),
        )
    except sign_off.ResultChanged as error:
        review.refresh_from_db()
        rebound = CallForm({**request.POST.dict(), "version": review.version})
        return _page(request, review, 409, problem=error, call_form=rebound)
    return redirect(_address(request, review.pk) + "#call")


@requires("results.view")
@require_safe
def version(request: HttpRequest, order_id: UUID, number: int) -> HttpResponse:
    """Show an earlier version of a result, and how it differs from the newest."""
    review = get_object_or_404(Review, pk=order_id)
    shown_version = get_object_or_404(ResultVersion, order_id=order_id, number=number)
    record_view(request, "result", [review.pk], [review.user_id])
    context = {
        "review": review,
        "order": Order.objects.with_list_columns().filter(pk=order_id).first(),
        "version": shown_version,
        "difference": difference_between(order_id, number, review.version),
        "by_name": may(request.user, "patients.view"),
    }
    return render(request, "results/version.html", context)


@requires("results.view", "results.sign")
@require_POST
@allow_document_frame
def delegate(request: HttpRequest, order_id: UUID) -> HttpResponse:
    """Delegate to a colleague: this result, or every normal final one for some days."""
    review = get_object_or_404(Review, pk=order_id)
    user = staff_user(request)
    form = DelegateForm(request.POST)
    if not form.is_valid():
        return _page(request, review, 422, delegate_form=form)
    values = form.cleaned_data
    row = Delegation(
        by=user,
        to=values["to"],
        order_id=review.pk if values["what"] == "this" else None,
        until=form.until,
    )
    _run_and_record(request, review, "delegate signing", lambda: row.save(force_insert=True))
    return redirect(_address(request, review.pk))


@requires("results.view", "results.sign")
@require_POST
def end_delegation(request: HttpRequest, delegation_id: int) -> HttpResponse:
    """End one of the user's own delegations."""
    row = get_object_or_404(Delegation, pk=delegation_id, by=request.user.pk)
    with transaction.atomic(durable=True):
        Delegation.objects.filter(pk=row.pk, ended_at=None).update(ended_at=timezone.now())
        record_action(request, "end delegation", [row.pk], [])
    return redirect(_address(request, None))


@requires("results.view")
@require_safe
def quality(request: HttpRequest) -> HttpResponse:
    """Show the figures of the orders of one month, without names."""
    months = recent_months(timezone.localdate())
    chosen = request.GET.get("month", "")
    month = next((month for month in months if f"{month:%Y-%m}" == chosen), months[0])
    start, end = month_bounds(month)
    lines = quality_lines(start, end)
    causes = causes_by_frequency(lines)
    record_list(request, "result statistics", [], [])
    context = {
        "months": months,
        "month": month,
        "lines": [(line, [line.causes.get(cause, 0) for cause in causes]) for line in lines],
        "causes": causes,
        "totals": [sum(line.causes.get(cause, 0) for line in lines) for cause in causes],
        "failed": sum(line.failed for line in lines),
        "results": sum(line.results for line in lines),
    }
    return render(request, "results/quality.html", context)


@requires("results.view")
@require_safe
def trend(request: HttpRequest, patient_id: UUID, key: str) -> HttpResponse:
    """Show every value of a marker as a chart and as a table."""
    values = marker_values(patient_id, key)
    if not values:
        raise Http404
    record_view(request, "result", {value.order_id for value in values}, [patient_id])
    by_name = may(request.user, "patients.view")
    numbers = [value for value in values if value.number is not None]
    labs = Lab.names()
    unit = numbers[-1].unit if numbers else ""
    context = {
        "values": values,
        "rows": [(value, labs.get(value.lab, value.lab)) for value in reversed(values)],
        "newest": values[-1],
        "unit": unit,
        "plotted": [value for value in numbers if value.has_unit(unit)],
        "other_units": sorted(
            {value.unit or gettext("no unit") for value in numbers if not value.has_unit(unit)}
        ),
        "person": Demographics.objects.filter(pk=patient_id).defer("record").first(),
        "patient_id": patient_id,
        "by_name": by_name,
    }
    return render(request, "results/trend.html", context)
