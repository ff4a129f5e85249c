"""Permissions, roles, and the decorators that declare what a view needs.

A view declares its permissions with `requires(...)`, or that it needs none with `public`. A test
that walks the URLconf refuses a route without a declaration. So does `DeclaredPermission` in the
JSON API. Roles are the names of a user's Django groups; a superuser is an administrator.
"""

from collections.abc import Callable
from functools import lru_cache, wraps
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast
from urllib.parse import quote

from django.contrib.auth.base_user import AbstractBaseUser
from django.contrib.auth.middleware import get_user
from django.contrib.auth.models import AnonymousUser
from django.contrib.auth.views import redirect_to_login
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import render
from django.utils.encoding import escape_uri_path
from django.utils.functional import SimpleLazyObject
from django.utils.translation import gettext, gettext_noop
from rest_framework.permissions import BasePermission
from rest_framework.request import Request

from backoffice.accounts.models import User
from backoffice.audit.recording import AuditUnavailable, record_denied
from backoffice.core.encryption.url_tokens import is_encrypted_token

if TYPE_CHECKING:
    # Settings name `DeclaredPermission`: importing views here would be a circle.
    from rest_framework.views import APIView

PERMISSIONS: Final[dict[str, str]] = {
    "orders.view": gettext_noop("see orders and their progress"),
    "patients.view": gettext_noop(
        "see patient details: name, birth date, contact, insurance, devices"
    ),
    "appointments.view": gettext_noop("see appointments"),
    "results.view": gettext_noop("see result values"),
    "labs.view": gettext_noop("see labs, tests, markers and lab accounts"),
    "reports.view": gettext_noop("see uploaded reports and their progress"),
    "reports.upload": gettext_noop("upload and resend reports"),
    "reports.accept": gettext_noop("correct, verify and accept data read from a report"),
    "records.view": gettext_noop("see records as the service sent them"),
    "system.view": gettext_noop("see sync runs, differences and unknown values"),
    "service.check": gettext_noop(
        "check the connection to the service, and manage its webhook endpoints"
    ),
    "vocabulary.change": gettext_noop("label unknown values from the service"),
    "events.view": gettext_noop("see webhook events and their outcomes"),
    "events.replay": gettext_noop("replay webhook events"),
    "audit.view": gettext_noop("see the audit trail: who viewed and who changed what"),
    "commands.view": gettext_noop("see requests to the service and their outcomes"),
    "commands.decide": gettext_noop("decide on requests whose outcome is unknown"),
    "orders.create": gettext_noop("order tests and import orders"),
    "orders.change": gettext_noop(
        "cancel orders, change their dates and messages, mark samples as collected"
    ),
    "orders.simulate": gettext_noop("advance sandbox orders"),
    "appointments.change": gettext_noop("book, reschedule and cancel visits"),
    "patients.change": gettext_noop(
        "register patients, change their data, insurance and connected devices"
    ),
    "results.match": gettext_noop("decide on results that match no order"),
    "results.acknowledge": gettext_noop(
        "acknowledge critical results and record the calls about them"
    ),
    "results.sign": gettext_noop("sign results"),
    "exceptions.work": gettext_noop(
        "work on exceptions: assign, snooze, close, and record calls to patients"
    ),
    "notes.write": gettext_noop("write notes and assign work"),
    "lists.export": gettext_noop("download lists"),
    "views.share": gettext_noop("share saved views of lists, and set them for a role"),
    "lab_tests.change": gettext_noop("create and archive lab tests"),
    "lab_accounts.change": gettext_noop("change which teams may use a lab account"),
    "api.read": gettext_noop("read data through the JSON API"),
    "tokens.manage": gettext_noop("create and revoke tokens of the JSON API"),
    "admin.open": gettext_noop("open Administration"),
    "staff.change": gettext_noop("create staff accounts, assign roles and deactivate accounts"),
}

ADMINISTRATOR: Final = "administrator"
SERVICE_ACCOUNT: Final = "service account"

PERSONAL_PARAMETERS: Final = ("q", "search_input", "patient_name", "shipping_recipient_name")
"""Parameters that hold free text typed by staff."""

