"""The access log: an entry is committed before the page, or there is no page."""

from __future__ import annotations

from uuid import uuid4

import pytest
from django.db import connection, transaction
from django.test import Client, RequestFactory
from pytest_django import Settings

from backoffice.accounts.models import User
from backoffice.audit.models import AuditEntry
from backoffice.audit.recording import record_list, record_view
from tests.api.rows import order, patient, staff

PASSWORD = "several made-up words"  # noqa: S105 - of a made-up person


@pytest.mark.django_db
def test_entry_has_actor_object_and_address(client: Client) -> None:
    user = staff("clinician")
    client.force_login(user)
    patient(1).save()
    order(1, user_id=patient(1).pk).save()
    client.get(f"/orders/{order(1).pk}/", REMOTE_ADDR="192.0.2.7")
    entry = AuditEntry.objects.get()
    assert (entry.actor, entry.actor_kind, entry.action) == (user, "staff", "view")
    assert (entry.object_type, entry.object_ids) == ("order", [str(order(1).pk)])
    assert entry.patient_ids == [patient(1).pk]
    assert (entry.route, entry.ip, entry.outcome) == ("orders:detail", "192.0.2.7", "ok")


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("behind_proxy", "address", "forwarded", "expected"),
    [
        (False, "192.0.2.7", "198.51.100.1", "192.0.2.7"),
        (False, "", "", None),
        (True, "127.0.0.1", "10.9.8.7, 198.51.100.1", "198.51.100.1"),
        (True, "", "198.51.100.1:4711", "198.51.100.1"),
        (True, "", "[2001:db8::1]:4711", "2001:db8::1"),
        (True, "127.0.0.1", "", "127.0.0.1"),
        (True, "127.0.0.1", "unknown", "127.0.0.1"),
        (True, "fe80::1%eth0", "]", "fe80::1"),
        (True, "", "somewhere", None),
    ],
)
def test_recorded_address_is_the_one_seen_by_proxy(
    rf: RequestFactory,
    settings: Settings,
    behind_proxy: bool,
    address: str,
    forwarded: str,
    expected: str | None,
) -> None:
    settings.BEHIND_PROXY = behind_proxy
    headers = {"X-Forwarded-For": forwarded} if forwarded else {}
    request = rf.get("/orders/", REMOTE_ADDR=address, headers=headers)
    request.user = staff("clinician")
    record_list(request, "order", [], [])
    assert AuditEntry.objects.get().ip == expected


@pytest.mark.django_db
def test_list_records_one_entry_with_shown_ids(rf: RequestFactory) -> None:
    request = rf.get("/orders/")
    request.user = staff("clinician")
    ids, people = [uuid4() for _ in range(3)], [uuid4(), None, uuid4()]
    record_list(request, "order", iter(ids), iter(people), searched=True)
    entry = AuditEntry.objects.get()
    assert (entry.action, entry.row_count) == ("search", 3)
    assert entry.object_ids == [str(key) for key in ids]
    assert set(entry.patient_ids) == {key for key in people if key}


@pytest.mark.django_db
def test_search_terms_are_not_recorded(client: Client) -> None:
    client.force_login(staff("clinician"))
    client.get("/patients/", {"q": "Canaryname"})
    entry = AuditEntry.objects.get()
    assert entry.action == "search"
    row = AuditEntry.objects.filter(pk=entry.pk).values().get()
    assert "anaryname" not in str(row)


@pytest.mark.django_db(transaction=True)
def test_recording_inside_a_transaction_is_refused(rf: RequestFactory) -> None:
    request = rf.get("/")
    request.user = staff("clinician")
    with transaction.atomic(), pytest.raises(RuntimeError):
        record_view(request, "patient", [], [])
    assert AuditEntry.objects.count() == 0


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("address", ["/patients/", "/orders/"])
def test_page_fails_without_access_log(client: Client, address: str) -> None:
    client.force_login(staff("clinician"))
    order(1, patient_first_name="Canaryname").save()
    table = AuditEntry._meta.db_table
    with connection.cursor() as cursor:
        cursor.execute(f"ALTER TABLE {table} RENAME TO audit_away")
    try:
        answer = client.get(address)
    finally:
        with connection.cursor() as cursor:
            cursor.execute(f"ALTER TABLE audit_away RENAME TO {table}")
    assert answer.status_code == 503
    assert b"Canaryname" not in answer.content
    assert AuditEntry.objects.count() == 0


@pytest.mark.django_db
def test_log_ins_and_failed_ones_are_recorded(client: Client) -> None:
    user = User.objects.create_user("ada-sample", password=PASSWORD)
    form = {"username": "ada-sample", "password": "wrong"}
    assert client.post("/accounts/login/", form).status_code == 200
    refused = AuditEntry.objects.get()
    assert (refused.actor, refused.action, refused.outcome) == (None, "login", "refused")
    assert client.post("/accounts/login/", {**form, "password": PASSWORD}).status_code == 302
    accepted = AuditEntry.objects.exclude(pk=refused.pk).get()
    assert (accepted.actor, accepted.action, accepted.outcome) == (user, "login", "ok")


@pytest.mark.django_db(transaction=True)
def test_log_in_fails_without_access_log(client: Client) -> None:
    User.objects.create_user("ada-sample", password=PASSWORD)
    table = AuditEntry._meta.db_table
    with connection.cursor() as cursor:
        cursor.execute(f"ALTER TABLE {table} RENAME TO audit_away")
    try:
        form = {"username": "ada-sample", "password": PASSWORD}
        answer = client.post("/accounts/login/", form)
    finally:
        with connection.cursor() as cursor:
            cursor.execute(f"ALTER TABLE audit_away RENAME TO {table}")
    assert answer.status_code == 503
    assert client.get("/orders/").status_code == 302


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("target", "expected_location"),
    [("/orders/?status=lost", "/orders/?status=lost"), ("https://evil.example/", "/"), ("", "/")],
)
def test_theme_is_stored_and_redirects_only_locally(
    client: Client, target: str, expected_location: str
) -> None:
    answer = client.post("/theme/", {"theme": "dark", "next": target})
    assert answer["Location"] == expected_location
    assert answer.cookies["theme"].value == "dark"
    assert 'data-theme="dark"' in client.get("/accounts/login/").content.decode()
    client.post("/theme/", {"theme": "purple"})
    assert client.get("/theme/").status_code == 405
