"""The list of orders: every filter of `GET /v3/orders`, paging, counts, access."""

from __future__ import annotations

import base64
import json
import re
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from backoffice.accounts.models import User
from backoffice.audit.models import AuditEntry
from orders.models import Order
from patients.search_keys import name_key
from tests.api.rows import NOW, order, staff, uid

pytestmark = pytest.mark.django_db

ADDRESS = "/orders/"


def named_order(n: int, first: str, last: str, **values: Any) -> Order:
    name = name_key(first, last)
    return order(
        n,
        **{
            "patient_first_name": first,
            "patient_last_name": last,
            "patient_name": name,
            "recipient_name": name,
            **values,
        },
    )


def make_order(n: int, first: str = "", last: str = "", **values: Any) -> Order:
    row = named_order(n, first, last, **values)
    row.save()
    return row


def shown_orders(client: Client, *, code: int = 200, **query: Any) -> list[int]:
    """Return the numbers of the orders on the page, in their order."""
    answer = client.get(ADDRESS, query)
    assert answer.status_code == code, answer.content.decode()
    numbers = {uid("order", n): n for n in range(400)}
    return [numbers[row.pk] for row in answer.context["page"].rows]


@pytest.mark.parametrize("sort", ["created_at", "patient_name"])
@pytest.mark.parametrize("direction", ["asc", "desc"])
@pytest.mark.parametrize(("last_names", "expected_total"), [(7, "110"), (1_300, "500+")])
def test_list_finds_a_page_for_few_or_many_names(
    client: Client,
    clinician: User,
    sort: str,
    direction: str,
    last_names: int,
    expected_total: str,
) -> None:
    Order.objects.bulk_create(
        named_order(n, ("Ada", "Bea")[n % 2], f"Sample{n % last_names}")
        for n in range(max(220, last_names))
    )
    adas = Order.objects.filter(patient_first_name="Ada")
    query_values = {"patient_name": "ad", "search_input": "sam", "size": "100"}
    query_values |= {"order_key": sort, "order_direction": direction}
    first = client.get(ADDRESS, query_values)
    assert str(first.context["total"]) == expected_total
    rows = [row.pk for row in first.context["page"].rows]
    last = first
    while after := last.context["page"].next:
        last = client.get(ADDRESS, {**query_values, "after": after, "at": str(len(rows) + 1)})
        rows += [row.pk for row in last.context["page"].rows]
    assert str(last.context["total"]) == str(adas.count())
    sign = "-" if direction == "desc" else ""
    expected = adas.order_by(f"{sign}{sort}", f"{sign}pk").values_list("pk", flat=True)
    assert rows == list(expected)
    again = client.get(ADDRESS, {**query_values, "before": last.context["page"].previous})
    before = len(rows) - len(last.context["page"].rows)
    assert [row.pk for row in again.context["page"].rows] == rows[before - 100 : before]


def test_empty_search_text_matches_nothing(client: Client, clinician: User) -> None:
    make_order(1, "Ada", "Sample")
    assert shown_orders(client, shipping_recipient_name="ada") == [1]
    assert shown_orders(client, shipping_recipient_name="ada", patient_name="--") == []
    assert shown_orders(client, patient_name="--") == []


def test_list_shows_order_with_all_columns(client: Client, clinician: User) -> None:
    make_order(1, "José", "Núñez-Sample", bucket="needs-action", low_level_status="sample_error",
          status_detail="sample_hemolyzed", interpretation="critical", priority=True,
          lab_test_name="Made-up panel", method="testkit", origin="redraw")  # fmt: skip
    answer = client.get(ADDRESS)
    page = answer.content.decode()
    for words in ("José Núñez-Sample", "Sample unusable", "Sample hemolyzed", "Critical",
                  "Priority", "Made-up panel", "Test kit", "Redraw", "1 match"):  # fmt: skip
        assert words in page
    assert f'href="/orders/{uid("order", 1)}/"' in page


