"""Downloads: what the filter, the columns and the role give, safe for table programs, recorded."""

from __future__ import annotations

import csv
import io
import resource
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test import Client

from backoffice.accounts.models import User
from backoffice.audit.models import AuditEntry
from backoffice.pages.lists import export
from orders.models import Appointment, Order
from tests.api.rows import NOW, demographics, envelope, order, patient, staff, uid
from tests.audit.trail import delete_all_entries

pytestmark = pytest.mark.django_db

ADDRESS = "/orders/"


@pytest.fixture
def clinician(client: Client) -> User:
    user = staff("clinician")
    User.objects.filter(pk=user.pk).update(time_zone="America/New_York")
    client.force_login(user)
    return user


def text_of(answer: Any) -> str:
    assert answer.status_code == 200 and answer.streaming
    return b"".join(answer.streaming_content).decode()


def table(client: Client, query: str = "", **more: Any) -> list[dict[str, str]]:
    answer = client.post(f"{ADDRESS}export/", {"query": query, "everything": "1", **more})
    return list(csv.DictReader(io.StringIO(text_of(answer))))


def test_it_honours_filter_sort_and_columns(client: Client, clinician: User) -> None:
    for n in (1, 2, 3):
        order(n, low_level_status="lost" if n < 3 else "ordered", sample_id=f"S-{n}").save()
    rows = table(client, "status=lost&order_key=created_at&order_direction=asc",
                 column=["patient", "sample", "status"])  # fmt: skip
    assert [row["Sample"] for row in rows] == ["S-2", "S-1"]
    assert list(rows[0]) == [
        "Order",
        "First name",
        "Last name",
        "Sample",
        "Status",
        "Status detail",
    ]
    assert rows[0]["Order"] == str(uid("order", 2)) and rows[0]["Status"] == "Lost"


def test_only_the_ticked_rows(client: Client, clinician: User) -> None:
    for n in (1, 2, 3):
        order(n).save()
    answer = client.post(f"{ADDRESS}export/", {"key": [str(uid("order", 2))], "query": ""})
    assert text_of(answer).count("\n") == 2


def test_times_name_their_zone(client: Client, clinician: User) -> None:
    order(1, created_at=NOW).save()
    (row,) = table(client)
    assert row["Ordered (America/New_York)"] == "2026-11-20T07:00:00-05:00"


@pytest.mark.parametrize("mark", ["=", "+", "-", "@", "\t", "\r", " =", "＝"])
def test_no_cell_calculates(client: Client, clinician: User, mark: str) -> None:
    order(1, patient_first_name=f'{mark}HYPERLINK("x","y")', lab_test_name="Plain = text").save()
    (row,) = table(client)
    assert row["First name"].startswith("'")
    assert row["Test"] == "Plain = text"


def test_the_mark_for_table_programs_is_a_choice(client: Client, clinician: User) -> None:
    order(1).save()
    plain = client.post(f"{ADDRESS}export/", {"everything": "1"})
    marked = client.post(f"{ADDRESS}export/", {"everything": "1", "bom": "1"})
    assert not text_of(plain).startswith("\ufeff")
    assert text_of(marked).startswith("\ufeffOrder,")
    assert marked["Content-Type"] == "text/csv; charset=utf-8"
    assert 'filename="orders-' in marked["Content-Disposition"]


def test_it_is_recorded_with_its_rows(client: Client, clinician: User) -> None:
    for n in (1, 2):
        order(n).save()
    table(client)
    entry = AuditEntry.objects.get(action="export")
    assert (entry.object_type, entry.row_count, entry.actor) == ("order", 2, clinician)
    assert set(entry.patient_ids) == {uid("patient", 1), uid("patient", 2)}


def test_it_is_recorded_before_anything_leaves(client: Client, clinician: User) -> None:
    order(1).save()
    with connection.cursor() as cursor:
        cursor.execute("ALTER TABLE audit_auditentry RENAME TO gone")
        try:
            answer = client.post(f"{ADDRESS}export/", {"everything": "1"})
            assert answer.status_code == 503
        finally:
            cursor.execute("ALTER TABLE gone RENAME TO audit_auditentry")


def test_nothing_of_what_a_role_does_not_show(client: Client, clinician: User) -> None:
    order(1, patient_first_name="Canary", patient_last_name="Sample", interpretation="critical",
          patient_dob="1984-02-29").save()  # fmt: skip
    every = ["patient", "born", "result", "status", "lab", "transaction"]
    client.force_login(staff("front desk"))
    (row,) = table(client, column=every)
    assert row["First name"] == "Canary" and "Result" not in row
    client.force_login(staff("viewer"))
    assert client.post(f"{ADDRESS}export/", {"everything": "1"}).status_code == 403
    answer = client.get(ADDRESS)
    assert b"Download CSV" not in answer.content


