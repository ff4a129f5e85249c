"""The search box: suggestions while somebody types, the one thing meant, or a page of results.

Words about people stand in no address: they are posted, and kept in the session for as long as
somebody may come back to a page of results.
"""

from __future__ import annotations

import secrets
from typing import Any, Final, cast

from django import forms
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_http_methods, require_POST

from backoffice import audit
from backoffice.core.access import may, requires
from backoffice.models import User
from orders.search.lookup import LEAST, Found, find

LONGEST: Final = 100
KEPT: Final = 5
SUGGESTED: Final = 5
_SESSION: Final = "found"


class FindForm(forms.Form):
    """The one box."""

    q = forms.CharField(
        label="Find",
        required=False,
        max_length=LONGEST,
        error_messages={
            "max_length": f"Type at most {LONGEST} characters; these are %(show_value)d.",
            "null_characters_not_allowed": "Type letters and digits only.",
        },
    )


@requires("orders.view")
@require_http_methods(["GET", "HEAD", "POST"])
def results(request: HttpRequest) -> HttpResponse:
    """What was typed leads to the one thing it means, or to a page that can be come back to."""
    if request.method != "POST":
        return _page(request, _kept(request))
    form = FindForm(request.POST)
    if not form.is_valid():
        context = {"errors": form.errors["q"], "sought": form.data.get("q", "")}
        return _shown(request, Found(), context, status=400)
    text = form.cleaned_data["q"]
    found = find(text, cast(User, request.user))
    if found.sure:
        _record(request, found)
        return redirect(found.sure)
    return redirect(f"{reverse('find:results')}?of={_keep(request, text)}")


@requires("orders.view")
@require_POST
def suggestions(request: HttpRequest) -> HttpResponse:
    """The first of each kind, for the list below the box."""
    form = FindForm(request.POST)
    text = form.cleaned_data["q"] if form.is_valid() else ""
    found = find(text, cast(User, request.user), SUGGESTED) if text else Found()
    context = {"sought": text, "least": LEAST, "errors": form.errors.get("q")}
    if len(text) >= LEAST:
        _record(request, found)
    return render(request, "finding/_suggestions.html", _context(request, found, context))


def _page(request: HttpRequest, text: str | None) -> HttpResponse:
    if text is None:
        return _shown(request, Found(), {"sought": "", "over": "of" in request.GET})
    found = find(text, cast(User, request.user))
    _record(request, found)
    return _shown(request, found, {"sought": text, "asked": True})


def _shown(
    request: HttpRequest, found: Found, context: dict[str, Any], status: int = 200
) -> HttpResponse:
    context = _context(request, found, {"least": LEAST, **context})
    return render(request, "finding/results.html", context, status=status)


def _context(request: HttpRequest, found: Found, context: dict[str, Any]) -> dict[str, Any]:
    return {**context, "found": found, "by_name": may(request.user, "patients.view")}


def _record(request: HttpRequest, found: Found) -> None:
    audit.listed(request, "finding", found.ids(), found.patients(), searched=True)


def _keep(request: HttpRequest, text: str) -> str:
    """A name for what was typed, under which this session finds it again."""
    kept: dict[str, str] = request.session.get(_SESSION, {})
    name = secrets.token_hex(4)
    recent = [*kept.items(), (name, text)][-KEPT:]
    request.session[_SESSION] = dict(recent)
    return name


def _kept(request: HttpRequest) -> str | None:
    kept: dict[str, str] = request.session.get(_SESSION, {})
    return kept.get(request.GET.get("of", ""))
