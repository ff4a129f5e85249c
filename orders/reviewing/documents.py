"""The lab's own PDF of a result, streamed through: it is nowhere kept."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager
from typing import Any, Final
from uuid import UUID

from csp.decorators import csp_exempt
from django.http import HttpRequest, StreamingHttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import get_object_or_404, render
from django.views.decorators.http import require_safe

from backoffice import audit
from backoffice.access import requires
from backoffice.remote import service
from backoffice.service import errors
from orders.models import Order

POLICY: Final = "sandbox; default-src 'none'; frame-ancestors 'self'"
NO_DOCUMENT: Final = (
    "There is no document of this result. Some labs issue none while a result is partial."
)
LATER: Final = "The service does not give the document just now. Try again in a minute."


@requires("results.view", "patients.view")
@require_safe
@csp_exempt()  # type: ignore[arg-type]
def result_pdf(request: HttpRequest, order_id: UUID) -> HttpResponseBase:
    """Beside the report, or to save with `?save`. The patient's name stands in it."""
    order = get_object_or_404(Order.objects.only("id", "user_id"), pk=order_id)
    save = "save" in request.GET
    audit.record(
        request,
        "export" if save else "view",
        "result document",
        ids=[order.pk],
        patients=[order.user_id],
    )
    opened = service().orders.result_pdf(order.pk)
    try:
        document = opened.__enter__()
    except errors.Missing:
        return _none(request, NO_DOCUMENT, 404)
    except errors.ServiceError:
        return _none(request, LATER, 503)
    response = StreamingHttpResponse(_streamed(opened, document), content_type="application/pdf")
    how = "attachment" if save else "inline"
    if document.length is not None:
        response.headers["Content-Length"] = str(document.length)
    response.headers["Content-Disposition"] = f'{how}; filename="result-{str(order.pk)[:8]}.pdf"'
    return _framed(response)


def _framed(response: HttpResponseBase) -> HttpResponseBase:
    """Shown beside the report on our own page, and run nowhere."""
    response.headers["X-Content-Type-Options"] = "nosniff"
    response.headers["Content-Security-Policy"] = POLICY
    response.headers["X-Frame-Options"] = "SAMEORIGIN"
    response.headers["Cross-Origin-Resource-Policy"] = "same-origin"
    return response


def _streamed(opened: AbstractContextManager[Any], chunks: Iterable[bytes]) -> Iterator[bytes]:
    try:
        yield from chunks
    finally:
        opened.__exit__(None, None, None)


def _none(request: HttpRequest, words: str, status: int) -> HttpResponseBase:
    answer = render(request, "reviewing/no_document.html", {"words": words}, status=status)
    answer.headers["X-Frame-Options"] = "SAMEORIGIN"
    answer.headers["Content-Security-Policy"] = (
        "default-src 'none'; style-src 'self'; frame-ancestors 'self'"
    )
    return answer