def test_list_and_search_are_recorded(client: Client, clinician: User) -> None:
    make_order(1)
    make_order(2)
    shown_orders(client, status="delivered_to_lab")
    shown_orders(client, search_input="nobody")
    listed, searched = AuditEntry.objects.order_by("pk")
    assert (listed.action, listed.row_count) == ("list", 2)
    assert set(listed.patient_ids) == {uid("patient", 1), uid("patient", 2)}
    assert (searched.action, searched.row_count) == ("search", 0)


def test_empty_mirror_and_empty_result_have_different_texts(
    client: Client, clinician: User
) -> None:
    assert b"No orders yet" in client.get(ADDRESS).content
    make_order(1)
    assert b"No matching orders" in client.get(ADDRESS, {"status": "lost"}).content
    assert b"No matching orders" in client.get(ADDRESS, {"bucket": "closed"}).content


@pytest.fixture
def many(clinician: User) -> None:
    make_order(1, "Maria", "Testperson", low_level_status="lost", bucket="needs-action",
          method="testkit", interpretation="critical", sample_id="S-77",
          order_transaction_id=uid("transaction", 1), patient_dob="1984-02-29")  # fmt: skip
    make_order(2, "Anne-Marie", "Sample", low_level_status="ordered", bucket="preparing",
          method="walk_in_test", interpretation="normal", activate_by="2999-01-01",
          order_transaction_id=uid("transaction", 1), recipient_name="zoe placeholder")  # fmt: skip
    make_order(3, "José", "Núñez", low_level_status="completed", bucket="result-in",
          method="at_home_phlebotomy", interpretation="abnormal", activate_by="2020-01-01",
          updated_at=NOW + timedelta(days=2))  # fmt: skip
    make_order(4, "Wei", "O'Madeup", low_level_status="teleported", bucket="unknown",
          method="by_drone", created_at=NOW - timedelta(days=30))  # fmt: skip


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ({}, [1, 2, 3, 4]),
        ({"status": "lost"}, [1]),
        ({"status": ["lost", "completed"]}, [1, 3]),
        ({"status": "teleported"}, [4]),
        ({"status": "never_seen"}, []),
        ({"bucket": "preparing"}, [2]),
        ({"bucket": "unknown"}, [4]),
        ({"order_type": "testkit"}, [1]),
        ({"order_type": ["walk_in_test", "by_drone"]}, [2, 4]),
        ({"is_critical": "true"}, [1]),
        ({"is_critical": "false"}, [2, 3, 4]),
        ({"interpretation": "abnormal"}, [3]),
        ({"order_activation_types": "current"}, [1, 3, 4]),
        ({"order_activation_types": "scheduled"}, [2]),
        ({"order_activation_types": ["current", "scheduled"]}, [1, 2, 3, 4]),
        ({"user_id": uid("patient", 3)}, [3]),
        ({"order_ids": [uid("order", 1), uid("order", 4)]}, [1, 4]),
        ({"order_ids": f"{uid('order', 2)}, {uid('order', 3)}"}, [2, 3]),
        ({"order_transaction_id": uid("transaction", 1)}, [1, 2]),
        ({"patient_name": "nunez"}, [3]),
        ({"patient_name": "Núñ jos"}, [3]),
        ({"patient_name": "zoe"}, []),
        ({"patient_name": "unez"}, []),
        ({"patient_name": "o'mad"}, [4]),
        ({"shipping_recipient_name": "Zoë"}, [2]),
        ({"shipping_recipient_name": "anne"}, []),
        ({"start_date": "2026-11-01"}, [1, 2, 3]),
        ({"end_date": "2026-11-01"}, [4]),
        ({"start_date": "2026-10-21T12:00:00Z", "end_date": "2026-10-21T12:00:00Z"}, [4]),
        ({"updated_start_date": "2026-11-21"}, [3]),
        ({"updated_end_date": "2026-11-21"}, [1, 2, 4]),
        ({"search_input": "mar"}, [1, 2]),
        ({"search_input": "mar tes"}, [1]),
        ({"search_input": "placeholder"}, [2]),
        ({"search_input": "1984-02-29"}, [1]),
        ({"search_input": "29 Feb 1984"}, [1]),
        ({"search_input": "2/29/1984"}, [1]),
        ({"search_input": "S-77"}, [1]),
        ({"search_input": str(uid("order", 3))}, [3]),
        ({"search_input": str(uid("order", 3))[:6]}, [3]),
        ({"search_input": str(uid("patient", 2))}, [2]),
        ({"search_input": "'; drop table"}, []),
        ({"status": ["lost", "ordered"], "order_type": "testkit", "patient_name": "m"}, [1]),
    ],
)
def test_filters_combine(
    client: Client, many: None, query: dict[str, Any], expected: list[int]
) -> None:
    assert shown_orders(client, **query) == expected


