"""Pages of the documents of one order, and the documents themselves."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from django.contrib.auth.models import AnonymousUser
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, render
from django.views.decorators.http import require_safe

from backoffice.accounts.access import requires
from backoffice.accounts.models import User
from backoffice.audit.recording import record_entry, record_view
from orders.documents.fetching import NoDocument, fetch
from orders.documents.forms import LabelsForm
from orders.documents.kinds import (
    ORDER_COLUMNS,
    DocumentFacts,
    DocumentKind,
    LabelOptions,
    document_kinds_for,
    load_document_facts,
)
from orders.models import Order

# No `sandbox`: browsers do not open a PDF in it. Scripts inside of a PDF have no access to the
# pages.
POLICY: Final = "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'self'"
PERMISSIONS: Final = ("orders.view", "patients.view")


@dataclass(frozen=True, slots=True)
class DocumentLine:
    """One kind of document of an order, on a page. `reason` says why there is none."""

    kind: DocumentKind
    reason: str
    labels: LabelsForm | None = None


def document_lines(facts: DocumentFacts, user: User | AnonymousUser) -> list[DocumentLine]:
    """Return the documents that this user may open; the combined one only for several orders."""
    lines = []
    for kind in document_kinds_for(user):
        if kind.slug != "transaction-result" or facts.transaction_orders > 1:
            reason = kind.unavailable_reason(facts)
            labels = LabelsForm(facts) if kind.is_labels and not reason else None
            lines.append(DocumentLine(kind, reason, labels))
    return lines


@requires(*PERMISSIONS)
@require_safe
def order_documents(request: HttpRequest, order_id: UUID) -> HttpResponse:
    """Show all documents of an order. Lists and cards open this page as a drawer."""
    order = _order(order_id)
    record_view(request, "order", [order.pk], [order.user_id])
    context = {
        "order": order,
        "lines": document_lines(load_document_facts([order])[0], request.user),
    }
    return render(request, "orders/documents/of_order.html", context)


def document_view(kind: DocumentKind) -> Callable[..., HttpResponse]:
    """Return the view of one kind, which requires the permissions of this kind."""

    @requires(*kind.needs)
    @require_safe
    def document(request: HttpRequest, order_id: UUID) -> HttpResponse:
        """Return the document of an order, to read and print, or to save with `?save`.

        With `?beside`, the document is for a frame of another page. If there is none, the page with
        the reason is then as small as possible.
        """
        order = _order(order_id)
        facts = load_document_facts([order])[0]
        labels = None
        if kind.is_labels and not kind.unavailable_reason(facts):
            labels = LabelsForm(facts, request.GET)
            if not labels.is_valid():
                return _explain(request, order, kind, NoDocument(labels.words, 422), labels)
        try:
            pdf = fetch(kind, facts, labels.options() if labels else LabelOptions())
        except NoDocument as error:
            return _explain(request, order, kind, error)
        save = "save" in request.GET
        record_opening(request, kind, [order], save=save, is_beside="beside" in request.GET)
        return pdf_response(pdf.content, f"{kind.slug}-{str(order.pk)[:8]}.pdf", save=save)

    return document


def record_opening(
    request: HttpRequest,
    kind: DocumentKind,
    orders: list[Order],
    *,
    save: bool = False,
    is_beside: bool = False,
) -> None:
    """Record in the audit log who opened documents of this kind.

    Nobody can know whether a document in a window of its own was printed, so it is recorded as
    printed. A document beside a report is recorded as viewed.
    """
    action = "export" if save else "view" if is_beside else "print"
    ids = [order.pk for order in orders]
    patients = [order.user_id for order in orders]
    if kind.slug == "transaction-result":
        keys = {order.order_transaction_id for order in orders}
        other_orders = Order.objects.filter(order_transaction_id__in=keys).exclude(pk__in=ids)
        for order_id, user_id in other_orders.values_list("pk", "user_id"):
            ids.append(order_id)
            patients.append(user_id)
    record_entry(request, action, kind.subject, ids=ids, patients=patients, row_count=len(orders))


def pdf_response(content: bytes, name: str, *, save: bool) -> HttpResponse:
    """Return the response with a document, to show in the browser or to save.

    The file name does not identify the patient.
    """
    response = HttpResponse(content, content_type="application/pdf")
    how = "attachment" if save else "inline"
    response.headers["Content-Disposition"] = f'{how}; filename="{name}"'
    response.headers["X-Content-Type-Options"] = "nosniff"
    response.headers["Content-Security-Policy"] = POLICY
    response.headers["X-Frame-Options"] = "SAMEORIGIN"
    response.headers["Cross-Origin-Resource-Policy"] = "same-origin"
    return response


def _explain(
    request: HttpRequest,
    order: Order,
    kind: DocumentKind,
    error: NoDocument,
    labels: LabelsForm | None = None,
) -> HttpResponse:
    is_beside = "beside" in request.GET
    template = "none_beside" if is_beside else "none"
    context = {
        "order": order,
        "kind": kind,
        "words": error.words,
        "labels": labels,
        "may_try_again": error.status in (502, 503),
    }
    answer = render(request, f"orders/documents/{template}.html", context, status=error.status)
    if is_beside:
        answer.headers["X-Frame-Options"] = "SAMEORIGIN"
        answer.headers["Content-Security-Policy"] = (
            "default-src 'none'; style-src 'self'; frame-ancestors 'self'"
        )
    return answer


def _order(order_id: UUID) -> Order:
    return get_object_or_404(Order.objects.only(*ORDER_COLUMNS), pk=order_id)
