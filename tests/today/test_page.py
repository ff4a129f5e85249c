"""Today for each role. Its counts equal those of the lists, and its queries do not grow."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from backoffice.accounts.models import User
from backoffice.audit.models import AuditEntry
from backoffice.team.actions import assign, record_contact
from orders.exceptions import queue
from orders.models import Appointment, CriticalAnnouncement, Order, OrderDraft
from tests.api.rows import demographics, envelope, order, patient, staff, uid

pytestmark = pytest.mark.django_db(transaction=True)

ROLES = ("viewer", "front desk", "clinician", "lab coordinator", "lab admin", "administrator")


def log_in(role: str = "clinician") -> tuple[Client, User]:
    client, user = Client(), staff(role)
    client.force_login(user)
    return client, user


def make_order(n: int, **values: Any) -> Order:
    row = order(
        n,
        **{
            "user_id": uid("patient", n),
            "patient_first_name": f"Ada{n}",
            "patient_last_name": "Testperson",
            "patient_name": f"ada{n} testperson",
            "lab_test_name": "Made-up panel",
            "method": "testkit",
            "last_event_at": timezone.now(),
            **values,
        },
    )
    row.save(force_insert=True)
    return row


def make_visit(n: int, **values: Any) -> Appointment:
    return Appointment.objects.create(
        **{
            "id": uid("visit", n),
            "user_id": uid("patient", n),
            "order_id": uid("order", n),
            "type": "phlebotomy",
            "provider": "made_up",
            "status": "confirmed",
            "event_status": "scheduled",
            "start_at": timezone.now() + timedelta(minutes=1),
            "draw_day": timezone.now().date(),
            "iana_timezone": "America/Phoenix",
            **envelope(),
            **values,
        }
    )


def make_critical(row: Order) -> None:
    now = timezone.now()
    CriticalAnnouncement.objects.create(
        order=row, user_id=row.user_id, status="final", interpretation="critical",
        first_heard_at=now, heard_at=now, event_number=1, message_id=f"msg-{row.pk}",
    )  # fmt: skip


@pytest.fixture
def busy() -> None:
    """Create a few rows for every tile."""
    for n in range(1, 4):
        patient(n).save()
        demographics(n).save()
    make_order(1, bucket="needs-action", low_level_status="lost")
    make_critical(
        make_order(2, bucket="result-in", low_level_status="completed", interpretation="critical")
    )
    make_order(3, bucket="with-patient", low_level_status="requisition_created",
          method="at_home_phlebotomy")  # fmt: skip
    make_order(5, bucket="at-lab", quiet_at=timezone.now() - timedelta(days=1))
    make_visit(6)
    make_visit(4, start_at=None, draw_day=None, status="pending", event_status="pending")


@pytest.mark.parametrize("role", ROLES)
def test_users_who_see_orders_start_at_today(role: str, busy: None) -> None:
    client, _ = log_in(role)
    assert client.get("/").headers["Location"] == "/today/"
    answer = client.get("/today/")
    assert answer.status_code == 200
    assert b"Since you last checked" in answer.content


def test_auditor_does_not_start_at_today() -> None:
    client, _ = log_in("auditor")
    assert client.get("/today/").status_code == 403
    assert client.get("/today/counts/").status_code == 403
    assert client.post("/today/seen/all/").status_code == 403


def test_every_tile_counts_what_its_list_shows(busy: None) -> None:
    """An order with a problem that was also moved is in two groups and counts once."""
    client, _ = log_in("administrator")
    Order.objects.filter(pk=uid("order", 1)).update(user_id=uid("patient", 3))
    answer = client.get("/today/")
    tiles = {tile.label: tile for tile in (*answer.context["work"], *answer.context["buckets"])}
    for label in ("Exceptions", "Overdue", "Results to sign", "Ready to book", "Visits today",
                  "Requested, not scheduled", "Needs action", "With patient",
                  "Result in"):  # fmt: skip
        assert tiles[label].count.value > 0, label
    for label, tile in tiles.items():
        assert list_length(client, tile.url) == tile.count.value, label


def list_length(client: Client, url: str) -> int:
    """Return how many rows the list behind a tile shows."""
    answer = client.get(url)
    assert answer.status_code == 200, url
    if url == "/exceptions/":
        groups = [key for key in queue.EXCEPTION_GROUPS if key not in (queue.QUIET, queue.SNOOZED)]
        pages = [client.get(url, {"group": key}).context["page"] for key in groups]
        return len({row.pk for page in pages for row in page.rows})
    if "items" in answer.context:
        return len(answer.context["items"])
    return len(answer.context["page"].rows)


def test_today_hides_names_and_results_by_permission(busy: None) -> None:
    page = log_in("viewer")[0].get("/today/").content.decode()
    assert "Testperson" not in page and "A. T." in page
    page = log_in("front desk")[0].get("/today/").content.decode()
    assert "Ada2 Testperson" in page
    assert "Notify a clinician now" in page
    news = page[page.index("Since you last checked") :]
    assert "Critical" not in news
    page = log_in("clinician")[0].get("/today/").content.decode()
    assert "Critical" in page[page.index("Since you last checked") :]


def test_critical_bar_is_on_every_page(busy: None) -> None:
    client, _ = log_in()
    for address in ("/today/", "/orders/", f"/orders/{uid('order', 1)}/", "/patients/"):
        page = client.get(address).content.decode()
        assert "1 critical result" in page, address
        assert "icon-critical.svg" in page, address
    assert "<title>(1!) Today" in client.get("/today/").content.decode()
    CriticalAnnouncement.objects.all().delete()


def test_critical_bar_is_absent_without_criticals() -> None:
    client, _ = log_in()
    page = client.get("/today/").content.decode()
    assert "critical-bar" not in page and "icon-critical.svg" not in page
    assert "<title>Today" in page


def test_mine_lists_assignments_drafts_and_requests(busy: None) -> None:
    client, user = log_in()
    answer = client.get("/today/")
    assert b"Nothing assigned to you" in answer.content
    request = answer.wsgi_request
    assign(request, "order", uid("order", 1), user, uid("patient", 1))
    due = timezone.now() + timedelta(hours=3)
    record_contact(request, uid("patient", 1), "order", uid("order", 1), "voicemail", "", due)
    OrderDraft.objects.create(user=user, patient_id=uid("patient", 2), typed={"city": ["x"]})
    OrderDraft.objects.create(user=staff("nobody", "other"), patient_id=uid("patient", 3))
    answer = client.get("/today/")
    (held,) = answer.context["held"]
    assert held.order.pk == uid("order", 1) and held.due_at == due
    mine = answer.content.decode().split("mine-title", 2)[2].split("draws-title")[0]
    assert "Ada1 Testperson" in mine and "Ada2 Testperson" in mine
    assert "Ada3" not in mine


def test_what_was_shown_is_recorded(busy: None) -> None:
    client, user = log_in()
    client.get("/today/")
    entry = AuditEntry.objects.get(object_type="today")
    assert (entry.actor, entry.action) == (user, "list")
    assert str(uid("order", 1)) in entry.object_ids
    assert {uid("patient", 1), uid("patient", 2)} <= set(entry.patient_ids)


def test_number_of_queries_does_not_grow_with_the_work(busy: None) -> None:
    client, user = log_in("administrator")
    request = client.get("/today/").wsgi_request

    def query_count() -> int:
        with CaptureQueriesContext(connection) as asked:
            assert client.get("/today/").status_code == 200
        return len(asked)

    assign(request, "order", uid("order", 1), user, uid("patient", 1))
    OrderDraft.objects.create(user=user, patient_id=uid("patient", 2))
    few = query_count()
    for n in range(10, 40):
        make_order(n, bucket="needs-action", low_level_status="lost")
        make_visit(n)
        make_critical(make_order(n + 100))
        assign(request, "order", uid("order", n), user, uid("patient", n))
    assert query_count() == few <= 34


def test_tiles_can_be_polled_alone(busy: None) -> None:
    client, _ = log_in()
    page = client.get("/today/counts/").content.decode()
    assert page.startswith('<div id="tiles"') and "</html>" not in page
    assert re.search(r"<strong>1</strong><span>.*?Ready to book", page, re.S)