@pytest.mark.parametrize(
    "query",
    [
        {"user_id": "42"},
        {"order_ids": "abc"},
        {"start_date": "yesterday"},
        {"start_date": "2026-02-31"},
        {"size": "0"},
        {"size": "101"},
        {"order_key": "price"},
        {"interpretation": "fine"},
        {"status": "\x00"},
        {"order_type": "test\x00kit"},
        {"order_activation_types": "\x00"},
        {"bucket": "\x00"},
        {"order_ids": "\x00"},
        {"start_date": "\x00"},
        {"start_date": "0001-01-01T00:00:00+05:00"},
        {"end_date": "9999-12-31T23:59:59-05:00"},
    ],
)
def test_invalid_filter_is_refused_with_a_message(
    client: Client, many: None, query: dict[str, str]
) -> None:
    assert shown_orders(client, code=400, **query) == []
    assert b'role="alert"' in client.get(ADDRESS, query).content


def test_date_filter_uses_time_zone_of_user(client: Client, clinician: User) -> None:
    User.objects.filter(pk=clinician.pk).update(time_zone="America/New_York")
    make_order(1, created_at=datetime(2026, 11, 21, 4, 59, tzinfo=UTC))
    make_order(2, created_at=datetime(2026, 11, 21, 5, 1, tzinfo=UTC))
    assert shown_orders(client, end_date="2026-11-20") == [1]
    assert shown_orders(client, start_date="2026-11-21") == [2]


@pytest.mark.parametrize(
    ("key", "direction", "expected"),
    [
        ("", "", [1, 2, 3, 4]),
        ("created_at", "asc", [4, 3, 2, 1]),
        ("updated_at", "desc", [3, 4, 2, 1]),
        ("patient_name", "", [2, 3, 1, 4]),
        ("patient_name", "desc", [4, 1, 3, 2]),
        ("last_status", "asc", [3, 1, 2, 4]),
    ],
)
def test_list_sorts_by_each_column(
    client: Client, many: None, key: str, direction: str, expected: list[int]
) -> None:
    Order.objects.filter(pk=uid("order", 2)).update(updated_at=NOW + timedelta(minutes=1))
    Order.objects.filter(pk=uid("order", 4)).update(updated_at=NOW + timedelta(minutes=2))
    assert shown_orders(client, order_key=key, order_direction=direction) == expected


@pytest.mark.parametrize("key", ["created_at", "updated_at", "patient_name", "last_status"])
@pytest.mark.parametrize("direction", ["asc", "desc"])
def test_paging_shows_every_order_once_in_both_directions(
    client: Client, clinician: User, key: str, direction: str
) -> None:
    """Ties in the sort column are included: four names, two statuses, one update time."""
    for n in range(1, 24):
        make_order(n, f"Ada{n % 4}", "Sample", low_level_status=f"status_{n % 2}")
    query = {"order_key": key, "order_direction": direction, "size": "5"}
    pages: list[list[int]] = []
    after: dict[str, str] = {}
    while True:
        answer = client.get(ADDRESS, {**query, **after})
        pages.append([row.pk for row in answer.context["page"].rows])
        if not answer.context["page"].next:
            break
        after = {"after": answer.context["page"].next}
    shown = [pk for page in pages for pk in page]
    assert [len(page) for page in pages] == [5, 5, 5, 5, 3]
    assert len(set(shown)) == 23
    full = client.get(ADDRESS, {**query, "size": "100"}).context["page"].rows
    assert shown == [row.pk for row in full]
    for page in reversed(pages[:-1]):
        answer = client.get(ADDRESS, {**query, "before": answer.context["page"].previous})
        assert [row.pk for row in answer.context["page"].rows] == page
    assert answer.context["page"].previous is None


