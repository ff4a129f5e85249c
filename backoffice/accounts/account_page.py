"""Your account: how you log in, and where you are logged in."""

from __future__ import annotations

from typing import Final

from django.conf import settings
from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_POST, require_safe

from backoffice import audit
from backoffice.access import signed_in
from backoffice.accounts import second_factor
from backoffice.accounts.models import StaffSession
from backoffice.accounts.passwords import others_of
from backoffice.accounts.second_factor_pages import factors_of
from backoffice.models import User

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
"""Marks in what browsers say of themselves, the more special first."""


@signed_in
@require_safe
def account(request: HttpRequest) -> HttpResponse:
    user = request.user
    assert isinstance(user, User)
    rows = StaffSession.objects.filter(user=user, expire_date__gt=timezone.now())
    sessions = [
        {
            "row": row,
            "device": device(row.agent),
            "here": row.session_key == request.session.session_key,
        }
        for row in rows.order_by("-seen_at")
    ]
    context = {
        **factors_of(user),
        "demanded": second_factor.demanded_of(user),
        "sessions": sessions,
        "mails": bool(settings.EMAIL_URL),
    }
    return render(request, "accounts/account.html", context)


@signed_in
@require_POST
def end_others(request: HttpRequest) -> HttpResponse:
    """End every session of this person but this one."""
    user = request.user
    assert isinstance(user, User)
    others_of(user.pk, request).delete()
    audit.record(request, "change", "sessions", ids=[user.pk], reason="others ended")
    messages.success(request, "You are logged out everywhere else")
    return HttpResponseRedirect(reverse("account"))


def device(agent: str) -> str:
    """`Firefox on Windows`, from what a browser says of itself."""
    browser = next((name for sign, name in _BROWSERS.items() if sign in agent), "")
    system = next((name for sign, name in _SYSTEMS.items() if sign in agent), "")
    return " on ".join(part for part in (browser, system) if part) or "Another program"