MAX_NEXT_LENGTH: Final = 1800
"""Longest address, in characters, that the login page redirects back to."""

_BASIC: Final = frozenset(
    {"orders.view", "patients.view", "appointments.view", "labs.view", "reports.view", "api.read"}
)
_FRONT_DESK: Final = frozenset(
    {
        "reports.upload",
        "appointments.change",
        "patients.change",
        "commands.view",
        "exceptions.work",
        "notes.write",
        "lists.export",
    }
)
_ORDERING: Final = frozenset({"orders.create", "orders.change", "orders.simulate", "results.match"})
_CLINICAL: Final = (
    _FRONT_DESK | _ORDERING | {"results.view", "results.acknowledge", "reports.accept"}
)
_COORDINATION: Final = frozenset({"commands.decide", "system.view", "events.view", "views.share"})

ROLES: Final[dict[str, frozenset[str]]] = {
    "viewer": frozenset({"orders.view", "appointments.view", "labs.view"}),
    "front desk": _BASIC | _FRONT_DESK,
    "clinician": _BASIC | _CLINICAL | {"results.sign"},
    "lab coordinator": _BASIC | _CLINICAL | _COORDINATION,
    "lab admin": _BASIC
    | _CLINICAL
    | _COORDINATION
    | {"records.view", "audit.view", "events.replay", "lab_tests.change", "lab_accounts.change"}
    | {"vocabulary.change"},
    "auditor": frozenset({"audit.view"}),
    SERVICE_ACCOUNT: _BASIC
    | {"results.view", "records.view", "system.view", "events.view", "commands.view"},
    ADMINISTRATOR: frozenset(PERMISSIONS),
}
"""Role (a group name) to permissions. A viewer sees no names, the front desk no result values,
an auditor no health data at all."""

ROLE_LABELS: Final[dict[str, str]] = {
    "viewer": gettext_noop("Viewer"),
    "front desk": gettext_noop("Front desk"),
    "clinician": gettext_noop("Clinician"),
    "lab coordinator": gettext_noop("Lab coordinator"),
    "lab admin": gettext_noop("Lab admin"),
    "auditor": gettext_noop("Auditor"),
    SERVICE_ACCOUNT: gettext_noop("Service account"),
    ADMINISTRATOR: gettext_noop("Administrator"),
}

_DECLARATION: Final = "declared_access"
SIGNED_IN: Final = "signed in"
"""The declaration of a view that every role may use."""
View = TypeVar("View", bound=Callable[..., object])


def staff_user(request: HttpRequest) -> User:
    """Return the user of a request that an access decorator has let pass."""
    assert isinstance(request.user, User)
    return request.user


def roles_of(user: AbstractBaseUser | AnonymousUser) -> frozenset[str]:
    """Return the roles of a user, which the user object of a request remembers.

    No query where `accounts.backend.StaffBackend` found them, and one query elsewhere.
    """
    if not isinstance(user, User) or not user.is_active:
        return frozenset()
    if user.cached_roles is None:
        group_names = getattr(user, "group_names", None)
        if group_names is None:
            group_names = user.groups.values_list("name", flat=True)
        names = ROLES.keys() & set(group_names)
        user.cached_roles = frozenset(names | {ADMINISTRATOR} if user.is_superuser else names)
    return user.cached_roles


def may(user: AbstractBaseUser | AnonymousUser, *permissions: str) -> bool:
    """Return whether the roles of `user` grant all `permissions`.

    A user who came with an API token also needs them in the scopes of the token.
    """
    granted = _permissions_of_roles(roles_of(user))
    scopes: frozenset[str] | None = getattr(user, "scopes", None)
    return (granted if scopes is None else granted & scopes).issuperset(permissions)


@lru_cache(maxsize=256)
def _permissions_of_roles(roles: frozenset[str]) -> frozenset[str]:
    return frozenset[str]().union(*(ROLES[role] for role in roles))


def role_label(role: str) -> str:
    """Return the name of a role for staff, in their language."""
    return gettext(ROLE_LABELS.get(role, role.capitalize()))


def roles_with(permission: str) -> list[str]:
    """Return the roles of people that grant a permission, to tell staff whom to ask."""
    return [
        role for role, granted in ROLES.items() if permission in granted and role != SERVICE_ACCOUNT
    ]


