"""Log in, log out, and the theme of the pages."""

from typing import Final

from django.contrib.auth.backends import ModelBackend
from django.contrib.auth.forms import AuthenticationForm
from django.contrib.auth.views import LoginView, LogoutView, redirect_to_login
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import redirect, render
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.http import require_POST, require_safe

from backoffice import audit
from backoffice.access import public
from backoffice.models import User
from backoffice.templatetags.frame import entries

YEAR: Final = 365 * 24 * 3600


_STAFF: Final = """
SELECT backoffice_user.*, pg_current_snapshot()::text AS snapshot, ARRAY(
 SELECT name FROM auth_group
 JOIN backoffice_user_groups ON group_id = auth_group.id WHERE user_id = backoffice_user.id
) AS group_names
FROM backoffice_user WHERE id = %s
"""


class Staff(ModelBackend):
    """Finds staff; with the same statement their groups, and the snapshot a page begins in (see
    `live.py`)."""

    def get_user(self, user_id: int) -> User | None:
        user = next(iter(User.objects.raw(_STAFF, [user_id])), None)
        return user if user is not None and self.user_can_authenticate(user) else None


@public
class LogIn(LoginView):
    """The log-in page; every success and every refusal is recorded."""

    redirect_authenticated_user = True

    def form_valid(self, form: AuthenticationForm) -> HttpResponse:
        response = super().form_valid(form)
        try:
            audit.signed_in(self.request)
        except audit.AuditUnavailable:
            self.request.session.flush()
            return render(self.request, "503.html", status=503)
        return response

    def form_invalid(self, form: AuthenticationForm) -> HttpResponse:
        audit.sign_in_refused(self.request)
        return super().form_invalid(form)


@public
class LogOut(LogoutView):
    """Ends the session; POST only."""


@public
@require_safe
def home(request: HttpRequest) -> HttpResponse:
    """To the first place the user may see; a page that says so when there is none."""
    if not request.user.is_authenticated:
        return redirect_to_login("/")
    for entry in entries(request.user, ""):
        return redirect(entry.url)
    return render(request, "no_places.html")


def form_expired(request: HttpRequest, reason: str = "") -> HttpResponse:
    """A form came without its token: most often the session has ended since it was shown."""
    return render(request, "403_form.html", status=403)


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
        keep_theme(request, response, chosen)
    return response


def keep_theme(request: HttpRequest, response: HttpResponse, chosen: str) -> None:
    """Keep the theme in a cookie, too: the log-in page knows nobody yet."""
    if not chosen:
        response.delete_cookie("theme", samesite="Lax")
        return
    response.set_cookie(
        "theme",
        chosen,
        max_age=YEAR,
        httponly=True,
        samesite="Lax",
        secure=request.is_secure(),
    )
