"""What a page of the review shows: the queue at the side, one report, and what may be done."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final
from uuid import UUID

from django.http import HttpRequest
from django.utils import timezone

from backoffice.core.access import may
from backoffice.core.prepared_queries import by_key, where
from backoffice.models import AS_RECEIVED, User
from backoffice.templatetags.ages import years
from orders.local_time import place_of
from orders.models import Order, Result
from orders.models.order_queryset import LIST_COLUMNS
from orders.results.completeness import Completeness, completeness_of
from orders.results.differences import Difference, difference
from orders.results.forms import (
    LONGEST,
    SHOWN,
    CallForm,
    DelegateForm,
    QueueFilters,
    SignForm,
)
from orders.results.identity import check_identity
from orders.results.models import (
    CORRECTED,
    PARTIAL,
    SEEN,
    SIGNED,
    CriticalAcknowledgement,
    CriticalCall,
    Delegation,
    ResultVersion,
    Review,
    Signature,
)
from orders.results.queue import counts, in_order, queue
from orders.results.report import report_of
from orders.results.sign_off import UNDO_SECONDS, delegation, delegation_obstacles, standing
from patients.models import Demographics

NEXT_TRY: Final = timedelta(minutes=15)


@dataclass(frozen=True, slots=True)
class Item:
    """One row of the queue."""

    review: Review
    order: Order | None
    completeness: Completeness | None


def items_of(reviews: list[Review]) -> list[Item]:
    """With names and rings: three queries for all of them."""
    keys = [row.pk for row in reviews]
    orders = by_key(Order, keys, LIST_COLUMNS)
    rings = completeness_of(keys)
    return [Item(row, orders.get(row.pk), rings.get(row.pk)) for row in reviews]


def queue_beside(request: HttpRequest, filters: QueueFilters) -> dict[str, Any]:
    assert isinstance(request.user, User)
    rows = queue(filters.chosen, request.user)
    found = list(in_order(rows)[: filters.rows + 1])
    unsigned, seen = counts()
    kept = request.GET.copy()
    for name in list(kept):
        if name not in filters.fields:
            del kept[name]
    more, longer = found[filters.rows :], kept.copy()
    longer["shown"] = str(min(filters.rows + SHOWN, LONGEST))
    return {
        "filters": filters,
        "items": items_of(found[: filters.rows]),
        "more": bool(more),
        "longer": f"?{longer.urlencode()}#waits-{more[0].pk}"
        if more and filters.rows < LONGEST
        else "",
        "unsigned": unsigned,
        "seen": seen,
        "kept": f"?{kept.urlencode()}" if kept else "",
        "by_name": may(request.user, "patients.view"),
        "narrowed": filters.narrowed,
    }


def one_report(request: HttpRequest, review: Review, **forms: Any) -> dict[str, Any]:
    """Everything about one review. `forms` replace the empty ones: as they were left."""
    user = request.user
    assert isinstance(user, User)
    # Somebody is called about a critical value: the record says at what number, and costs a read.
    calling = review.is_critical
    if calling:
        order = Order.objects.filter(pk=review.pk).select_related("user").first()
    else:
        order = by_key(Order, [review.pk], but=AS_RECEIVED).get(review.pk)
    result = by_key(Result, [review.pk]).get(review.pk)
    by_number = "order_id = %s ORDER BY number DESC"
    versions = where(ResultVersion, by_number, [review.pk], but=("content",))
    signatures = list(
        Signature.objects.filter(order_id=review.pk)
        .select_related("by", "delegated_by")
        .order_by("-at")
    )
    counted = standing(signatures)
    now = timezone.now()
    delegated = None if may(user, "results.sign") else delegation(user, review)
    report = report_of(order, result, review.pk)
    person = Demographics.objects.defer("record").filter(pk=review.user_id).first()
    return {
        "identity": check_identity(result, order, person),
        "review": review,
        "order": order,
        "result": result,
        "report": report,
        "number": order.said("patient_details").get("phone_number") if calling and order else None,
        "zone": place_of(order).shown if calling and order else "",
        "age": _age(order, result),
        "completeness": completeness_of([review.pk]).get(review.pk),
        "versions": versions,
        "difference": _difference(review, versions, counted),
        "signatures": signatures,
        "signed": _of_kind(counted, SIGNED, review.version),
        "acknowledged_partial": _of_kind(counted, SEEN, review.version),
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
                "next_attempt_at": timezone.localtime(now + NEXT_TRY),
            }
        ),
        "delegate_form": DelegateForm(),
        **forms,
    }


def _age(order: Order | None, result: Result | None) -> str:
    """The age the lab used for the ranges; ours where it gives none."""
    told = result.said("metadata").get("age") if result else None
    if isinstance(told, str | int | float) and str(told).strip():
        return str(told).strip()
    return (
        str(years(order.patient_dob, timezone.localdate())) if order and order.patient_dob else ""
    )


def _of_kind(signatures: list[Signature], kind: str, version: int) -> Signature | None:
    return next((s for s in signatures if s.kind == kind and s.version == version), None)


def _difference(
    review: Review, versions: list[ResultVersion], signatures: list[Signature]
) -> Difference | None:
    """For a corrected result: against what was signed last, else against the version before."""
    if review.kind != CORRECTED or len(versions) < 2:
        return None
    signed = [s.version for s in signatures if s.kind == SIGNED and s.version < review.version]
    number = max(signed, default=versions[1].number)
    return difference_between(review.pk, number, review.version)


def difference_between(order_id: UUID, older: int, newer: int) -> Difference | None:
    found = {
        row.number: row
        for row in ResultVersion.objects.filter(order_id=order_id, number__in=[older, newer])
    }
    if len(found) < 2:
        return None
    return difference(found[older], found[newer])


def undoable(request: HttpRequest) -> tuple[Signature, datetime] | None:
    """The signature just made, while it can be taken back, and until when."""
    told = request.GET.get("signed", "")
    if not told.isdigit() or len(told) > 18:
        return None
    since = timezone.now() - timedelta(seconds=UNDO_SECONDS)
    rows = Signature.objects.filter(pk=int(told), by=request.user.pk, at__gt=since, undone=None)
    found = rows.exclude(kind="undone").first()
    return (found, found.at + timedelta(seconds=UNDO_SECONDS)) if found else None
