"""Template context of the review pages: the queue beside a report, the report, possible actions."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final, TypedDict
from uuid import UUID

from django import forms
from django.http import HttpRequest
from django.utils import timezone

from backoffice.accounts.access import may, staff_user
from backoffice.core.prepared_queries import by_key, where
from backoffice.core.time_formats import years
from backoffice.mirror.models import AS_RECEIVED
from orders.local_time import local_clock_of
from orders.models import Order, Result
from orders.models.review import (
    CORRECTED,
    PARTIAL,
    SEEN,
    SIGNED,
    UNDONE,
    CriticalAcknowledgement,
    CriticalCall,
    Delegation,
    ResultVersion,
    Review,
    Signature,
)
from orders.results.completeness import completeness_by_order
from orders.results.differences import VersionDifference, compare_versions
from orders.results.filters import MAX_ROWS, ROWS_STEP, ResultQueueFilterSet, review_queue
from orders.results.forms import CallForm, DelegateForm, SignForm
from orders.results.queue import queue_counts, sort_queue
from orders.results.report import build_report
from orders.results.result_list import ResultRow, result_rows
from orders.results.sign_off import (
    UNDO_SECONDS,
    active_delegation,
    delegation_obstacles,
    valid_signatures,
)
from orders.rules.result_identity import check_identity
from patients.models import Demographics

RETRY_DELAY: Final = timedelta(minutes=15)


class QueueContext(TypedDict):
    """The context of the queue beside a report.

    `longer` is the URL with more rows, if there are `more`. `unsigned` and `seen` are the counts of
    the whole queue.
    """

    queue: ResultQueueFilterSet
    items: list[ResultRow]
    more: bool
    longer: str
    unsigned: int
    seen: int
    filter_query: str
    by_name: bool


def queue_context(request: HttpRequest) -> QueueContext:
    user = staff_user(request)
    queue = review_queue(request.GET, user)
    limit = queue.row_limit
    reviews = list(sort_queue(queue.qs)[: limit + 1])
    unsigned, partial = queue_counts()
    query = request.GET.copy()
    for name in list(query):
        if name not in queue.form.fields:
            del query[name]
    more, longer = reviews[limit:], query.copy()
    longer["shown"] = str(min(limit + ROWS_STEP, MAX_ROWS))
    return {
        "queue": queue,
        "items": result_rows(reviews[:limit]),
        "more": bool(more),
        "longer": f"?{longer.urlencode()}#waits-{more[0].pk}" if more and limit < MAX_ROWS else "",
        "unsigned": unsigned,
        "seen": partial,
        "filter_query": f"?{query.urlencode()}" if query else "",
        "by_name": may(user, "patients.view"),
    }


def report_context(
    request: HttpRequest, review: Review, **bound_forms: forms.Form
) -> dict[str, object]:
    """Return everything about one review. `bound_forms` replace the empty forms."""
    user = staff_user(request)
    # Only a critical result needs the phone number. It is in the raw record of the order.
    is_call_needed = review.is_critical
    if is_call_needed:
        order = Order.objects.filter(pk=review.pk).select_related("user").first()
    else:
        order = by_key(Order, [review.pk], exclude=AS_RECEIVED).get(review.pk)
    result = by_key(Result, [review.pk]).get(review.pk)
    by_number = "order_id = %s ORDER BY number DESC"
    versions = where(ResultVersion, by_number, [review.pk], exclude=("content",))
    signatures = list(
        Signature.objects.filter(order_id=review.pk)
        .select_related("by", "delegated_by")
        .order_by("-at")
    )
    valid = valid_signatures(signatures)
    now = timezone.now()
    delegated = None if may(user, "results.sign") else active_delegation(user, review)
    report = build_report(order, result, review.pk)
    person = Demographics.objects.defer("record").filter(pk=review.user_id).first()
    return {
        "identity": check_identity(result, order, person),
        "review": review,
        "order": order,
        "result": result,
        "report": report,
        "number": order.record_at("patient_details").get("phone_number")
        if is_call_needed and order
        else None,
        "zone": local_clock_of(order).known_zone if is_call_needed and order else "",
        "age": _age(order, result),
        "completeness": completeness_by_order([review.pk]).get(review.pk),
        "versions": versions,
        "difference": _difference(review, versions, valid),
        "signatures": signatures,
        "signed": _signature_of_kind(valid, SIGNED, review.version),
        "acknowledged_partial": _signature_of_kind(valid, SEEN, review.version),
        "acknowledgements": list(
            CriticalAcknowledgement.objects.filter(order_id=review.pk)
            .select_related("by")
            .order_by("at")
        ),
        "calls": list(
            CriticalCall.objects.filter(order_id=review.pk).select_related("by").order_by("at")
        ),
        "is_partial": review.kind == PARTIAL,
        "may_sign": may(user, "results.sign") or delegated is not None,
        "delegated": delegated,
        "delegation_obstacles": [] if may(user, "results.sign") else delegation_obstacles(review),
        "may_acknowledge": may(user, "results.acknowledge"),
        "delegations": list(
            Delegation.objects.filter(by=user, until__gt=now, ended_at=None).select_related("to")
        )
        if may(user, "results.sign")
        else [],
        "sign_form": SignForm(initial={"version": review.version}),
        "call_form": CallForm(
            initial={
                "version": review.version,
                "next_attempt_at": timezone.localtime(now + RETRY_DELAY),
            }
        ),
        "delegate_form": DelegateForm(),
        **bound_forms,
    }


def _age(order: Order | None, result: Result | None) -> str:
    """Return the age that the lab used for the ranges, else the age by birth date."""
    printed = result.record_at("metadata").get("age") if result else None
    if isinstance(printed, str | int | float) and str(printed).strip():
        return str(printed).strip()
    return (
        str(years(order.patient_dob, timezone.localdate())) if order and order.patient_dob else ""
    )


def _signature_of_kind(signatures: list[Signature], kind: str, version: int) -> Signature | None:
    return next(
        (
            signature
            for signature in signatures
            if signature.kind == kind and signature.version == version
        ),
        None,
    )


def _difference(
    review: Review, versions: list[ResultVersion], signatures: list[Signature]
) -> VersionDifference | None:
    """Compare a corrected result with the last signed version, else with the version before."""
    if review.kind != CORRECTED or len(versions) < 2:
        return None
    signed = [signature.version for signature in signatures if signature.kind == SIGNED]
    earlier = [version for version in signed if version < review.version]
    number = max(earlier, default=versions[1].number)
    return difference_between(review.pk, number, review.version)


def difference_between(order_id: UUID, older: int, newer: int) -> VersionDifference | None:
    rows = ResultVersion.objects.filter(order_id=order_id, number__in=[older, newer])
    by_number = {version.number: version for version in rows}
    if len(by_number) < 2:
        return None
    return compare_versions(by_number[older], by_number[newer])


def undoable_signature(request: HttpRequest) -> tuple[Signature, datetime] | None:
    """Return the user's latest signature and until when it can be undone; None after that time."""
    signed = request.GET.get("signed", "")
    if not signed.isdigit() or len(signed) > 18:
        return None
    since = timezone.now() - timedelta(seconds=UNDO_SECONDS)
    rows = Signature.objects.filter(pk=int(signed), by=request.user.pk, at__gt=since, undone=None)
    signature = rows.exclude(kind=UNDONE).first()
    return (signature, signature.at + timedelta(seconds=UNDO_SECONDS)) if signature else None
