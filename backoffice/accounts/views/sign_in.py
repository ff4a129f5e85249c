"""Sign in, sign out, the home page, the theme, and expired forms."""

from __future__ import annotations

from typing import Any, Final

from allauth.account.forms import LoginForm
from allauth.account.views import LoginView
from django.conf import settings
from django.contrib.auth.views import LogoutView, redirect_to_login
from django.core.exceptions import NON_FIELD_ERRORS
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.http import url_has_allowed_host_and_scheme
from django.utils.translation import gettext
from django.views.decorators.http import require_POST, require_safe

from backoffice.accounts.access import public
from backoffice.accounts.models import User
from backoffice.pages.frame import entries_for

SECONDS_PER_YEAR: Final = 365 * 24 * 3600


class SignInForm(LoginForm):
    """User name and password; the control is named `username` for password managers."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["login"].label = gettext("Username")
        self.fields["login"].widget.attrs = {
            "autocomplete": "username",
            "autocapitalize": "none",
            "autofocus": True,
            "maxlength": 150,
        }
        self.fields["password"].widget.attrs = {"autocomplete": "current-password"}
        self.fields["password"].help_text = ""

    def add_prefix(self, field_name: str) -> str:
        return str(super().add_prefix("username" if field_name == "login" else field_name))


class SignIn(LoginView):
    form_class = SignInForm
    template_name = "accounts/log_in.html"

    def form_invalid(self, form: SignInForm) -> HttpResponse:
        response: HttpResponse = super().form_invalid(form)
        if form.has_error(NON_FIELD_ERRORS, "too_many"):
            response.status_code = 429
        return response

    def get_context_data(self, **more: Any) -> dict[str, Any]:
        context: dict[str, Any] = super().get_context_data(**more)
        return {**context, "provider": settings.OIDC_NAME if settings.OIDC_SERVER_URL else ""}


class SignOut(LogoutView):
    """End the session (POST only) and clear the browser's cache of pages."""

    def post(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        response = super().post(request, *args, **kwargs)
        response.headers["Clear-Site-Data"] = '"cache"'
        return response


sign_in = public(SignIn.as_view())
sign_out = public(SignOut.as_view())


@public
@require_safe
def home(request: HttpRequest) -> HttpResponse:
    """Redirect to the first page that the user may open, or show that there is none."""
    if not request.user.is_authenticated:
        return redirect_to_login("/")
    for entry in entries_for(request.user, ""):
        return redirect(entry.url)
    return render(request, "no_places.html")


@public
@require_POST
def theme(request: HttpRequest) -> HttpResponse:
    """Remember `light` or `dark`, so that the first paint is already right."""
    target = request.POST.get("next", "/")
    if not url_has_allowed_host_and_scheme(target, {request.get_host()}, request.is_secure()):
        target = "/"
    response = HttpResponseRedirect(target)
    chosen = request.POST.get("theme", "")
    if chosen in ("light", "dark"):
        if isinstance(request.user, User):
            User.objects.filter(pk=request.user.pk).update(theme=chosen)
        set_theme_cookie(response, chosen)
    return response


def set_theme_cookie(response: HttpResponse, chosen: str) -> None:
    """Store the theme in a cookie for the sign-in page, which does not know the user yet."""
    if not chosen:
        response.delete_cookie(settings.THEME_COOKIE_NAME, samesite="Lax")
        return
    response.set_cookie(
        settings.THEME_COOKIE_NAME,
        chosen,
        max_age=SECONDS_PER_YEAR,
        httponly=True,
        samesite="Lax",
        secure=settings.HTTPS_ONLY,
    )


# Expired forms


def form_expired(request: HttpRequest, reason: str = "") -> HttpResponse:
    """Answer a form without a valid CSRF token: usually its session has ended meanwhile.

    Show the typed text again with a new token, unless another site sent the form.
    """
    if request.path == reverse("login"):
        return redirect_to_login(request.POST.get("next") or "/")
    is_same_origin = _is_same_origin(request)
    context = {
        "typed": _typed_fields(request) if is_same_origin else [],
        "action": request.get_full_path(),
        "lost": is_same_origin and bool(request.FILES),
    }
    return render(request, "403_form.html", context, status=403)


def _is_same_origin(request: HttpRequest) -> bool:
    """Return whether a page of this site sent the form; pages cannot forge these headers."""
    own_origin = f"{request.scheme}://{request.get_host()}"
    return (
        request.headers.get("Origin") == own_origin
        and request.headers.get("Sec-Fetch-Site", "same-origin") == "same-origin"
    )


def _typed_fields(request: HttpRequest) -> list[tuple[str, str]]:
    """Return the fields and values in order, without the token and passwords."""
    return [
        (name, value)
        for name, values in request.POST.lists()
        for value in values
        if name != "csrfmiddlewaretoken" and "password" not in name
    ]
