"""The page "Your account": the user's second factors and sessions."""

from __future__ import annotations

from typing import Final

from django.conf import settings
from django.contrib import messages
from django.db import transaction
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.urls import reverse
from django.utils import timezone
from django.utils.crypto import salted_hmac
from django.utils.translation import gettext
from django.views.decorators.http import require_http_methods, require_safe

from backoffice.accounts import second_factor
from backoffice.accounts.access import signed_in, staff_user
from backoffice.accounts.models import StaffSession
from backoffice.accounts.passwords import other_sessions
from backoffice.accounts.recent_authentication import require_recent_authentication
from backoffice.audit.recording import record_action

_BROWSERS: Final = {
    "Edg/": "Edge",
    "OPR/": "Opera",
    "Firefox/": "Firefox",
    "Chrome/": "Chrome",
    "Safari/": "Safari",
}
_SYSTEMS: Final = {
    "Windows": "Windows",
    "Android": "Android",
    "iPhone": "iPhone",
    "iPad": "iPad",
    "Mac OS X": "macOS",
    "Linux": "Linux",
}
"""Marks in the User-Agent header, the more specific ones first."""


@signed_in
@require_safe
def account(request: HttpRequest) -> HttpResponse:
    user = staff_user(request)
    rows = StaffSession.objects.filter(user=user, expire_date__gt=timezone.now())
    current_key = request.session.session_key
    sessions = [
        session_row(row) | {"here": row.pk == current_key} for row in rows.order_by("-seen_at")
    ]
    context = {
        **second_factor.second_factors_of(user),
        "demanded": second_factor.is_required_for(user),
        "sessions": sessions,
        "mails": bool(settings.EMAIL_URL),
    }
    return render(request, "accounts/account.html", context)


@signed_in
@require_recent_authentication
@require_http_methods(["GET", "HEAD", "POST"])
def end_sessions(request: HttpRequest) -> HttpResponse:
    """Confirm, then end the session in `session`, or all other sessions of the user."""
    user = staff_user(request)
    rows = other_sessions(user.pk, request)
    chosen_id = request.GET.get("session", "")
    if chosen_id:
        rows = rows.filter(pk__in=[row.pk for row in rows if public_session_id(row) == chosen_id])
    sessions = [session_row(row) for row in rows.filter(expire_date__gt=timezone.now())]
    if request.method != "POST" or not sessions:
        return render(
            request, "accounts/sessions_end.html", {"sessions": sessions, "one": chosen_id}
        )
    with transaction.atomic(durable=True):
        rows.delete()
        record_action(
            request, "sessions", [user.pk], (), "one ended" if chosen_id else "others ended"
        )
    messages.success(
        request,
        gettext("You are signed out on that device")
        if chosen_id
        else gettext("You are signed out everywhere else"),
    )
    return HttpResponseRedirect(reverse("account"))


def session_row(row: StaffSession) -> dict[str, object]:
    return {"row": row, "device": device_label(row.agent), "name": public_session_id(row)}


def public_session_id(row: StaffSession) -> str:
    """Return an id of a session for URLs: its key would give access to it."""
    return salted_hmac(__name__, row.pk, algorithm="sha256").hexdigest()[:20]


def device_label(agent: str) -> str:
    """Return `Firefox on Windows` from a User-Agent header."""
    browser = next((name for sign, name in _BROWSERS.items() if sign in agent), "")
    system = next((name for sign, name in _SYSTEMS.items() if sign in agent), "")
    if browser and system:
        return gettext("%(browser)s on %(system)s") % {"browser": browser, "system": system}
    return browser or system or gettext("Unknown browser")
