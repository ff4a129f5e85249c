"""The webhook endpoint as a view, for servers and tests that use Django's handler."""

from __future__ import annotations

from django.core.handlers.wsgi import WSGIRequest
from django.db import transaction
from django.http import HttpResponse
from django.views.decorators.csrf import csrf_exempt

from backoffice.accounts.access import public
from webhooks import endpoint


@public
@csrf_exempt
@transaction.non_atomic_requests
def receive(request: WSGIRequest) -> HttpResponse:
    """Answer one delivery; see `webhooks.endpoint`."""
    status, headers, body = endpoint.respond(request.environ)
    return HttpResponse(body, status=status, headers=dict(headers))