def test_url_of_the_next_page_has_no_name(client: Client, clinician: User) -> None:
    for n in range(3):
        make_order(n, f"Canary{n}", "Sample")
    answer = client.get(ADDRESS, {"order_key": "patient_name", "size": "1"})
    cursor = answer.context["page"].next
    assert b"anary" not in base64.urlsafe_b64decode(cursor + "==").lower()


@pytest.mark.parametrize("cursor", ["x", "W10", "bnVsbA", "WyJhIiwiYiJd", "A" * 600, "ÿ\x00"])
def test_unreadable_cursor_shows_the_first_page(client: Client, many: None, cursor: str) -> None:
    assert shown_orders(client, after=cursor) == [1, 2, 3, 4]


@pytest.mark.parametrize("value", ["\x00", "\ud800"])
def test_cursor_out_of_range_shows_the_first_page(client: Client, many: None, value: str) -> None:
    cursor_values = json.dumps([value, NOW.isoformat(), str(uid("order", 1))])
    cursor = base64.urlsafe_b64encode(cursor_values.encode()).decode().rstrip("=")
    assert shown_orders(client, order_key="last_status", after=cursor) == [3, 1, 2, 4]


def test_day_at_the_end_of_the_calendar_is_refused(client: Client, clinician: User) -> None:
    User.objects.filter(pk=clinician.pk).update(time_zone="Asia/Kolkata")
    assert shown_orders(client, code=400, start_date="0001-01-01") == []


@pytest.mark.parametrize(
    ("first", "last"), [("start_date", "end_date"), ("updated_start_date", "updated_end_date")]
)
def test_reversed_date_range_shows_error_at_last_field(
    client: Client, many: None, first: str, last: str
) -> None:
    answer = client.get(ADDRESS, {first: "2026-03-05", last: "2026-03-04"})
    assert (answer.status_code, answer.context["page"].rows) == (200, [])
    assert list(answer.context["filters"].errors) == [last]
    assert "This is before the first day." in answer.content.decode()
    assert client.get(ADDRESS, {first: "2026-03-05", last: "soon"}).status_code == 400


def test_name_filter_explains_its_matching(client: Client, clinician: User) -> None:
    assert client.get(ADDRESS).content.count(b"The beginning of each name") == 2


def test_tabs_show_bucket_counts(client: Client, many: None) -> None:
    tabs = {tab.family: str(tab.count) for tab in client.get(ADDRESS).context["tabs"]}
    assert tabs == {
        "": "None", "needs-action": "1", "preparing": "1", "with-patient": "0", "on-the-way": "0",
        "at-lab": "0", "result-in": "1", "closed": "0", "unknown": "1",
    }  # fmt: skip


def test_chips_show_active_filters_with_a_link_to_remove_them(client: Client, many: None) -> None:
    page = client.get(ADDRESS, {"status": ["lost", "ordered"], "order_type": "testkit"})
    assert [each["label"] for each in page.context["active_filters"]] == [
        "Status: Lost",
        "Status: Order received",
        "Method: Test kit",
    ]
    assert 'href="?order_type=testkit&amp;status=ordered"' in page.content.decode()


def test_query_count_does_not_grow_with_page(client: Client, clinician: User) -> None:
    def count_queries(**query: str) -> int:
        with CaptureQueriesContext(connection) as seen:
            client.get(ADDRESS, query)
        return len(seen)

    make_order(1)
    count_queries()  # the first page of a session also stores its CSRF secret
    one = count_queries()
    for n in range(2, 60):
        make_order(n, "Ada", "Sample")
    assert count_queries() == one
    assert one <= 20
    assert count_queries(status="delivered_to_lab", search_input="ada") <= 20


