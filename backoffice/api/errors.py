"""Errors of the JSON API. All have the shape `{code, message, request_id}`."""

from __future__ import annotations

import logging
import math
from typing import Any

from django.core.exceptions import PermissionDenied
from django.db import InterfaceError, OperationalError
from django.http import Http404, HttpRequest
from rest_framework import exceptions
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import exception_handler

from backoffice.core.request_ids import request_id_of

logger = logging.getLogger(__name__)


def error_body(code: str, message: str, request: Request | HttpRequest) -> dict[str, str]:
    return {"code": code, "message": message, "request_id": request_id_of(request)}


def error_response(exc: Exception, context: dict[str, Any]) -> Response | None:
    """Convert an exception to a response, as the exception handler of DRF.

    An unexpected exception is logged. The response does not contain its message.
    """
    request: Request = context["request"]
    if isinstance(exc, Http404):
        exc = exceptions.NotFound("There is no such record.")
    elif isinstance(exc, PermissionDenied):
        exc = exceptions.PermissionDenied()
    response = exception_handler(exc, context)
    if isinstance(exc, OperationalError | InterfaceError):
        return None  # `backoffice.pages.views.broken` makes the response.
    if response is None:
        logger.error("unexpected error in %s", type(context["view"]).__name__, exc_info=exc)
        body = error_body("error", "The back office could not answer this request.", request)
        return Response(body, status=500)
    code, message = "error", str(exc)
    if isinstance(exc, exceptions.APIException) and isinstance(exc.detail, exceptions.ErrorDetail):
        code, message = exc.detail.code or code, str(exc.detail)
    response.data = error_body(code, message, request)
    return response


def bad_request(message: str) -> exceptions.ParseError:
    return exceptions.ParseError(message, code="bad_request")


class TooManyRequests(exceptions.Throttled):
    """Too many requests; the `Retry-After` header has the seconds to wait."""

    def __init__(self, wait: float) -> None:
        seconds = math.ceil(wait)
        super().__init__(wait=seconds)
        words = f"Too many requests. Go on in {seconds} second{'s'[: seconds != 1]}."
        self.detail = exceptions.ErrorDetail(words, self.default_code)
