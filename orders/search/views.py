"""The search box: suggestions while the user types, a redirect to the only match, or results.

Search texts may name patients, so no URL has them. They are posted, and stored in the session, so
that the user can return to a page of results.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from typing import Final

from django import forms
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.translation import gettext_lazy
from django.views.decorators.http import require_http_methods, require_POST

from backoffice.accounts.access import may, requires, staff_user
from backoffice.audit.recording import record_list
from orders.search.lookup import MIN_LENGTH, SearchResult, search_records

MAX_LENGTH: Final = 100
MAX_REMEMBERED: Final = 5
MAX_SUGGESTIONS: Final = 5
_SESSION_KEY: Final = "found"


class SearchForm(forms.Form):
    """The search box."""

    q = forms.CharField(
        label=gettext_lazy("Search"),
        required=False,
        max_length=MAX_LENGTH,
        error_messages={
            "max_length": gettext_lazy(
                "Type at most %(limit_value)d characters. You typed %(show_value)d."
            ),
            "null_characters_not_allowed": gettext_lazy("Type letters and numbers only."),
        },
    )


@requires("orders.view")
@require_http_methods(["GET", "HEAD", "POST"])
def results(request: HttpRequest) -> HttpResponse:
    """Redirect to the only match, or to a page of results that has its own URL."""
    if request.method != "POST":
        return _page(request, _remembered_text(request))
    form = SearchForm(request.POST)
    if not form.is_valid():
        context = {"errors": form.errors["q"], "sought": form.data.get("q", "")}
        return _render_results(request, SearchResult(), context, status=400)
    text = form.cleaned_data["q"]
    result = search_records(text, staff_user(request))
    if result.sole_match_url:
        _record(request, result)
        return redirect(result.sole_match_url)
    return redirect(f"{reverse('find:results')}?of={_remember_text(request, text)}")


@requires("orders.view")
@require_POST
def suggestions(request: HttpRequest) -> HttpResponse:
    """Show the first matches of each kind, for the list below the box."""
    form = SearchForm(request.POST)
    text = form.cleaned_data["q"] if form.is_valid() else ""
    result = search_records(text, staff_user(request), MAX_SUGGESTIONS) if text else SearchResult()
    context = {"sought": text, "errors": form.errors.get("q")}
    if len(text) >= MIN_LENGTH:
        _record(request, result)
    return render(request, "search/_suggestions.html", _context(request, result, context))


def _page(request: HttpRequest, text: str | None) -> HttpResponse:
    if text is None:
        return _render_results(request, SearchResult(), {"sought": "", "over": "of" in request.GET})
    result = search_records(text, staff_user(request))
    _record(request, result)
    return _render_results(request, result, {"sought": text, "is_search": True})


def _render_results(
    request: HttpRequest, result: SearchResult, context: Mapping[str, object], status: int = 200
) -> HttpResponse:
    context = _context(request, result, context)
    return render(request, "search/results.html", context, status=status)


def _context(
    request: HttpRequest, result: SearchResult, context: Mapping[str, object]
) -> dict[str, object]:
    return {
        **context,
        "result": result,
        "least": MIN_LENGTH,
        "by_name": may(request.user, "patients.view"),
    }


def _record(request: HttpRequest, result: SearchResult) -> None:
    record_list(request, "finding", result.ids(), result.patients(), searched=True)


def _remember_text(request: HttpRequest, text: str) -> str:
    """Store a search text in the session and return the key for the URL."""
    texts: dict[str, str] = request.session.get(_SESSION_KEY, {})
    name = secrets.token_hex(4)
    recent = [*texts.items(), (name, text)][-MAX_REMEMBERED:]
    request.session[_SESSION_KEY] = dict(recent)
    return name


def _remembered_text(request: HttpRequest) -> str | None:
    texts: dict[str, str] = request.session.get(_SESSION_KEY, {})
    return texts.get(request.GET.get("of", ""))