def test_viewer_cannot_see_or_search_names(client: Client) -> None:
    client.force_login(staff("viewer"))
    row = make_order(1, "Canary", "Sample", patient_dob="1984-02-29")
    page = client.get(ADDRESS).content.decode()
    assert "Canary" not in page
    assert "Feb 29, 1984" not in page
    assert "C. S." in page
    assert shown_orders(client, search_input="canary") == []
    assert shown_orders(client, search_input="1984-02-29") == []
    assert shown_orders(client, search_input=str(row.pk)[:8]) == [1]
    assert "order_key=patient_name" not in page
    assert 'name="patient_name"' not in page


@pytest.mark.parametrize(
    "query",
    [
        {"patient_name": "canary"},
        {"shipping_recipient_name": "canary"},
        {"order_key": "patient_name"},
        {"interpretation": "critical"},
        {"is_critical": "true"},
        {"is_critical": "false"},
    ],
)
def test_viewer_may_not_filter_by_hidden_fields(client: Client, query: dict[str, str]) -> None:
    client.force_login(staff("viewer"))
    make_order(1, "Canary", "Sample", interpretation="critical")
    assert shown_orders(client, code=400, **query) == []
    assert b"Your role does not show" in client.get(ADDRESS, query).content


def test_missing_values_are_shown_as_a_dash(client: Client) -> None:
    unnamed = {"patient_name": "", "patient_first_name": "", "patient_last_name": ""}
    order(1, **unnamed, method="").save()
    for role in ("viewer", "clinician"):
        client.force_login(staff(role))
        page = client.get("/orders/").content.decode()
        row = page.partition("<tbody")[2].partition("</tbody>")[0]
        test_and_method = row.partition('data-label="Test"')[2].partition("</td>")[0]
        assert "&lt;span" not in page and test_and_method.count("—") == 2
        assert not re.search(r"<td[^>]*>\s*</td>", row), "a cell is empty"


@pytest.mark.parametrize("role", ["viewer", "front desk"])
def test_user_without_results_sees_no_interpretation(client: Client, role: str) -> None:
    make_order(1, interpretation="critical")
    client.force_login(staff("clinician"))
    page = client.get(ADDRESS).content.decode()
    assert 'data-flag="critical"' in page
    assert 'name="interpretation"' in page
    client.force_login(staff(role))
    # The container of the banner is on every page, empty for this role.
    page = client.get(ADDRESS).content.decode().replace('id="critical"', "")
    for words in ("ritical", 'name="interpretation"', "Abnormal"):
        assert words not in page
    assert shown_orders(client, code=400, interpretation="critical") == []


@pytest.mark.parametrize("role", ["auditor", ""])
def test_roles_without_permission_are_refused(client: Client, role: str) -> None:
    make_order(1, "Canary", "Sample")
    client.force_login(staff(role) if role else User.objects.create_user("nobody"))
    answer = client.get(ADDRESS)
    assert answer.status_code == 403
    assert b"Canary" not in answer.content


def test_post_only_redirects_to_filters(client: Client, clinician: User) -> None:
    assert client.put(ADDRESS).status_code == 405
    answer = client.post(ADDRESS, {"bucket": "at-lab", "lab": ""})
    assert (answer.status_code, answer.headers["Location"]) == (302, f"{ADDRESS}?bucket=at-lab")


def test_rare_results_and_stages_use_their_index(clinician: User) -> None:
    Order.objects.bulk_create(
        order(
            n,
            interpretation="normal" if n % 50 else "abnormal",
            status="completed" if n % 50 else "failed",
        )
        for n in range(2_000)
    )
    with connection.cursor() as cursor:
        # Rows that earlier tests rolled back still are in the indexes and affect their cost.
        cursor.execute("REINDEX TABLE orders_order")
        cursor.execute("ANALYZE orders_order")
    newest = Order.objects.order_by("-created_at", "-id")
    for wanted in ("abnormal", "critical"):
        plan = newest.filter(interpretation=wanted)[:51].explain()
        assert "order_rare_interpretation" in plan
    assert "order_by_stage" in Order.objects.filter(status="failed").order_by("pk")[:101].explain()
