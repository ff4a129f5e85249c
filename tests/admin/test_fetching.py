"""Fetching a mirrored record again: request, audit entry and result."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import pytest
from django.test import Client
from django.urls import reverse
from pytest_django import Settings

from backoffice.audit.models import AuditEntry
from backoffice.core import service_client
from backoffice.sync.models import Lookup, SyncRun
from backoffice.sync.runs import work_on_run
from labs import sync as labs_sync
from labs.models import Marker
from orders.models import Appointment, Order, Result, Transaction
from patients.models import Connection, Demographics, Insurance, Patient, Payor
from tests.api.rows import order, patient, staff, uid
from tests.outbox.harness import OutboxHarness
from tests.sandboxes import Sandbox, running

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(scope="module")
def own_sandbox() -> Iterator[Sandbox]:
    with running(users=6, orders=20, seed=4) as sandbox:
        yield sandbox


@pytest.fixture
def harness(own_sandbox: Sandbox, settings: Settings) -> Iterator[OutboxHarness]:
    settings.SERVICE_BASE_URL = settings.MANAGEMENT_BASE_URL = own_sandbox.url
    service_client.service.cache_clear()
    new_desk = OutboxHarness(own_sandbox)
    new_desk.sync_all()
    yield new_desk
    service_client.service.cache_clear()


def fetch(client: Client, row: Any) -> str:
    """Press the button and return the resulting page."""
    name = f"admin:{row._meta.app_label}_{row._meta.model_name}"
    answer = client.post(reverse(f"{name}_fetch", args=[row.pk]), follow=True)
    assert answer.status_code == 200
    return str(answer.content.decode())


def test_record_is_read_again_and_reported(harness: OutboxHarness) -> None:
    client = harness.client()
    row = Order.objects.earliest("created_at")
    changed = {**json.loads(row.record), "sample_id": "made up here"}
    Order.objects.filter(pk=row.pk).update(
        record=json.dumps(changed), sample_id="made up here", content_hash=b"0" * 16,
        updated_at="2000-01-01T00:00Z",
    )  # fmt: skip
    page = fetch(client, row)
    assert "Requested. It is fetched next." in page
    entry = AuditEntry.objects.get(object_type="fetch order again")
    assert (entry.action, entry.object_ids) == ("change", [str(row.pk)])
    assert entry.patient_ids == [row.user_id]
    harness.run_lookups()
    again = Order.objects.get(pk=row.pk)
    assert again.sample_id == row.sample_id and "made up here" not in again.record
    page = client.get(reverse("admin:orders_order_change", args=[row.pk])).content.decode()
    assert "Read just now." in page


def test_failed_read_is_reported(harness: OutboxHarness) -> None:
    client = harness.client()
    row = Order.objects.earliest("created_at")
    harness.add_fault("status", f"/v3/order/{row.pk}$", statuses=[500], times=9)
    fetch(client, row)
    harness.run_lookups()
    page = client.get(reverse("admin:orders_order_change", args=[row.pk])).content.decode()
    harness.sandbox.control("faults", {})
    lookup_error = Lookup.objects.get(kind="orders", key=str(row.pk)).error
    assert lookup_error and lookup_error in page and "Next try within a minute." in page


def test_each_kind_schedules_its_lookup(harness: OutboxHarness) -> None:
    client = harness.client()
    Lookup.objects.all().delete()
    appointment = Appointment.objects.first()
    rows: list[tuple[Any, str, Any]] = [
        (Patient.objects.first(), "users", "pk"),
        (Demographics.objects.first(), "demographics", "pk"),
        (Connection.objects.first(), "connections", "user_id"),
        (Insurance.objects.filter(is_primary=True).first(), "insurance-primary", "user_id"),
        (Payor.objects.first(), "payors", "name"),
        (Result.objects.first(), "results", "pk"),
    ]
    if appointment is not None:
        at_home = appointment.type == "phlebotomy"
        kind = "appointment-phlebotomy" if at_home else "appointment-psc"
        rows.append((appointment, kind, "order_id"))
    requested = 0
    for row, kind, column in rows:
        if row is not None:
            fetch(client, row)
            assert Lookup.objects.filter(kind=kind, key=str(getattr(row, column))).exists()
            requested += 1
    assert requested >= 4
    group = Transaction.objects.filter(orders__isnull=False).first()
    assert group is not None
    fetch(client, group)
    keys = {str(key) for key in group.orders.values_list("pk", flat=True)}
    assert set(Lookup.objects.filter(kind="orders").values_list("key", flat=True)) == keys


def test_record_without_own_call_is_read_with_its_list(harness: OutboxHarness) -> None:
    client = harness.client()
    SyncRun.objects.all().delete()
    row = Marker.objects.earliest("id")
    page = fetch(client, row)
    assert "These records can only be fetched with their whole list" in page
    assert SyncRun.objects.get().resource == "markers"
    assert "already in progress" in fetch(client, row)
    assert SyncRun.objects.count() == 1
    markers = next(one for one in labs_sync.SYNCED_LISTS if one.resource == "markers")
    work_on_run(markers, seconds=30)
    page = client.get(reverse("admin:labs_marker_change", args=[row.pk])).content.decode()
    assert "Done, just now." in page


@pytest.mark.django_db
def test_selected_records_are_fetched_but_never_all() -> None:
    client = Client()
    client.force_login(staff("administrator"))
    patient(1).save()
    Order.objects.bulk_create(order(n, user_id=uid("patient", 1)) for n in range(120))
    address = reverse("admin:orders_order_changelist")
    chosen = [str(uid("order", n)) for n in (1, 2, 3)]
    form = {"action": "fetch_again", "index": "0", "_selected_action": chosen}
    client.post(address, form)
    assert set(Lookup.objects.values_list("key", flat=True)) == set(chosen)
    entry = AuditEntry.objects.get(object_type="fetch order again")
    assert set(entry.object_ids) == set(chosen)
    client.post(address, {**form, "select_across": "1"})
    assert Lookup.objects.count() == 3, "only ticked records are fetched, never all"
    all_keys = [str(uid("order", n)) for n in range(120)]
    answer = client.post(address, {**form, "_selected_action": all_keys}, follow=True)
    assert "at most 100" in answer.content.decode() and Lookup.objects.count() == 3
    answer = client.post(address, {"action": "fetch_again", "index": "0"}, follow=True)
    assert Lookup.objects.count() == 3 and "must be selected" in answer.content.decode()
    for key in ("-1", "a\0b"):
        answer = client.post(address, {**form, "_selected_action": [*chosen, key]})
        assert answer.status_code == 400 and "not in this list" in answer.content.decode()
        assert client.get(f"{address}{quote(key)}/").status_code == 404


@pytest.mark.django_db
def test_fetching_requires_post_with_csrf_token() -> None:
    client = Client(enforce_csrf_checks=True)
    client.force_login(staff("administrator"))
    row = patient(1)
    row.save()
    address = reverse("admin:patients_patient_fetch", args=[row.pk])
    assert client.get(address).status_code == 405
    assert client.post(address).status_code == 403
    assert not Lookup.objects.exists()
