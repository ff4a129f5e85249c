"""The door for deliveries: `POST /webhooks/`."""

from __future__ import annotations

import logging
from collections.abc import Callable

from django.conf import settings
from django.core.handlers.wsgi import WSGIRequest
from django.db import transaction
from django.http import HttpResponse
from django.views.decorators.csrf import csrf_exempt

from backoffice.access import public
from webhooks import receiving

logger = logging.getLogger(__name__)


@public
@csrf_exempt
@transaction.non_atomic_requests
def receive(request: WSGIRequest) -> HttpResponse:
    """204 once the event is committed; else 4xx or 503 with the reason in a few plain words.

    Never a redirect, which the sender counts as a failure.
    """
    if request.method != "POST":
        return _answer(405, "deliveries are posted", Allow="POST")
    try:
        answer = receiving.receive(_headers(request), _reader(request))
    except Exception as error:
        # The sender tries again; the text of the error may quote the body.
        logger.error("a delivery failed", extra={"error": type(error).__name__})
        return _answer(503, "not stored", **{"Retry-After": str(receiving.RETRY_AFTER)})
    if answer.retry_after is not None:
        return _answer(answer.status, answer.reason, **{"Retry-After": str(answer.retry_after)})
    return _answer(answer.status, answer.reason)


def _headers(request: WSGIRequest) -> dict[str, str]:
    """What a delivery is told by, by lower-case name."""
    sent = request.META
    names = [
        f"{prefix}-{part}"
        for prefix in settings.WEBHOOK_HEADER_PREFIXES
        for part in ("id", "timestamp", "signature")
    ]
    found = {name: sent.get("HTTP_" + name.upper().replace("-", "_")) for name in names}
    found["content-length"] = sent.get("CONTENT_LENGTH")
    found["content-encoding"] = sent.get("HTTP_CONTENT_ENCODING")
    return {name: value for name, value in found.items() if value is not None}


def _reader(request: WSGIRequest) -> Callable[[int], bytes]:
    # Django reads nothing of a body without a length, such as a chunked one.
    if request.META.get("CONTENT_LENGTH") or "HTTP_TRANSFER_ENCODING" not in request.META:
        return request.read
    read: Callable[[int], bytes] = request.environ["wsgi.input"].read
    return read


def _answer(status: int, words: str, **headers: str) -> HttpResponse:
    return HttpResponse(
        words and f"{words}\n", status=status, content_type="text/plain", headers=headers or None
    )
