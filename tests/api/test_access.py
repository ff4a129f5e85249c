"""Who may read the JSON API, and how it refuses."""

from __future__ import annotations

from io import StringIO

import pytest
from django.core.management import CommandError, call_command
from django.test import Client

from backoffice.accounts.models import User
from backoffice.api.models import ApiToken
from backoffice.api_urls import urlpatterns
from backoffice.audit.models import AuditEntry
from tests.api.rows import order, patient, staff, token_for

pytestmark = pytest.mark.django_db

RESOURCES = [
    "patients",
    "connections",
    "insurance",
    "payors",
    "labs",
    "markers",
    "lab-tests",
    "lab-accounts",
    "orders",
    "appointments",
    "transactions",
    "results",
    "pulls",
    "reports",
    "events",
    "runs",
]


@pytest.mark.parametrize("name", RESOURCES)
def test_a_token_reads_every_resource(client: Client, name: str) -> None:
    answer = client.get(f"/api/{name}/", headers=token_for(staff("service account")))
    assert answer.status_code == 200
    assert answer.json() == {"results": [], "next": None}
    assert answer["Cache-Control"] == "no-store, private"


def test_every_resource_is_in_the_table() -> None:
    assert {f"api-{name}" for name in RESOURCES} <= {each.name for each in urlpatterns}


@pytest.mark.parametrize("name", [*RESOURCES, "schema"])
def test_a_stranger_is_asked_who_they_are(client: Client, name: str) -> None:
    answer = client.get(f"/api/{name}/")
    assert answer.status_code == 401
    assert answer["WWW-Authenticate"].startswith("Token")
    assert answer.json().keys() == {"code", "message", "request_id"}
    assert answer.json()["code"] == "not_authenticated"


def test_one_id_in_the_error_the_answer_and_the_audit(client: Client) -> None:
    client.force_login(staff("front desk"))
    answer = client.get("/api/results/")
    known = answer.json()["request_id"]
    assert len(known) == 32
    assert answer["X-Request-ID"] == AuditEntry.objects.get().request_id == known
    assert client.get("/api/results/").json()["request_id"] != known


def test_an_unknown_token_is_refused(client: Client) -> None:
    staff("service account")
    answer = client.get("/api/orders/", headers={"Authorization": "Token nothing"})
    assert answer.status_code == 401
    assert answer.json()["code"] == "authentication_failed"


def test_a_token_dies_with_its_account(client: Client) -> None:
    account = staff("service account")
    headers = token_for(account)
    account.is_active = False
    account.save()
    assert client.get("/api/orders/", headers=headers).status_code == 401


def test_a_session_reads_too(client: Client) -> None:
    client.force_login(staff("clinician"))
    assert client.get("/api/orders/").status_code == 200


@pytest.mark.parametrize(
    ("role", "name"),
    [("viewer", "orders"), ("front desk", "results"), ("clinician", "runs"), ("auditor", "labs")],
)
def test_a_role_below_is_told_why_and_recorded(client: Client, role: str, name: str) -> None:
    patient(1).save()
    client.force_login(staff(role))
    answer = client.get(f"/api/{name}/")
    assert answer.status_code == 403
    assert answer.json()["code"] == "permission_denied"
    assert "Your roles must allow you to read data through the JSON API" in answer.json()["message"]
    assert [each.action for each in AuditEntry.objects.all()] == ["denied"]


@pytest.mark.parametrize("method", ["post", "put", "patch", "delete", "options"])
def test_nothing_can_be_written(client: Client, method: str) -> None:
    headers = token_for(staff("service account"))
    order(1).save()
    for address in ("/api/orders/", f"/api/orders/{order(1).pk}/"):
        answer = getattr(client, method)(address, headers=headers)
        assert answer.status_code == 405
        assert answer.json()["code"] == "method_not_allowed"


def test_the_record_is_for_those_who_may_see_records(client: Client) -> None:
    order(1, record='{"id": 1}').save()
    client.force_login(staff("clinician"))
    assert client.get("/api/orders/").json()["results"][0]["record"] is None
    client.force_login(staff("lab admin"))
    assert client.get("/api/orders/").json()["results"][0]["record"] == {"id": 1}


def test_times_are_the_same_for_everybody(client: Client) -> None:
    order(1).save()
    user = staff("clinician")
    User.objects.filter(pk=user.pk).update(time_zone="Asia/Kolkata")
    client.force_login(user)
    assert client.get("/api/orders/").json()["results"][0]["as_of"].endswith("Z")


def test_an_address_that_does_not_exist(client: Client) -> None:
    answer = client.get("/api/nothing/", headers=token_for(staff("service account")))
    assert answer.status_code == 404
    assert answer.json()["code"] == "not_found"


def test_use_of_a_token_is_noted_at_most_once_a_minute(client: Client) -> None:
    headers = token_for(staff("service account"))
    client.get("/api/labs/", headers=headers)
    first = ApiToken.objects.get().last_used_at
    client.get("/api/labs/", headers=headers)
    assert first is not None
    assert ApiToken.objects.get().last_used_at == first


def _createtoken(name: str) -> str:
    out = StringIO()
    call_command("createtoken", name, stdout=out, stderr=StringIO())
    return out.getvalue().rstrip("\n").rpartition("\n")[2]


def test_createtoken_makes_an_account_that_can_read(client: Client) -> None:
    token = _createtoken("reporting")
    account = User.objects.get(username="reporting")
    assert not account.has_usable_password()
    assert not account.is_staff
    assert not account.is_superuser
    headers = {"Authorization": f"Token {token}"}
    for name in RESOURCES:
        assert client.get(f"/api/{name}/", headers=headers).status_code == 200
    again = _createtoken("reporting")
    assert again != token
    assert User.objects.count() == 1
    assert client.get("/api/labs/", headers=headers).status_code == 200


def test_createtoken_leaves_staff_alone() -> None:
    staff("clinician", "casey")
    with pytest.raises(CommandError, match="staff member"):
        _createtoken("casey")
    assert ApiToken.objects.count() == 0


def test_how_a_result_is_stays_with_those_who_may_see_results(client: Client) -> None:
    order(1, interpretation="critical").save()
    for role, said in (("front desk", None), ("clinician", "critical")):
        headers = token_for(staff(role))
        (item,) = client.get("/api/orders/", headers=headers).json()["results"]
        assert item["interpretation"] == said
        one = client.get(f"/api/orders/{order(1).pk}/", headers=headers).json()
        assert one["interpretation"] == said
