"""Roles as data, and the permission declaration of every URL."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.contrib.auth.models import AnonymousUser, Group
from django.http import HttpRequest, HttpResponse
from django.test import Client
from django.urls import URLPattern, URLResolver, get_resolver, reverse
from django.utils import timezone

from backoffice.accounts import access
from backoffice.accounts.access import declared_permissions, may, public, requires, roles_with
from backoffice.accounts.models import User
from backoffice.audit.models import AuditEntry
from backoffice.pages.frame import entries_for
from tests.api.rows import staff, uid

EXPECTED_PERMISSIONS = {
    "viewer": {"orders.view", "appointments.view", "labs.view"},
    "auditor": {"audit.view"},
    "administrator": set(access.PERMISSIONS),
}
HEALTH_DATA = {"orders.view", "patients.view", "appointments.view", "results.view", "records.view"}


def routes(
    resolver: URLResolver | None = None, prefix: str = ""
) -> Iterator[tuple[str, Callable[..., Any]]]:
    """Yield every URL pattern of the product with its view."""
    for entry in (resolver or get_resolver()).url_patterns:
        address = prefix + str(entry.pattern)
        if isinstance(entry, URLPattern):
            yield address, entry.callback
        else:
            yield from routes(entry, address)


def test_every_route_declares_its_permissions() -> None:
    found = dict(routes())
    assert {"orders/", "patients/<uuid:patient_id>/", "health/live"} <= set(found)
    undeclared = [address for address, view in found.items() if declared_permissions(view) is None]
    assert undeclared == []


def test_only_listed_routes_are_public() -> None:
    open_to_all = {address for address, view in routes() if declared_permissions(view) == ()}
    assert open_to_all <= {
        "",
        "health/live",
        "health/ready",
        "health/inbox",
        "health/status",  # a token, or system.view
        "metrics",  # a token
        "accounts/login/",
        "accounts/login/passkey/",
        "accounts/login/second-factor/",
        "accounts/logout/",
        "accounts/oidc/login/",
        "accounts/oidc/login/callback/",
        "accounts/password/forgotten/",
        "accounts/password/forgotten/asked/",
        "accounts/password/new/<uidb64>/<token>/",
        "accounts/session/",  # 401
        "jsi18n/",  # the words of our scripts
        "theme/",
        "webhooks",
        "webhooks/",
        "api/",  # any unknown API path: 404
    }


def test_route_without_declaration_is_detected() -> None:
    def undeclared_view(request: HttpRequest) -> HttpResponse:
        return HttpResponse()

    assert declared_permissions(undeclared_view) is None
    assert declared_permissions(public(undeclared_view)) == ()


def test_unknown_permission_is_refused_at_import() -> None:
    with pytest.raises(LookupError):
        requires("orders.veiw")
    with pytest.raises(LookupError):
        requires()


def test_every_role_grants_existing_permissions() -> None:
    for role, granted in access.ROLES.items():
        assert granted <= access.PERMISSIONS.keys(), role
    assert all(roles_with(permission) for permission in access.PERMISSIONS)


def test_front_desk_and_auditor_cannot_see_health_data() -> None:
    assert "results.view" not in access.ROLES["front desk"]
    assert "patients.view" not in access.ROLES["viewer"]
    assert not access.ROLES["auditor"] & HEALTH_DATA


@pytest.mark.django_db
@pytest.mark.parametrize("role", sorted(access.ROLES))
def test_role_is_granted_by_group_name(role: str) -> None:
    user = staff(role)
    granted = {permission for permission in access.PERMISSIONS if may(user, permission)}
    assert granted == access.ROLES[role]
    assert granted == EXPECTED_PERMISSIONS.get(role, granted)


@pytest.mark.django_db
def test_roles_add_up_and_other_groups_grant_nothing() -> None:
    user = staff("auditor")
    viewer, _ = Group.objects.get_or_create(name="viewer")
    user.groups.add(Group.objects.create(name="choir"), viewer)
    again = User.objects.get(pk=user.pk)
    assert access.roles_of(again) == {"auditor", "viewer"}
    assert may(again, "audit.view", "orders.view")
    assert not may(again, "audit.view", "patients.view")


@pytest.mark.django_db
def test_superuser_has_all_permissions_unless_inactive() -> None:
    user = User.objects.create_superuser("root-sample", password="long enough words")
    assert may(user, *access.PERMISSIONS)
    user.is_active = False
    user.cached_roles = None
    assert not may(user, "orders.view")
    assert not may(AnonymousUser(), "orders.view")


@pytest.mark.django_db
def test_anonymous_user_is_redirected_to_log_in(client: Client) -> None:
    answer = client.get("/orders/?status=lost")
    assert answer.status_code == 302
    assert answer["Location"] == f"{reverse('login')}?next=/orders/%3Fstatus%3Dlost"
    assert AuditEntry.objects.count() == 0


@pytest.mark.django_db
@pytest.mark.parametrize("name", ["q", "search_input", "patient_name", "shipping_recipient_name"])
def test_search_terms_are_not_in_log_in_redirect(client: Client, name: str) -> None:
    for address in ("/patients/", "/orders/"):
        answer = client.get(address, {name: "Canary", "size": "20"})
        assert answer["Location"] == f"{reverse('login')}?next={address}%3Fsize%3D20"
        for words in ("Canary", "~Canary"):
            answer = client.get(address, {name: words})
            assert answer["Location"].endswith(f"?next={address}")


@pytest.mark.django_db
def test_missing_permission_is_explained_and_recorded(client: Client) -> None:
    user = staff("auditor")
    client.force_login(user)
    answer = client.get("/patients/")
    assert answer.status_code == 403
    assert b"Clinician" in answer.content
    assert b"administrator of your clinic" in answer.content
    entry = AuditEntry.objects.get()
    assert (entry.actor, entry.action, entry.outcome) == (user, "denied", "refused")
    assert (entry.object_ids, entry.route) == (["patients.view"], "patients:list")


@pytest.mark.django_db
def test_htmx_request_without_session_gets_empty_401(client: Client) -> None:
    answer = client.get("/orders/", headers={"HX-Request": "true"})
    assert (answer.status_code, answer.content) == (401, b"")
    assert "HX-Refresh" not in answer


@pytest.mark.django_db
@pytest.mark.parametrize("state", ["signed out", "closed account"])
def test_views_require_an_active_session(client: Client, state: str) -> None:
    user = staff("clinician")
    client.force_login(user)
    if state == "closed account":
        User.objects.filter(pk=user.pk).update(is_active=False)
    else:
        client.logout()
    for address in ("/orders/", "/patients/"):
        assert client.get(address).status_code == 302


@pytest.mark.django_db
def test_pages_are_never_stored(client: Client) -> None:
    client.force_login(staff("clinician"))
    assert client.get("/orders/")["Cache-Control"] == "no-store, private"


@pytest.mark.django_db
def test_navigation_shows_only_permitted_pages(client: Client) -> None:
    client.force_login(staff("front desk"))
    page = client.get("/orders/").content.decode()
    assert 'href="/patients/"' in page
    assert 'href="/system/"' not in page


@pytest.mark.django_db
def test_navigation_entry_opens_first_permitted_page() -> None:
    def shown(role: str, path: str) -> dict[str, tuple[str, bool]]:
        return {e.section.label: (e.url, e.current) for e in entries_for(staff(role), path)}

    everything = shown("administrator", "/system/events/7/")
    order = ["Orders", "Appointments", "Results", "Patients", "Catalog & accounts", "System"]
    assert [label for label in everything if label != "Today"] == order
    assert everything["System"] == ("/system/", True)
    assert [label for label, (_, current) in everything.items() if current] == ["System"]
    desk = shown("front desk", "/commands/")
    assert desk["System"] == ("/system/pulls/", True)
    assert desk["Results"][0] == "/reports/"
    assert shown("auditor", "/") == {"System": ("/system/audit/", False)}


@pytest.mark.django_db
def test_page_uses_time_zone_of_user(client: Client) -> None:
    user = staff("clinician")
    User.objects.filter(pk=user.pk).update(time_zone="Asia/Kolkata")
    client.force_login(user)
    assert "Times are IST" in client.get("/orders/").content.decode()
    User.objects.filter(pk=user.pk).update(time_zone="Not/AZone")
    assert "Times are UTC" in client.get("/orders/").content.decode()


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("role", "address", "status"),
    [
        ("administrator", "/admin/", 200),
        ("administrator", "/admin/orders/order/", 200),
        ("administrator", "/nowhere/", 404),
        ("administrator", f"/orders/{uid('order', 404)}/", 404),
        ("viewer", "/system/", 403),
        ("", "/", 200),
    ],
)
def test_every_response_uses_time_zone_of_user(
    client: Client, role: str, address: str, status: int
) -> None:
    user = staff(role) if role else User.objects.create_user("nobody-sample")
    User.objects.filter(pk=user.pk).update(time_zone="Asia/Kolkata")
    client.force_login(user)
    answer = client.get(address)
    assert answer.status_code == status
    assert "Times are IST" in answer.content.decode()
    assert "Times are IST" not in Client().get("/nowhere/", follow=True).content.decode()
    assert timezone.get_current_timezone_name() == "UTC", "the time zone is reset after the request"


@pytest.mark.django_db
@pytest.mark.parametrize("role", sorted(access.ROLES))
def test_home_redirects_to_permitted_page(client: Client, role: str) -> None:
    client.force_login(staff(role))
    answer = client.get("/", follow=True)
    assert answer.status_code == 200
    assert "has no pages" not in answer.content.decode()


@pytest.mark.django_db
def test_home_without_permitted_page_says_so(client: Client) -> None:
    client.force_login(User.objects.create_user("nobody-sample"))
    assert "has no pages" in client.get("/", follow=True).content.decode()


@pytest.mark.django_db
def test_home_redirects_anonymous_user_to_log_in(client: Client) -> None:
    assert client.get("/").headers["Location"] == "/accounts/login/?next=/"


def test_service_account_is_never_suggested_as_role() -> None:
    assert all("service account" not in roles_with(each) for each in access.PERMISSIONS)


@pytest.mark.django_db
def test_404_page_shows_navigation_only_to_staff(client: Client) -> None:
    client.force_login(staff("viewer"))
    page = client.get("/nope/")
    assert page.status_code == 404
    assert 'href="/orders/"' in page.content.decode()
    client.logout()
    page = client.get("/nope/")
    assert 'href="/orders/"' not in page.content.decode()


@pytest.mark.django_db
def test_form_of_ended_session_explains_next_step() -> None:
    answer = Client(enforce_csrf_checks=True).post("/patients/register/", {"first_name": "Testa"})
    page = answer.content.decode()
    assert (
        answer.status_code == 403 and "Nothing was sent" in page and "Sign in from another" in page
    )
