"""Pages of print jobs: choose documents, show progress, download the file, list omissions."""

from __future__ import annotations

from typing import Final
from uuid import UUID

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse, QueryDict
from django.shortcuts import get_object_or_404, redirect, render
from django.utils import timezone
from django.utils.translation import gettext, gettext_noop
from django.views.decorators.http import require_POST, require_safe

from backoffice.accounts.access import may, requires, staff_user
from backoffice.audit.recording import record_list
from backoffice.core.encryption.encrypted_fields import is_unreadable
from backoffice.core.urls import build_query
from backoffice.outbox import enqueueing
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
from orders.order_list.order_list import ORDER_LIST

MAX_SHOWN: Final = 300
"""Most left-out documents that the page of a job lists."""
LATEST: Final = 20
DEFAULT_KINDS: Final = ("requisition",)
CANNOT_READ: Final = gettext_noop("Some filters are not valid. Correct them first.")
NOTHING_SELECTED: Final = gettext_noop("Select orders first.")
DELETED: Final = gettext_noop(
    "This file was deleted 24 hours after it was made. Select the orders again."
)
NOT_AGAIN: Final = gettext_noop(
    "None of the skipped documents is available now. You can select the orders again."
)


@requires(*PERMISSIONS)
@require_POST
def choose(request: HttpRequest) -> HttpResponse:
    """Choose the documents of the selected orders, and start to fetch them."""
    user = staff_user(request)
    back = request.POST.get("here", "").replace("\x00", "")[:4_000]
    is_submitted = "go" in request.POST
    if is_submitted:
        keys = selected_keys(request, ORDER_LIST)
    else:
        filters, rows = selected_rows(request, ORDER_LIST)
        if filters is None:
            messages.error(request, gettext(CANNOT_READ))
            return redirect(f"{ORDER_LIST.url()}?{back}")
        # In the order of the list. One more than the limit shows that there are too many.
        page = ORDER_LIST.page(
            rows, filters, printing.MAX_ORDERS + 1, {"after": None, "before": None}
        )
        keys = [row.pk for row in page.rows]
    order_by_id = Order.objects.only(*ORDER_COLUMNS).in_bulk(keys)
    orders = [order_by_id[key] for key in keys if key in order_by_id]
    if not orders:
        messages.error(request, gettext(NOTHING_SELECTED))
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
        options = form.cleaned_data
        new_job = printing.start(
            request,
            orders,
            [kind for kind in offered if kind.slug in options["kinds"]],
            form_id=options["form_id"],
            options=LabelOptions(options["labels"] or DEFAULT_LABELS, options["collected_at"]),
            new_sheet=options["new_sheet"],
            query={name: values for name, values in QueryDict(back).lists() if name != "run"},
        )
        enqueueing.wake_worker(printing.TASK, printing.QUEUE)
        return redirect("documents:job", new_job.pk)
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
    recent_jobs = PrintJob.objects.filter(asked_by=staff_user(request)).order_by("-asked_at")[
        :LATEST
    ]
    context = {"jobs": [(job, _labels(job)) for job in recent_jobs]}
    return render(request, "orders/documents/jobs.html", context)


@requires(*PERMISSIONS)
@require_safe
def job(request: HttpRequest, job_id: UUID) -> HttpResponse:
    """Show one job: its progress, its file, and what was left out and why."""
    print_job = _job(request, job_id)
    # A canceled job has no file, so nothing is left out of it.
    is_canceled = print_job.state == PrintJob.State.CANCELED
    parts = PrintPart.objects.left_out(print_job).defer("content")
    left_out = [] if is_canceled else list(parts[:MAX_SHOWN])
    has_ended = print_job.state in (PrintJob.State.DONE, PrintJob.State.FAILED)
    names = ORDER_LIST.labels_and_urls({part.order_id for part in left_out}, request.user)
    record_list(
        request,
        "order",
        list(dict.fromkeys(part.order_id for part in left_out)),
        list(dict.fromkeys(part.patient_id for part in left_out)),
    )
    context = {
        "job": print_job,
        "labels": _labels(print_job),
        "again": len(printing.retryable_parts(print_job)) if has_ended and print_job.failed else 0,
        "left_out": [
            (
                part,
                gettext(KINDS[part.kind].label),
                *names.get(str(part.order_id), (gettext("Order"), "")),
            )
            for part in left_out
        ],
        "back": f"{ORDER_LIST.url()}?{build_query(print_job.query).urlencode()}",
        "expired": gettext(DELETED) if print_job.state == PrintJob.State.EXPIRED else "",
    }
    return render(request, "orders/documents/job.html", context)


