"""System > API tokens; the OpenAPI document of the JSON API, and its answer to unknown URLs."""

from __future__ import annotations

from typing import Final

from django.contrib.auth.decorators import login_not_required
from django.core.exceptions import ValidationError
from django.db import transaction
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils import timezone
from django.utils.translation import gettext_noop
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_http_methods, require_safe
from drf_spectacular.renderers import OpenApiJsonRenderer2
from drf_spectacular.views import SpectacularAPIView

from backoffice.accounts.access import public, requires, staff_user
from backoffice.accounts.recent_authentication import require_recent_authentication
from backoffice.api import tokens
from backoffice.api.base import BaseAPIView
from backoffice.api.errors import error_body
from backoffice.api.forms import TokenForm
from backoffice.api.models import ApiToken
from backoffice.audit.recording import record_action
from backoffice.pages.paging.pages import Sort, fetch_page, page_position

SIZE: Final = 50
NEWEST_FIRST: Final = Sort(("created_at", "id"), descending=True)
METHODS: Final = ("GET", "HEAD", "POST")
_STATES: Final = {
    "good": ("result-in", "tick", gettext_noop("Active")),
    "expired": ("closed", "dash", gettext_noop("Expired")),
    "revoked": ("closed", "dash", gettext_noop("Revoked")),
}


@requires("tokens.manage")
@require_safe
def token_list(request: HttpRequest) -> HttpResponse:
    """List all tokens, newest first. Revoked and expired tokens are included."""
    stored_tokens = ApiToken.objects.select_related("user", "created_by")
    page = fetch_page(stored_tokens, NEWEST_FIRST, size=SIZE, **page_position(request))
    now = timezone.now()
    rows = [(token, _STATES[token.state(now)]) for token in page.rows]
    return render(request, "system/tokens.html", {"page": page, "rows": rows})


@requires("tokens.manage")
@require_recent_authentication
@require_http_methods(METHODS)
def new(request: HttpRequest) -> HttpResponse:
    """Create a token. The response to the form is the only page that shows the token's text."""
    if request.method != "POST":
        return _form(request, TokenForm())
    form = TokenForm(request.POST)
    if form.is_valid():
        try:
            token, text = _issue_token(request, form)
        except ValidationError as error:
            form.add_error("account", error)
        else:
            return render(request, "system/token.html", {"token": token, "text": text})
    return _form(request, form, status=422)


@requires("tokens.manage")
@require_http_methods(METHODS)
def revoke(request: HttpRequest, token_id: int) -> HttpResponse:
    """Ask for confirmation, then revoke a token."""
    token = get_object_or_404(ApiToken.objects.select_related("user"), pk=token_id)
    if request.method != "POST":
        state = _STATES[token.state(timezone.now())]
        return render(request, "system/token_revoke.html", {"token": token, "state": state})
    with transaction.atomic(durable=True):
        token = ApiToken.objects.select_for_update().get(pk=token_id)
        if token.revoked_at is None:
            tokens.revoke(token)
            record_action(request, "revoke token", [token.key_id], [])
    return redirect("system:tokens")


def _issue_token(request: HttpRequest, form: TokenForm) -> tuple[ApiToken, str]:
    """Return the token and its text. The text is empty if the same form was sent before."""
    values = form.cleaned_data
    with transaction.atomic(durable=True):
        account, _ = tokens.account_of(values["account"])
        earlier = ApiToken.objects.filter(form_id=values["form_id"]).select_related("user").first()
        if earlier is not None:
            return earlier, ""
        token, text = tokens.issue(
            account,
            name=values["name"],
            scopes=values["scopes"],
            days=values["days"],
            by=staff_user(request),
            form_id=values["form_id"],
        )
        record_action(request, "make token", [token.key_id, account.username], [])
    return token, text


def _form(request: HttpRequest, form: TokenForm, status: int = 200) -> HttpResponse:
    return render(request, "system/token_new.html", {"form": form}, status=status)


# The JSON API itself


@requires("api.read")
class Schema(BaseAPIView, SpectacularAPIView):
    """OpenAPI 3 description of this API."""

    renderer_classes = [OpenApiJsonRenderer2]


@login_not_required
@csrf_exempt
@public
def nothing_here(request: HttpRequest) -> HttpResponse:
    body = error_body("not_found", "There is no such address in this API.", request)
    return JsonResponse(body, status=404)