def test_a_filter_that_cannot_be_read_exports_nothing(client: Client, clinician: User) -> None:
    order(1).save()
    answer = client.post(f"{ADDRESS}export/", {"query": "interpretation=fine", "everything": "1"})
    assert answer.status_code == 302
    assert not AuditEntry.objects.filter(action="export").exists()


def test_patients_by_name_and_by_search(client: Client, clinician: User) -> None:
    for n in (1, 2, 3):
        patient(n).save()
        demographics(n, name_key=f"ada{9 - n} testperson").save()
    patient(4).save()
    answer = client.post("/patients/export/", {"everything": "1", "query": "order_key=name"})
    rows = list(csv.DictReader(io.StringIO(text_of(answer))))
    assert [row["First name"] for row in rows] == ["Ada3", "Ada2", "Ada1"]
    assert rows[0]["Phone"] == "'+15550100"
    answer = client.post("/patients/export/", {"everything": "1", "query": "q=ada8"})
    assert text_of(answer).count("\n") == 2
    chosen = {"key": [str(uid("patient", n)) for n in (3, 1, 4)], "query": "order_key=name"}
    rows = list(csv.DictReader(io.StringIO(text_of(client.post("/patients/export/", chosen)))))
    assert [row["First name"] for row in rows] == ["Ada3", "Ada1"]
    assert AuditEntry.objects.filter(action="export", object_type="patient").count() == 3


def test_many_rows_come_in_pages_of_flat_memory(client: Client, clinician: User) -> None:
    """Thousands of rows: each once, in the order of the list, in parts that are recorded."""
    number = 4 * export.PAGE + 1
    Order.objects.bulk_create(
        (
            order(n, created_at=NOW - timedelta(seconds=n // 3), patient_name=f"ada {n % 7}")
            for n in range(number)
        ),
        batch_size=5_000,
    )
    for key in ("created_at", "patient_name"):
        delete_all_entries()
        answer = client.post(
            f"{ADDRESS}export/",
            {"everything": "1", "query": f"order_key={key}", "column": ["patient", "ordered"]},
        )
        seen: set[bytes] = set()
        lines, high = 0, 0
        for part in answer.streaming_content:  # type: ignore[attr-defined]
            found = part.splitlines()
            lines += len(found)
            seen.update(line[:36] for line in found)
            high = high or resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - high
        assert lines == len(seen) == number + 1
        assert grown < 15_000, f"{grown} kB more than after the first part"
        parts = AuditEntry.objects.filter(action="export").values_list("row_count", flat=True)
        assert sum(row or 0 for row in parts) == number
        assert len(parts) == 5


@pytest.mark.parametrize("role", ["clinician", "front desk"])
def test_visits_in_the_zone_of_the_draw(client: Client, role: str) -> None:
    user = staff(role)
    User.objects.filter(pk=user.pk).update(time_zone="America/Denver")
    client.force_login(user)
    order(1, patient_first_name="Canary", patient_last_name="Sample").save()
    visit(1, start_at=NOW, iana_timezone="America/New_York", city="Springfield").save()
    visit(3, start_at=NOW, iana_timezone="", state="TX").save()
    visit(4, start_at=NOW, iana_timezone=None, state="AE").save()
    visit(2, start_at=NOW, status="cancelled").save()
    answer = client.post("/appointments/export/", {"query": "show=past", "everything": "1"})
    rows = {row["Draw time zone"]: row for row in csv.DictReader(io.StringIO(text_of(answer)))}
    assert {zone: (row["Draw time"], row["Draw time zone is"]) for zone, row in rows.items()} == {
        "America/New_York": ("2026-11-20T07:00-05:00", "given"),
        "America/Chicago": ("2026-11-20T06:00-06:00", "assumed from the state"),
        "UTC": ("2026-11-20T12:00+00:00", "unknown"),
    }
    row = rows["America/New_York"]
    assert row["Your time (America/Denver)"] == "2026-11-20T05:00:00-07:00"
    assert (row["Patient"], row["City"]) == ("Canary Sample", "Springfield")
    assert AuditEntry.objects.get(action="export").object_type == "appointment"


def test_visits_are_not_downloaded_without_the_permission(client: Client) -> None:
    client.force_login(staff("viewer"))
    assert client.post("/appointments/export/", {"query": ""}).status_code == 403
    assert b"appointments/export" not in client.get("/appointments/").content


def visit(n: int, **values: Any) -> Appointment:
    return Appointment(
        **{
            "id": uid("visit", n),
            "user_id": uid("patient", 1),
            "order_id": uid("order", 1),
            "type": "phlebotomy",
            "provider": "made-up",
            "status": "confirmed",
            "event_status": "scheduled",
            "draw_day": NOW.date(),
            **envelope(),
            **values,
        }
    )
