"""The list of appointments."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from backoffice.models import AuditEntry, User
from orders.models import Appointment, Order
from patients.models import Demographics
from tests.api.rows import demographics, envelope, order, staff, uid

pytestmark = pytest.mark.django_db

ADDRESS = "/appointments/"


def visit(n: int, start_at: datetime | None, **values: Any) -> Appointment:
    return Appointment.objects.create(
        **{
            "id": uid("appointment", n),
            "user_id": uid("patient", n),
            "order_id": uid("order", n),
            "type": "phlebotomy",
            "provider": "draw-west",
            "status": "confirmed" if start_at else "pending",
            "event_status": "scheduled" if start_at else "pending",
            "start_at": start_at,
            "iana_timezone": "America/Phoenix",
            "city": "Phoenix",
            "state": "AZ",
            **envelope(),
            **values,
        }
    )


@pytest.fixture
def clinician(client: Client) -> User:
    user = staff("clinician")
    client.force_login(user)
    return user


@pytest.fixture
def now() -> datetime:
    return timezone.now()


def _shown(client: Client, **query: str) -> set[int]:
    """Numbers of the visits on the page."""
    answer = client.get(ADDRESS, query)
    assert answer.status_code == 200, answer.content
    ids = {row.appointment.pk for row in answer.context["visits"]}
    return {n for n in range(200) if uid("appointment", n) in ids}


def test_tabs(client: Client, clinician: User, now: datetime) -> None:
    visit(1, now + timedelta(days=2))
    visit(2, now - timedelta(days=2))
    visit(3, None)
    visit(4, now + timedelta(days=3), status="cancelled", event_status="cancelled")
    visit(5, now + timedelta(days=4), superseded_at=now)
    visit(6, None, status="completed", event_status="completed")
    visit(7, timezone.localtime(now).replace(hour=12, minute=0))
    future = {1, 7} if timezone.localtime(now).hour < 12 else {1}
    assert _shown(client) == future
    assert _shown(client, show="past") == {1, 2, 7} - future
    assert _shown(client, show="requested") == {3}
    assert _shown(client, show="today") == {7}
    assert _shown(client, show="upcoming", status="cancelled") == {4}
    assert _shown(client, show="nonsense") == future


def test_the_nearest_is_first(client: Client, clinician: User, now: datetime) -> None:
    for n in (3, 1, 2):
        visit(n, now + timedelta(days=n))
        visit(n + 10, now - timedelta(days=n))
    for tab, expected in (("upcoming", [1, 2, 3]), ("past", [11, 12, 13])):
        rows = client.get(ADDRESS, {"show": tab}).context["visits"]
        assert [row.appointment.pk for row in rows] == [uid("appointment", n) for n in expected]


def test_filters(client: Client, clinician: User, now: datetime) -> None:
    visit(1, now + timedelta(days=2), type="patient_service_center", state="TX", city="Austin")
    visit(2, now + timedelta(days=9), status="reserved")
    visit(3, now + timedelta(days=20), status="something_new", event_status="something_new")
    day = timezone.localtime(now + timedelta(days=9)).date().isoformat()
    assert _shown(client, type="patient_service_center") == {1}
    assert _shown(client, state="az") == {2, 3}
    assert _shown(client, city=" austin ") == {1}
    assert _shown(client, status="reserved") == {2}
    assert _shown(client, status="something_new") == {3}
    assert _shown(client, start_date=day) == {2, 3}
    assert _shown(client, end_date=day) == {1, 2}
    assert _shown(client, start_date=day, end_date=day) == {2}


def test_a_date_that_is_none_shows_nothing(client: Client, clinician: User, now: datetime) -> None:
    visit(1, now + timedelta(days=2))
    answer = client.get(ADDRESS, {"start_date": "soon"})
    assert answer.status_code == 400
    assert "Type a date as YYYY-MM-DD." in answer.content.decode()
    assert answer.context["visits"] == []


def test_pages_meet_every_visit_once(client: Client, clinician: User, now: datetime) -> None:
    for n in range(120):
        visit(n, now + timedelta(days=1 + n // 7))
    seen: list[Any] = []
    place: dict[str, str] = {}
    while True:
        page = client.get(ADDRESS, place).context["page"]
        seen += [row.pk for row in page.rows]
        if page.next is None:
            break
        place = {"after": page.next}
    assert len(seen) == 120
    assert set(seen) == {uid("appointment", n) for n in range(120)}


def test_the_clock_of_the_draw_comes_first(client: Client, clinician: User, now: datetime) -> None:
    clinician.time_zone = "America/New_York"
    clinician.save()
    start = (now + timedelta(days=3)).replace(hour=15, minute=0, second=0, microsecond=0)
    visit(1, start)
    visit(2, start + timedelta(hours=1), iana_timezone="America/New_York")
    visit(3, start + timedelta(hours=2), iana_timezone=None)
    visit(4, start + timedelta(hours=3), iana_timezone="Not/AZone")
    answer = client.get(ADDRESS)
    page = answer.content.decode()
    assert "08:00 MST" in page
    assert page.count("your time") == 1
    assert "zone of the draw not given" in page
    assert [row.two_clocks for row in answer.context["visits"]] == [True, False, False, False]


def test_a_request_without_a_time_is_never_shown_as_booked(client: Client, clinician: User) -> None:
    visit(1, None)
    page = client.get(ADDRESS, {"show": "requested"}).content.decode()
    assert "Requested" in page
    assert "Booked" not in page.partition("<tbody>")[2]


def test_names_are_for_those_who_may_see_patients(
    client: Client, clinician: User, now: datetime
) -> None:
    visit(1, now + timedelta(days=2))
    visit(2, now + timedelta(days=2))
    demographics(1).save()
    order(2, patient_first_name="Bo", patient_last_name="Madeup").save()
    page = client.get(ADDRESS).content.decode()
    assert "Ada1 Testperson" in page
    assert "Bo Madeup" in page
    client.force_login(staff("viewer"))
    page = client.get(ADDRESS).content.decode()
    assert "Testperson" not in page
    assert "Madeup" not in page
    assert "B. M." in page


def test_where_a_patient_lives_is_for_those_who_may_see_patients(
    client: Client, clinician: User, now: datetime
) -> None:
    visit(1, now + timedelta(days=2), city="Homeville", state="AK")
    visit(2, now + timedelta(days=2), city="Labville", type="patient_service_center")
    assert "Homeville, AK" in client.get(ADDRESS).content.decode()
    assert _shown(client, city="Homeville") == {1}
    client.force_login(staff("viewer"))
    page = client.get(ADDRESS).content.decode()
    assert "Homeville" not in page
    assert "Labville, AZ" in page
    for query in ({"city": "Homeville"}, {"state": "AK"}):
        answer = client.get(ADDRESS, query)
        assert answer.status_code == 400
        assert list(answer.context["visits"]) == []


@pytest.mark.parametrize("query", [{"type": "\x00"}, {"status": "a\x00"}, {"city": "\x00"}])
def test_text_no_column_can_hold_is_refused(
    client: Client, clinician: User, query: dict[str, str]
) -> None:
    assert client.get(ADDRESS, query).status_code == 400


def test_the_page_is_recorded(client: Client, clinician: User, now: datetime) -> None:
    visit(1, now + timedelta(days=2))
    client.get(ADDRESS)
    entry = AuditEntry.objects.get()
    assert (entry.action, entry.object_type, entry.row_count) == ("list", "appointment", 1)
    assert entry.patient_ids == [uid("patient", 1)]


def test_an_auditor_is_refused(client: Client) -> None:
    client.force_login(staff("auditor"))
    assert client.get(ADDRESS).status_code == 403


def test_a_stranger_is_sent_to_log_in(client: Client) -> None:
    answer = client.get(ADDRESS)
    assert answer.status_code == 302
    assert "login" in answer["Location"]


@pytest.mark.parametrize("rows", [1, 50])
def test_queries_do_not_grow(
    client: Client,
    clinician: User,
    now: datetime,
    rows: int,
    django_assert_num_queries: Any,
) -> None:
    for n in range(rows):
        visit(n, now + timedelta(days=2))
    Order.objects.bulk_create([order(n) for n in range(rows)])
    Demographics.objects.bulk_create([demographics(n) for n in range(rows)])
    client.get(ADDRESS)  # The first page of a session stores its form token.
    # Session, user, roles, page, four counts, audit entry in a savepoint (3), orders, people.
    with django_assert_num_queries(13):
        client.get(ADDRESS)