def requires(*permissions: str) -> Callable[[View], View]:
    """Declare, and for browser views enforce, the permissions a view needs.

    A function view redirects anonymous visitors to the login page, answers 403 (recorded in the
    audit trail) to staff who lack a permission, and forbids browsers to store the page.
    A DRF view class is only marked; `DeclaredPermission` enforces.
    """
    unknown = set(permissions) - PERMISSIONS.keys()
    if unknown or not permissions:
        raise LookupError(f"not a permission: {sorted(unknown)}")

    def declare(view: View) -> View:
        if isinstance(view, type):
            setattr(view, _DECLARATION, permissions)
            return view
        return _guard(view, permissions, permissions)

    return declare


def signed_in(view: View) -> View:
    """Declare that a view is for every signed-in user, whatever the role."""
    return _guard(view, (), (SIGNED_IN,))


def _guard(view: View, permissions: tuple[str, ...], declared: tuple[str, ...]) -> View:
    @wraps(view)
    def checked(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        user = request.user
        if not isinstance(user, User):
            return _redirect_to_login(request)
        if isinstance(user, SimpleLazyObject):
            # The lazy object is slow, and a page reads the user hundreds of times.
            request.user = user = cast(User, get_user(request))
        try:
            for permission in permissions:
                if not may(user, permission):
                    record_denied(request, permission)
                    return _render_forbidden(request, permission)
            response = view(request, *args, **kwargs)
        except AuditUnavailable:
            return render(request, "503.html", status=503)
        except PermissionDenied:
            record_denied(request, "")
            raise
        assert isinstance(response, HttpResponseBase)
        response.headers.setdefault("Cache-Control", "no-store, private")
        return response

    setattr(checked, _DECLARATION, declared)
    # Checked above. The middleware would answer an htmx request with the login page.
    checked.login_required = False  # type: ignore[attr-defined]
    return cast(View, checked)


def public(view: View) -> View:
    """Declare that a view needs no sign-in (login page, health, webhooks)."""
    setattr(view, _DECLARATION, ())
    view.login_required = False  # type: ignore[attr-defined]  # read by LoginRequiredMiddleware
    return view


def declared_permissions(view: Callable[..., object]) -> tuple[str, ...] | None:
    """Return the permissions a URL callback declares: () for public, None without a declaration."""
    for holder in (view, getattr(view, "cls", None), getattr(view, "view_class", None)):
        declared: tuple[str, ...] | None = getattr(holder, _DECLARATION, None)
        if declared is not None:
            return declared
    return None


class DeclaredPermission(BasePermission):
    """Require `api.read` and what the API view declares; refuse a view without a declaration."""

    def has_permission(self, request: Request, view: "APIView") -> bool:
        needed = declared_permissions(type(view))
        if needed is None:
            return False
        if not needed:
            return True
        user = request.user
        if not isinstance(user, User):
            return False
        if may(user, "api.read", *needed):
            return True
        record_denied(request._request, ", ".join(needed))
        return False


def _redirect_to_login(request: HttpRequest) -> HttpResponse:
    if request.headers.get("HX-Request") == "true":
        # The browser would follow a redirect silently and put the login page into the table. With
        # 401 the page says that the session has ended and keeps what was typed (`session.js`).
        return HttpResponse(status=401)
    return redirect_to_login(address_without_personal_text(request))


def address_without_personal_text(request: HttpRequest) -> str:
    """Return the requested address without text about a person, because `next` is logged."""
    query = request.GET.copy()
    for name in PERSONAL_PARAMETERS:
        if not all(map(is_encrypted_token, query.getlist(name))):
            query.pop(name)
    path = escape_uri_path(request.path)
    address = f"{path}?{query.urlencode()}" if query else path
    return next((url for url in (address, path) if len(quote(url)) <= MAX_NEXT_LENGTH), "/")


def _render_forbidden(request: HttpRequest, permission: str) -> HttpResponse:
    context = {
        "needed": gettext(PERMISSIONS[permission]),
        "roles": list(map(role_label, roles_with(permission))),
    }
    return render(request, "403.html", context, status=403)
