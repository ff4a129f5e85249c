"""Pages of print jobs: choose documents, show progress, download the file, list omissions."""

from __future__ import annotations

from typing import Any, Final
from uuid import UUID

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse, QueryDict
from django.shortcuts import redirect, render
from django.utils import timezone
from django.views.decorators.http import require_POST, require_safe

from backoffice.accounts.access import may, requires
from backoffice.audit.recording import record_list
from backoffice.core.encryption.encrypted_fields import is_unreadable
from backoffice.core.urls import build_query
from backoffice.outbox import enqueueing
from backoffice.pages.lists.definition import staff_user
from backoffice.pages.lists.views.saved_views import selected_keys, selected_rows
from orders.documents import printing
from orders.documents.forms import PrintForm
from orders.documents.kinds import (
    DEFAULT_LABELS,
    KINDS,
    ORDER_COLUMNS,
    DocumentFacts,
    DocumentKind,
    LabelOptions,
    document_kinds_for,
    load_document_facts,
)
from orders.documents.views.documents import PERMISSIONS, pdf_response, record_opening
from orders.models import Order
from orders.models.print_job import PrintFile, PrintJob, PrintPart
from orders.order_list.definition import ORDER_LIST

SHOWN: Final = 300
"""Most left-out documents that the page of a job lists."""
LATEST: Final = 20
DEFAULT_KINDS: Final = ("requisition",)
CANNOT_READ: Final = "These filters can no longer be read. Correct them first."
NOTHING_SELECTED: Final = "Select orders first."
DELETED: Final = "This file was deleted 24 hours after it was made. Select the orders again."

NOT_AGAIN: Final = "Nothing that was left out is available now. You can select the orders again."


@requires(*PERMISSIONS)
@require_POST
def choose(request: HttpRequest) -> HttpResponse:
    """Choose the documents of the selected orders, and start to fetch them."""
    user = staff_user(request)
    back = request.POST.get("here", "").replace("\x00", "")[:4_000]
    is_submitted = "go" in request.POST
    if is_submitted:
        keys = selected_keys(request)
    else:
        filters, rows = selected_rows(request, ORDER_LIST)
        if filters is None:
            messages.error(request, CANNOT_READ)
            return redirect(f"{ORDER_LIST.url()}?{back}")
        # In the order of the list. One more than the limit shows that there are too many.
        page = ORDER_LIST.page(
            rows, filters, printing.MAX_ORDERS + 1, {"after": None, "before": None}
        )
        keys = [row.pk for row in page.rows]
    known = Order.objects.only(*ORDER_COLUMNS).in_bulk(keys)
    orders = [known[key] for key in keys if key in known]
    if not orders:
        messages.error(request, NOTHING_SELECTED)
        return redirect(f"{ORDER_LIST.url()}?{back}")
    offered = document_kinds_for(user)
    too_many = len(orders) > printing.MAX_ORDERS
    facts = [] if too_many else load_document_facts(orders)
    form = PrintForm(
        request.POST if is_submitted else None,
        kinds=offered,
        facts=facts,
        initial=None if is_submitted else {"kinds": DEFAULT_KINDS, "labels": DEFAULT_LABELS},
    )
    if is_submitted and form.is_valid():
        given = form.cleaned_data
        made = printing.start(
            request,
            orders,
            [kind for kind in offered if kind.slug in given["kinds"]],
            form_id=given["form_id"],
            options=LabelOptions(given["labels"] or DEFAULT_LABELS, given["collected_at"]),
            new_sheet=given["new_sheet"],
            query={name: values for name, values in QueryDict(back).lists() if name != "run"},
        )
        enqueueing.wake_worker(printing.TASK, printing.QUEUE)
        return redirect("documents:job", made.pk)
    context = {
        "form": form,
        "orders": orders,
        "too_many": too_many,
        "most": printing.MAX_ORDERS,
        "choices": [] if too_many else _choices(offered, facts, form),
        "here": back,
        "address": f"{ORDER_LIST.url()}?{back}",
    }
    return render(
        request, "orders/documents/choose.html", context, status=422 if is_submitted else 200
    )


@requires(*PERMISSIONS)
@require_safe
def jobs(request: HttpRequest) -> HttpResponse:
    """Show the latest print jobs of the current user."""
    found = PrintJob.objects.filter(asked_by=staff_user(request)).order_by("-asked_at")[:LATEST]
    context = {"jobs": [(one, _labels(one)) for one in found]}
    return render(request, "orders/documents/jobs.html", context)


