"""Updates of open pages, the preferences, the components, and the error pages."""

from __future__ import annotations

import sys
from typing import Final
from zoneinfo import available_timezones

import psycopg
from django.contrib import messages
from django.core.exceptions import BadRequest
from django.db import InterfaceError, OperationalError
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect, JsonResponse
from django.shortcuts import render
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils.translation import gettext
from django.views.decorators.http import require_http_methods, require_safe

from backoffice.accounts.access import requires, signed_in, staff_user
from backoffice.accounts.models import User
from backoffice.accounts.views.sign_in import set_theme_cookie
from backoffice.core.request_ids import request_id_of
from backoffice.core.snapshots import is_snapshot
from backoffice.pages.components import component_context
from backoffice.pages.live import about, changes_since
from backoffice.pages.preferences import PreferencesForm

RETRY_SECONDS: Final = 30


@signed_in
@require_safe
def live(request: HttpRequest) -> HttpResponse:
    """Answer `?since=<cursor>&about=orders`: 204 when nothing changed, else `{"count": 3}`.

    The header `X-Cursor` is the cursor for the next request. No record is read, so none is audited.
    """
    since = request.GET.get("since", "")
    if not is_snapshot(since):
        raise BadRequest("That is no cursor.")
    try:
        count, now = changes_since(since, about(request.GET.get("about", "")))
    except ValueError as error:
        raise BadRequest("There is no such list or record.") from error
    response = JsonResponse({"count": count}) if count else HttpResponse(status=204)
    response.headers["X-Cursor"] = now
    return response


@requires("system.view")
@require_safe
def components(request: HttpRequest) -> HttpResponse:
    """Show every macro with a few inputs, to developers: the URL exists only with `DEBUG`."""
    return render(request, "system/components.html", component_context())


@signed_in
@require_http_methods(["GET", "HEAD", "POST"])
def preferences(request: HttpRequest) -> HttpResponse:
    """Show and save the preferences. They apply from the next page on."""
    user = staff_user(request)
    if request.method != "POST":
        initial = {name: getattr(user, name) for name in PreferencesForm.base_fields}
        return _preferences_page(request, PreferencesForm(initial=initial))
    form = PreferencesForm(request.POST)
    if not form.is_valid():
        return _preferences_page(request, form, status=400)
    User.objects.filter(pk=user.pk).update(**form.cleaned_data)
    messages.success(request, gettext("Preferences saved"))
    response = HttpResponseRedirect(reverse("preferences"))
    set_theme_cookie(response, form.cleaned_data["theme"])
    return response


def _preferences_page(
    request: HttpRequest, form: PreferencesForm, status: int = 200
) -> HttpResponse:
    context = {"form": form, "zones": sorted(available_timezones())}
    return render(request, "preferences/page.html", context, status=status)


# Error pages. Unlike Django's own error views, they read neither the request body nor the session,
# which has the CSRF token. Either may be the cause of the error.


def not_found(request: HttpRequest, exception: Exception) -> HttpResponse:
    return render(request, "404.html", status=404)


def bad_request(request: HttpRequest, exception: Exception) -> HttpResponse:
    """Show the message of a `BadRequest`. Messages of its subclasses may reveal internals."""
    words = str(exception) if type(exception) is BadRequest else ""
    return render(None, "400.html", {"words": words}, status=400)


def broken(request: HttpRequest) -> HttpResponse:
    """Answer with status 500, or with 503 and `Retry-After` for errors of the database.

    Those are a database that does not answer, and a statement that it canceled
    (`statement_limits.py`). For the JSON API the response has the shape of its errors. The
    reference on the page is the request id, which the log has with the error.
    """
    error = sys.exc_info()[1]
    away = isinstance(error, OperationalError | InterfaceError)
    cause = error.__cause__ if error else None
    slow = away and isinstance(cause, psycopg.errors.QueryCanceled)
    status = 503 if away else 500
    response: HttpResponse
    if request.path.startswith("/api/"):
        words = "The database does not answer." if away else "This request could not be answered."
        words = "This took too long. Ask for less at once." if slow else words
        code = "unavailable" if away else "error"
        body = {"code": code, "message": words, "request_id": request_id_of(request)}
        response = JsonResponse(body, status=status)
    else:
        context = {"away": away, "slow": slow, "reference": request_id_of(request)}
        response = HttpResponse(render_to_string("500.html", context), status=status)
    if away:
        response.headers["Retry-After"] = str(RETRY_SECONDS)
    return response