@requires(*PERMISSIONS)
@require_safe
def progress(request: HttpRequest, job_id: UUID) -> HttpResponse:
    """Show the progress of a job: a fragment. The page reloads when the job has ended."""
    print_job = _job(request, job_id)
    answer = render(request, "orders/documents/_progress.html", {"job": print_job})
    if not print_job.is_open:
        answer.headers["HX-Refresh"] = "true"
    return answer


@requires(*PERMISSIONS)
@require_safe
def file(request: HttpRequest, job_id: UUID) -> HttpResponse:
    """Return the merged PDF, to print, or to save with `?save`."""
    print_job = _job(request, job_id)
    kinds = [KINDS[slug] for slug in print_job.kinds]
    if not all(may(request.user, *kind.needs) for kind in kinds):
        raise Http404
    is_expired = print_job.expires_at is None or print_job.expires_at <= timezone.now()
    has_file = print_job.has_file and not is_expired
    print_file = PrintFile.objects.filter(job=print_job).first() if has_file else None
    if print_file is None or is_unreadable(print_file, "content"):
        messages.error(
            request, gettext(DELETED) if is_expired else gettext("This print job has no file.")
        )
        return redirect("documents:job", print_job.pk)
    parts = list(PrintPart.objects.fetched(print_job).defer("content"))
    for kind in kinds:
        if keys := [part.order_id for part in parts if part.kind == kind.slug]:
            orders = Order.objects.only(*ORDER_COLUMNS).filter(pk__in=keys)
            record_opening(request, kind, list(orders), save="save" in request.GET)
    name = f"documents-{str(print_job.pk)[:8]}.pdf"
    return pdf_response(bytes(print_file.content), name, save="save" in request.GET)


@requires(*PERMISSIONS)
@require_POST
def cancel_job(request: HttpRequest, job_id: UUID) -> HttpResponse:
    """Stop a job and delete its fetched contents."""
    print_job = _job(request, job_id)
    if printing.cancel(print_job):
        messages.success(request, gettext("Print job canceled. Its documents were deleted."))
    else:
        messages.error(request, gettext("This print job has already ended."))
    return redirect("documents:job", print_job.pk)


@requires(*PERMISSIONS)
@require_POST
def retry_job(request: HttpRequest, job_id: UUID) -> HttpResponse:
    """Fetch again the documents that were left out."""
    print_job = _job(request, job_id)
    if printing.retry(print_job):
        enqueueing.wake_worker(printing.TASK, printing.QUEUE)
    else:
        messages.error(request, gettext(NOT_AGAIN))
    return redirect("documents:job", print_job.pk)


def _job(request: HttpRequest, job_id: UUID) -> PrintJob:
    """Return the job. Only the person who requested it may see it."""
    return get_object_or_404(PrintJob, pk=job_id, asked_by=staff_user(request))


def _labels(job: PrintJob) -> list[str]:
    return [gettext(KINDS[slug].label) for slug in job.kinds if slug in KINDS]


def _choices(
    offered: list[DocumentKind], facts: list[DocumentFacts], form: PrintForm
) -> list[dict[str, object]]:
    """Return each kind with the number of orders that have one, and whether its box is checked."""
    checked = form["kinds"].value() or ()
    return [
        {
            "kind": kind,
            "available": sum(not kind.unavailable_reason(fact) for fact in facts),
            "ticked": kind.slug in checked,
        }
        for kind in offered
    ]
