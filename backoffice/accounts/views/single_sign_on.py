"""Sign in by OpenID Connect: the redirect to the provider, and the callback."""

from __future__ import annotations

import secrets

from allauth.account.utils import get_next_redirect_url
from allauth.socialaccount.adapter import get_adapter
from allauth.socialaccount.providers.oauth2.views import OAuth2CallbackView
from django.conf import settings
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import render
from django.views.decorators.http import require_POST, require_safe

from backoffice.accounts.access import public
from backoffice.accounts.id_tokens import VerifyingOIDCAdapter
from backoffice.accounts.single_sign_on import FAILURES, PROVIDER, failure_response


@public
@require_POST
def start(request: HttpRequest) -> HttpResponse:
    """Show a page that redirects to the provider.

    The content security policy lets no form lead to another site, so a redirect does not work.
    """
    if not settings.OIDC_SERVER_URL:
        raise Http404
    provider = get_adapter(request).get_provider(request, PROVIDER)
    provider.oauth2_adapter_class = VerifyingOIDCAdapter
    nonce = secrets.token_urlsafe()
    try:
        answer = provider.redirect(
            request,
            process="login",
            next_url=get_next_redirect_url(request),
            auth_params={"nonce": nonce},
            nonce=nonce,
        )
    except FAILURES as error:
        return failure_response(request, error)
    return _redirect_page(request, answer["Location"])


@public
@require_safe
def callback(request: HttpRequest, provider_id: str) -> HttpResponseBase:
    """Answer the redirect of the browser back from the provider."""
    if not settings.OIDC_SERVER_URL:
        raise Http404
    try:
        view = OAuth2CallbackView.adapter_view(VerifyingOIDCAdapter(request, provider_id))
        answer: HttpResponseBase = view(request)
    except FAILURES as error:
        return failure_response(request, error)
    return answer


def _redirect_page(request: HttpRequest, to: str) -> HttpResponse:
    context = {"redirect_to": to, "provider": settings.OIDC_NAME}
    return render(request, "socialaccount/login_redirect.html", context)
