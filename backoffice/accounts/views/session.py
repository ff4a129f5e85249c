"""The remaining time of a session, for open pages."""

from __future__ import annotations

from datetime import datetime, timedelta

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.middleware.csrf import get_token
from django.utils import timezone
from django.utils.cache import add_never_cache_headers
from django.views.decorators.http import require_http_methods

from backoffice.accounts import limits
from backoffice.accounts.access import public
from backoffice.accounts.session_store import SessionStore


@public
@require_http_methods(["GET", "POST"])
def session_status(request: HttpRequest) -> HttpResponse:
    """Answer open pages with the remaining time of the session.

    A POST says that somebody acted on the page, `idle` seconds ago, and extends the session.

    Answer `{"left": 118, "fixed": false, "who": "7", "token": "…"}`, or 401 when the session has
    ended. The token is for the forms of the page, which may be older than the last sign-in. Other
    sites can neither send the cookie (SameSite) nor read the answer.
    """
    user = request.user
    if not user.is_authenticated:
        response = JsonResponse({"left": 0}, status=401)
    else:
        if request.method == "POST" and isinstance(request.session, SessionStore):
            limits.extend(request.session, _last_action_at(request), timedelta(0))
        seconds, fixed = limits.remaining_time(request)
        data = {"left": seconds, "fixed": fixed, "who": str(user.pk), "token": get_token(request)}
        response = JsonResponse(data)
    add_never_cache_headers(response)
    return response


def _last_action_at(request: HttpRequest) -> datetime:
    text = request.POST.get("idle", "0")
    seconds = int(text) if text.isascii() and text.isdigit() and len(text) < 7 else 0
    return timezone.now() - timedelta(seconds=seconds)