@requires(*PERMISSIONS)
@require_safe
def job(request: HttpRequest, job_id: UUID) -> HttpResponse:
    """Show one job: its progress, its file, and what was left out and why."""
    found = _job(request, job_id)
    parts = PrintPart.objects.filter(job=found, state=PrintPart.State.FAILED).order_by("position")
    # A canceled job has no file, so nothing is left out of it.
    is_canceled = found.state == PrintJob.State.CANCELED
    left_out = [] if is_canceled else list(parts.defer("content")[:SHOWN])
    has_ended = found.state in (PrintJob.State.DONE, PrintJob.State.FAILED)
    names = ORDER_LIST.labels_and_urls({part.order_id for part in left_out}, request.user)
    record_list(
        request,
        "order",
        list(dict.fromkeys(part.order_id for part in left_out)),
        list(dict.fromkeys(part.patient_id for part in left_out)),
    )
    context = {
        "job": found,
        "labels": _labels(found),
        "again": len(printing.retryable_parts(found)) if has_ended and found.failed else 0,
        "left_out": [
            (part, KINDS[part.kind].label, *names.get(part.order_id, ("Order", "")))
            for part in left_out
        ],
        "back": f"{ORDER_LIST.url()}?{build_query(found.query).urlencode()}",
        "expired": DELETED if found.state == PrintJob.State.EXPIRED else "",
    }
    return render(request, "orders/documents/job.html", context)


@requires(*PERMISSIONS)
@require_safe
def progress(request: HttpRequest, job_id: UUID) -> HttpResponse:
    """Show the progress of a job: a fragment. The page reloads when the job has ended."""
    found = _job(request, job_id)
    answer = render(request, "orders/documents/_progress.html", {"job": found})
    if not found.is_open:
        answer.headers["HX-Refresh"] = "true"
    return answer


@requires(*PERMISSIONS)
@require_safe
def file(request: HttpRequest, job_id: UUID) -> HttpResponse:
    """Return the merged PDF, to print, or to save with `?save`."""
    found = _job(request, job_id)
    kinds = [KINDS[slug] for slug in found.kinds]
    if not all(may(request.user, *kind.needs) for kind in kinds):
        raise Http404
    over = found.expires_at is None or found.expires_at <= timezone.now()
    made = None if over or not found.has_file else PrintFile.objects.filter(job=found).first()
    if made is None or is_unreadable(made, "content"):
        messages.error(request, DELETED if over else "There is no file.")
        return redirect("documents:job", found.pk)
    parts = PrintPart.objects.filter(job=found, state=PrintPart.State.DONE).defer("content")
    for kind in kinds:
        if keys := [part.order_id for part in parts if part.kind == kind.slug]:
            orders = Order.objects.only(*ORDER_COLUMNS).filter(pk__in=keys)
            record_opening(request, kind, list(orders), save="save" in request.GET)
    name = f"documents-{str(found.pk)[:8]}.pdf"
    return pdf_response(bytes(made.content), name, save="save" in request.GET)


@requires(*PERMISSIONS)
@require_POST
def cancel_job(request: HttpRequest, job_id: UUID) -> HttpResponse:
    """Stop a job and delete its fetched contents."""
    found = _job(request, job_id)
    if printing.cancel(found):
        messages.success(request, "Canceled. What was fetched is deleted.")
    else:
        messages.error(request, "The job had already ended.")
    return redirect("documents:job", found.pk)


@requires(*PERMISSIONS)
@require_POST
def retry_job(request: HttpRequest, job_id: UUID) -> HttpResponse:
    """Fetch again the documents that were left out."""
    found = _job(request, job_id)
    if printing.retry(found):
        enqueueing.wake_worker(printing.TASK, printing.QUEUE)
    else:
        messages.error(request, NOT_AGAIN)
    return redirect("documents:job", found.pk)


def _job(request: HttpRequest, job_id: UUID) -> PrintJob:
    """Return the job. Only the person who requested it may see it."""
    found = PrintJob.objects.filter(pk=job_id, asked_by=staff_user(request)).first()
    if found is None:
        raise Http404
    return found


def _labels(job: PrintJob) -> list[str]:
    return [KINDS[slug].label for slug in job.kinds if slug in KINDS]


def _choices(
    offered: list[DocumentKind], facts: list[DocumentFacts], form: PrintForm
) -> list[dict[str, Any]]:
    """Return each kind with the number of orders that have one, and whether its box is checked."""
    ticked = form["kinds"].value() or ()
    return [
        {
            "kind": kind,
            "available": sum(not kind.unavailable_reason(one) for one in facts),
            "ticked": kind.slug in ticked,
        }
        for kind in offered
    ]
