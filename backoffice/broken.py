"""What is answered when something broke: without session or user, as these may be what is broken.

Django's own view looks for the token of forms, which stands in the session: with PostgreSQL away
the answer about the error would be an error.
"""

from __future__ import annotations

import sys
from typing import Final

from django.db import InterfaceError, OperationalError
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.template.loader import render_to_string

from backoffice.requests import id_of

RETRY_SECONDS: Final = 30


def answer(request: HttpRequest) -> HttpResponse:
    """503 with `Retry-After` while the database does not answer, else 500; for the JSON API in the
    shape of its errors. The reference is the request id, under which the log has the error."""
    away = isinstance(sys.exc_info()[1], OperationalError | InterfaceError)
    status = 503 if away else 500
    found: HttpResponse
    if request.path.startswith("/api/"):
        words = "The database does not answer." if away else "This request could not be answered."
        code = "unavailable" if away else "error"
        body = {"code": code, "message": words, "request_id": id_of(request)}
        found = JsonResponse(body, status=status)
    else:
        told = {"away": away, "reference": id_of(request)}
        found = HttpResponse(render_to_string("500.html", told), status=status)
    if away:
        found.headers["Retry-After"] = str(RETRY_SECONDS)
    return found
