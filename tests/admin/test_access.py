"""Access to the administration, and that it changes only what it should."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from backoffice.accounts.access import ROLES
from backoffice.accounts.models import User
from backoffice.admin import RecordAdmin, site
from backoffice.api.models import ApiToken
from backoffice.audit.models import AuditEntry
from labs.models import Lab, LabAccount
from orders.models import Order, Result, Transaction
from patients.models import Demographics, Patient
from tests.accounts.people import sign_in_recently_authenticated
from tests.api.rows import demographics, envelope, order, patient, staff, uid

pytestmark = pytest.mark.django_db

ADMINS = sorted(site._registry.items(), key=lambda pair: pair[0]._meta.label)
RECORD_ADMINS = [(model, kind) for model, kind in ADMINS if isinstance(kind, RecordAdmin)]


def route_name(model: Any, page: str) -> str:
    return f"admin:{model._meta.app_label}_{model._meta.model_name}_{page}"


@pytest.fixture
def administrator(client: Client) -> User:
    user = staff("administrator")
    sign_in_recently_authenticated(client, user)
    return user


@pytest.mark.parametrize("role", sorted(set(ROLES) - {"administrator"}))
def test_only_administrators_have_access(client: Client, role: str) -> None:
    user = staff(role)
    user.is_staff = True  # Django's own flag gives no access.
    user.save()
    client.force_login(user)
    for model, _ in ADMINS:
        assert client.get(reverse(route_name(model, "changelist"))).status_code == 403
    assert client.get("/admin/").status_code == 403
    assert client.get("/admin/accounts/user/add/").status_code == 403
    assert (
        client.post(f"/admin/accounts/user/{user.pk}/", {"roles": "administrator"}).status_code
        == 403
    )
    entry = AuditEntry.objects.latest("id")
    assert (entry.action, entry.outcome, entry.object_ids) == ("denied", "refused", ["admin.open"])
    assert "Administration" not in client.get("/", follow=True).content.decode()


def test_anonymous_user_is_redirected_to_log_in(client: Client) -> None:
    answer = client.get("/admin/accounts/user/")
    assert answer.status_code == 302
    assert answer["Location"] == f"{reverse('login')}?next=/admin/accounts/user/"


def test_index_links_to_all_pages(client: Client, administrator: User) -> None:
    page = client.get("/admin/").content.decode()
    for model, _ in ADMINS:
        assert f'href="{reverse(route_name(model, "changelist"))}"' in page
    for group in ("Staff and roles", "Labs", "Service records", "Operations", "Unknown values"):
        assert f">{group}</h2>" in page
    for route in ("events:list", "events:replay", "commands:list", "system:unknown", "runs:list"):
        assert f'href="{reverse(route)}' in page


@pytest.mark.parametrize(
    "path",
    ["login/", "logout/", "password_change/", "autocomplete/", "jsi18n/", "r/1/1/", "backoffice/",
     "accounts/user/1/password/", "accounts/user/1/delete/", "accounts/user/1/history/"],
)  # fmt: skip
def test_unused_pages_of_django_are_404(client: Client, administrator: User, path: str) -> None:
    for answer in (client.get(f"/admin/{path}"), client.post(f"/admin/{path}", {"post": "yes"})):
        assert answer.status_code == 404
    assert User.objects.filter(pk=administrator.pk).exists()


@pytest.mark.parametrize(("model", "kind"), ADMINS, ids=lambda one: getattr(one, "__name__", ""))
def test_list_refuses_filters_by_other_columns(
    client: Client, administrator: User, model: Any, kind: Any
) -> None:
    column = "password__startswith" if model is User else "id__gt"
    answer = client.get(reverse(route_name(model, "changelist")), {column: "a"})
    assert answer.status_code == 400


def test_password_hash_is_not_shown(client: Client, administrator: User) -> None:
    User.objects.filter(pk=administrator.pk).update(password="argon2$canary")
    for path in ("", f"{administrator.pk}/"):
        assert "canary" not in client.get(f"/admin/accounts/user/{path}").content.decode()


def test_secret_models_are_not_registered() -> None:
    names = {model.__name__ for model, _ in ADMINS}
    assert names.isdisjoint({"Session", "ApiToken", "AuditEntry", "Permission", "LogEntry"})
    assert ApiToken not in site._registry


# Mirrored records


def create_sample_rows() -> dict[Any, Any]:
    found = {
        Patient: patient(1, record='{"seen": "<b>canary</b>"}'),
        Order: order(1, method="testkit"),
        Transaction: Transaction(id=uid("transaction", 1), status="active", **envelope()),
        Result: Result(order_id=uid("order", 1), status="final", **envelope()),
        Lab: Lab(id=1, slug="lab-sample", name="Sample Lab", **envelope()),
        LabAccount: LabAccount(
            id=uid("account", 1), lab="lab-sample", status="active",
            delegated_flow="fully_delegated", provider_account_id="7", **envelope(),
        ),
    }  # fmt: skip
    demographics(1).save()
    for row in found.values():
        row.save()
    return found


def test_record_is_shown_as_received_and_view_is_recorded(
    client: Client, administrator: User
) -> None:
    rows = create_sample_rows()
    for number, (model, row) in enumerate(rows.items(), AuditEntry.objects.count() + 1):
        page = client.get(reverse(route_name(model, "change"), args=[row.pk]))
        assert page.status_code == 200
        assert AuditEntry.objects.count() == number
        entry = AuditEntry.objects.latest("id")
        assert (entry.action, entry.object_ids) == ("view", [str(row.pk)])
        assert page["Cache-Control"] == "no-store, private"
    page = client.get(reverse(route_name(Patient, "change"), args=[rows[Patient].pk]))
    assert "&lt;b&gt;canary&lt;/b&gt;" in page.content.decode()
    assert AuditEntry.objects.latest("id").patient_ids == [rows[Patient].pk]
    client.get(reverse(route_name(Result, "change"), args=[rows[Result].pk]))
    assert AuditEntry.objects.latest("id").patient_ids == [rows[Order].user_id]


def test_lists_name_codes(client: Client, administrator: User) -> None:
    create_sample_rows()
    page = client.get(reverse(route_name(LabAccount, "changelist"))).content.decode()
    assert page.count("Sample Lab (lab-sample)") == 2, "in the filter and in the row"
    assert "Active (active)" in page and ">active<" not in page
    page = client.get(reverse(route_name(Transaction, "changelist"))).content.decode()
    assert "Active (active)" in page


@pytest.mark.parametrize("http_method", ["post", "put", "patch", "delete"])
def test_records_cannot_be_changed(client: Client, administrator: User, http_method: str) -> None:
    for model, row in create_sample_rows().items():
        before = model.objects.values().get(pk=row.pk)
        address = reverse(route_name(model, "change"), args=[row.pk])
        sent = {**dict.fromkeys(before, "1"), "_save": "Save"}
        assert getattr(client, http_method)(address, sent).status_code == 405
        for path in ("add/", f"{row.pk}/delete/", f"{row.pk}/history/"):
            listed = reverse(route_name(model, "changelist"))
            assert getattr(client, http_method)(f"{listed}{path}", sent).status_code in (404, 405)
        actions = {"action": "delete_selected", "_selected_action": str(row.pk), "post": "yes"}
        if http_method == "post":
            client.post(reverse(route_name(model, "changelist")), {**actions, "index": "0"})
        assert model.objects.values().get(pk=row.pk) == before


def test_record_requires_its_permission(
    client: Client, administrator: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = create_sample_rows()[Patient]
    reduced = ROLES["administrator"] - {"records.view", "results.view"}
    monkeypatch.setitem(ROLES, "administrator", reduced)
    from backoffice.accounts import access

    access._permissions_of_roles.cache_clear()
    try:
        assert client.get(reverse(route_name(Patient, "change"), args=[row.pk])).status_code == 403
        assert client.get(reverse(route_name(Result, "changelist"))).status_code == 403
        assert (
            reverse(route_name(Result, "changelist")) not in client.get("/admin/").content.decode()
        )
    finally:
        access._permissions_of_roles.cache_clear()


@pytest.mark.parametrize("key", ["nonsense", "00000000-0000-4000-8000-0000000000aa", "9" * 40])
def test_unknown_record_is_404(client: Client, administrator: User, key: str) -> None:
    for model, _ in RECORD_ADMINS:
        assert client.get(reverse(route_name(model, "change"), args=[key])).status_code == 404
        assert client.post(reverse(route_name(model, "fetch"), args=[key])).status_code == 404


@pytest.mark.parametrize(
    ("model", "kind"), RECORD_ADMINS, ids=lambda one: getattr(one, "__name__", "")
)
def test_record_has_a_readable_name(model: Any, kind: RecordAdmin) -> None:
    assert model.__name__ not in str(model())


# Long lists


@pytest.mark.parametrize(
    ("model", "kind"), RECORD_ADMINS, ids=lambda one: getattr(one, "__name__", "")
)
def test_lists_use_an_index_and_do_not_count(
    client: Client, administrator: User, model: Any, kind: RecordAdmin
) -> None:
    address = reverse(route_name(model, "changelist"))
    client.get(address)
    with CaptureQueriesContext(connection) as queries:
        assert client.get(address).status_code == 200
    own = [one["sql"] for one in queries if f'FROM "{model._meta.db_table}"' in one["sql"]]
    lists = [sql for sql in own if "LIMIT 51" in sql]
    assert len(lists) == 1
    assert not [sql for sql in own if "COUNT(*)" in sql or "OFFSET" in sql]
    assert '"record"' not in lists[0]
    assert "Seq Scan" not in plan_of(lists[0], "seqscan", "sort", "bitmapscan")
    # A clinic has only a few lab accounts, so the provider's account number has no index.
    for sql in search_queries(client, address, model) if model is not LabAccount else ():
        # PostgreSQL finds a few rows equally well by scanning another index completely.
        plan = plan_of(sql, "seqscan", "indexscan", "indexonlyscan")
        assert f"Seq Scan on {model._meta.db_table}" not in plan and "Index Cond" in plan, plan


def plan_of(sql: str, *disabled: str) -> str:
    """Return the query plan as for a table so large that these methods are too slow."""
    with connection.cursor() as cursor:
        for method in disabled:
            cursor.execute(f"SET LOCAL enable_{method} = off")
        # One or two pages of earlier tests would be scanned just as cheaply.
        cursor.execute("SET LOCAL seq_page_cost = 1000000")
        cursor.execute(f"EXPLAIN {sql}")
        found = "\n".join(row[0] for row in cursor.fetchall())
        for method in ("seq_page_cost", *(f"enable_{method}" for method in disabled)):
            cursor.execute(f"RESET {method}")
    return found


def search_queries(client: Client, address: str, model: Any) -> list[str]:
    with CaptureQueriesContext(connection) as queries:
        assert client.get(address, {"q": str(uid("order", 1))}).status_code == 200
    own = (one["sql"] for one in queries if f'FROM "{model._meta.db_table}"' in one["sql"])
    return [sql for sql in own if "LIMIT 51" in sql]


def test_list_is_paged(client: Client, administrator: User) -> None:
    Order.objects.bulk_create(order(n) for n in range(120))
    seen = all_keys_by_paging(client, Order)
    assert seen == [row.pk for row in Order.objects.order_by("-created_at", "-id")]
    entry = AuditEntry.objects.latest("id")
    assert (entry.action, entry.object_type, entry.row_count) == ("list", "order", 20)


def all_keys_by_paging(client: Client, model: Any) -> list[Any]:
    """Return the keys of all rows of a list by following its links to the next page."""
    seen: list[Any] = []
    query: dict[str, str] = {}
    for _ in range(10):
        page = client.get(reverse(route_name(model, "changelist")), query).context["cl"].page
        seen += [row.pk for row in page.rows]
        if page.next is None:
            return seen
        query = {"after": page.next}
    raise AssertionError("the list has no end")


def test_lists_sorted_by_parent_key_are_paged_to_the_end(
    client: Client, administrator: User
) -> None:
    Patient.objects.bulk_create(patient(n) for n in range(120))
    Demographics.objects.bulk_create(demographics(n) for n in range(120))
    Order.objects.bulk_create(order(n) for n in range(120))
    Result.objects.bulk_create(Result(order_id=uid("order", n), **envelope()) for n in range(120))
    for model in (Demographics, Result):
        keys = model.objects.order_by("pk").values_list("pk", flat=True)
        assert all_keys_by_paging(client, model) == list(keys)


@pytest.mark.parametrize(
    ("typed", "found"),
    [(str(uid("order", 3)), 1), (f"  {uid('order', 3)} ", 1), ("SAMPLE-3", 1), ("SAMPLE", 0),
     ("nonsense", 0), ("", 50), ("\x00", 50)],
)  # fmt: skip
def test_search_finds_only_whole_ids(
    client: Client, administrator: User, typed: str, found: int
) -> None:
    Order.objects.bulk_create(order(n, sample_id=f"SAMPLE-{n}") for n in range(60))
    page = client.get(reverse(route_name(Order, "changelist")), {"q": typed})
    assert page.status_code == 200 and len(page.context["cl"].result_list) == found


def test_django_admin_log_is_not_written(client: Client, administrator: User) -> None:
    create_sample_rows()
    client.get("/admin/orders/order/")
    assert not LogEntry.objects.exists()
