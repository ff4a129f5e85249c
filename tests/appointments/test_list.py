"""The list of appointments."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from backoffice.accounts.models import User
from backoffice.audit.models import AuditEntry
from backoffice.team.models import Assignment
from orders.appointment_list.appointment_list import APPOINTMENT_LIST
from orders.appointment_list.rows import appointment_rows
from orders.appointment_zones import visit_zone
from orders.models import Appointment, Order
from orders.models.appointment import draw_day
from patients.models import Demographics, Patient
from tests.api.rows import demographics, envelope, order, patient, staff, uid

pytestmark = pytest.mark.django_db

ADDRESS = "/appointments/"


def visit(n: int, start_at: datetime | None, **values: Any) -> Appointment:
    zone = values.get("iana_timezone", "America/Phoenix")
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
            "draw_day": draw_day(start_at, visit_zone(zone, values.get("state", "AZ"))),
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
    """Return the numbers of the visits on the page."""
    answer = client.get(ADDRESS, query)
    assert answer.status_code == 200, answer.content
    ids = {row.appointment.pk for row in answer.context["rows"]}
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
    assert client.get(ADDRESS, {"show": "nonsense"}).status_code == 400


def test_the_nearest_is_first(client: Client, clinician: User, now: datetime) -> None:
    for n in (3, 1, 2):
        visit(n, now + timedelta(days=n))
        visit(n + 10, now - timedelta(days=n))
    for tab, expected in (("upcoming", [1, 2, 3]), ("past", [11, 12, 13])):
        rows = client.get(ADDRESS, {"show": tab}).context["rows"]
        assert [row.appointment.pk for row in rows] == [uid("appointment", n) for n in expected]


def test_filters(client: Client, clinician: User, now: datetime) -> None:
    visit(1, now + timedelta(days=2), type="patient_service_center", state="TX", city="Austin")
    visit(2, now + timedelta(days=9), status="reserved")
    visit(3, now + timedelta(days=20), status="something_new", event_status="something_new")
    visit(4, None, provider="draw-east")
    day = (now + timedelta(days=9)).astimezone(ZoneInfo("America/Phoenix")).date().isoformat()
    assert _shown(client, type="patient_service_center") == {1}
    assert _shown(client, state="az") == {2, 3}
    assert _shown(client, city=" austin ") == {1}
    assert _shown(client, provider="draw-west") == {1, 2, 3}
    assert _shown(client, provider="draw-east", show="requested") == {4}
    assert _shown(client, provider="nobody") == set()
    Appointment.objects.filter(pk=uid("appointment", 1)).update(provider_id="N12")
    Appointment.objects.filter(pk=uid("appointment", 2)).update(provider_id="N12")
    assert _shown(client, site="N12") == {1}, "a number of a home visit is no site"
    assert _shown(client, status="reserved") == {2}
    assert _shown(client, status="something_new") == {3}
    assert _shown(client, start_date=day) == {2, 3}
    assert _shown(client, end_date=day) == {1, 2}
    assert _shown(client, start_date=day, end_date=day) == {2}


def test_invalid_date_shows_no_visits(client: Client, clinician: User, now: datetime) -> None:
    visit(1, now + timedelta(days=2))
    answer = client.get(ADDRESS, {"start_date": "soon"})
    assert answer.status_code == 400
    assert "Enter a date as YYYY-MM-DD." in answer.content.decode()
    assert answer.context["rows"] == []


def test_days_in_the_wrong_order_are_told_beside_the_last(
    client: Client, clinician: User, now: datetime
) -> None:
    visit(1, now + timedelta(days=2))
    day = timezone.localdate() + timedelta(days=1)
    before = day - timedelta(days=1)
    answer = client.get(ADDRESS, {"start_date": f"{day}", "end_date": f"{before}"})
    assert (answer.status_code, answer.context["rows"]) == (200, [])
    assert "This is before the first day." in answer.content.decode()


def test_paging_shows_every_visit_once(client: Client, clinician: User, now: datetime) -> None:
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


def test_time_of_the_draw_is_shown_first(client: Client, clinician: User, now: datetime) -> None:
    clinician.time_zone = "America/New_York"
    clinician.save()
    start = (now + timedelta(days=3)).replace(hour=15, minute=0, second=0, microsecond=0)
    visit(1, start)
    visit(2, start + timedelta(hours=1), iana_timezone="America/New_York")
    visit(3, start + timedelta(hours=2), iana_timezone=None)
    visit(4, start + timedelta(hours=3), iana_timezone="Not/AZone")
    answer = client.get(ADDRESS)
    page = answer.content.decode()
    assert "<strong>8:00 AM</strong> MST" in page
    assert page.count("time zone assumed from the state") == 2
    assert [row.has_two_clocks for row in answer.context["rows"]] == [True, False, True, True]


def test_a_request_without_a_time_is_never_shown_as_booked(client: Client, clinician: User) -> None:
    visit(1, None)
    page = client.get(ADDRESS, {"show": "requested"}).content.decode()
    assert "Requested" in page
    assert "Booked" not in page.partition("<tbody>")[2]


def test_names_need_the_patients_permission(client: Client, clinician: User, now: datetime) -> None:
    visit(1, now + timedelta(days=2))
    visit(2, now + timedelta(days=2))
    patient(1).save()
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


def test_place_of_home_visits_needs_the_patients_permission(
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
        assert list(answer.context["rows"]) == []


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


def test_anonymous_user_is_redirected_to_log_in(client: Client) -> None:
    answer = client.get(ADDRESS)
    assert answer.status_code == 302
    assert "login" in answer["Location"]


@pytest.mark.parametrize("rows", [1, 50])
@pytest.mark.parametrize(("page", "number"), [("", 4), ("unbooked/", 3)])
def test_queries_do_not_grow(
    client: Client,
    clinician: User,
    now: datetime,
    rows: int,
    page: str,
    number: int,
    django_assert_num_queries: Any,
) -> None:
    for n in range(rows):
        visit(n, now + timedelta(days=2))
    home = {"method": "at_home_phlebotomy", "low_level_status": "requisition_created"}
    Order.objects.bulk_create([order(n) for n in range(rows)])
    Order.objects.bulk_create([order(n, **home) for n in range(100, 100 + rows)])
    Patient.objects.bulk_create([patient(n) for n in range(rows)])
    Demographics.objects.bulk_create([demographics(n) for n in range(rows)])
    client.get(ADDRESS)  # The first page of a session stores its form token.
    with CaptureQueriesContext(connection) as seen:
        client.get(f"{ADDRESS}{page}")
    # The keys, the page or the last visits, the counts of the other tabs, the list of providers.
    ours = [each for each in seen if "orders_appointment" in each["sql"]]
    assert len(ours) == number
    assert len(seen) <= 20


def test_mine(client: Client, clinician: User, now: datetime) -> None:
    for n in range(1, 6):
        visit(n, now + timedelta(days=n))
    for kind, n in (("appointment", 1), ("order", 2), ("patient", 3)):
        Assignment.objects.create(
            subject_type=kind, subject_id=str(uid(kind, n)), user=clinician, by=clinician
        )
    other = staff("front desk")
    Assignment.objects.create(
        subject_type="appointment", subject_id=str(uid("appointment", 4)), user=other, by=other
    )
    assert _shown(client, mine="1") == {1, 2, 3}


def _unbooked(client: Client, **query: str) -> set[int]:
    answer = client.get(f"{ADDRESS}unbooked/", query)
    assert answer.status_code == 200
    ids = {row.order.pk for row in answer.context["rows"]}
    return {n for n in range(200) if uid("order", n) in ids}


def test_orders_to_book_are_listed(
    client: Client, clinician: User, now: datetime, settings: Any
) -> None:
    ready = {"low_level_status": "requisition_created", "bucket": "with-patient"}
    home, walk_in = {"method": "at_home_phlebotomy"}, {"method": "walk_in_test"}
    for n in range(1, 5):
        order(n, **home, **ready, patient_first_name=f"Home{n}").save()
    order(5, **walk_in, **ready).save()
    order(6, **home, low_level_status="ordered").save()
    order(7, **home, low_level_status="requisition_bypassed").save()
    order(8, **home, **ready, missing_since=now).save()
    order(9, method="testkit", **ready).save()
    visit(2, now + timedelta(days=2))
    visit(3, None)
    visit(4, now, status="cancelled", event_status="cancelled")
    assert _unbooked(client, show="book") == {1, 4, 7}
    assert _unbooked(client, show="book", type="patient_service_center") == {5}
    settings.BOOKED_METHODS = ["at_home_phlebotomy", "walk_in_test"]
    assert _unbooked(client, show="book") == {1, 4, 5, 7}
    page = client.get(f"{ADDRESS}unbooked/", {"show": "book"}).content.decode()
    assert f'href="/orders/{uid("order", 1)}/visit/book/"' in page
    assert page.index("Home4") < page.index("Home1"), "the longest waiting is first"
    client.force_login(staff("viewer"))
    page = client.get(f"{ADDRESS}unbooked/", {"show": "book"}).content.decode()
    assert "/visit/book/" not in page and "Home1" not in page


def test_tabs_keep_the_filters_that_their_page_has(
    client: Client, clinician: User, now: datetime
) -> None:
    visit(1, now + timedelta(days=2), state="TX")
    visit(2, None, state="TX")
    answer = client.get(ADDRESS, {"type": "phlebotomy", "state": "TX"})
    tabs = {tab.label: (tab.url, str(tab.count)) for tab in answer.context["tabs"]}
    assert tabs["Requested, not scheduled"] == (
        f"{ADDRESS}?show=requested&type=phlebotomy&state=TX",
        "1",
    )
    assert tabs["To book"] == (f"{ADDRESS}unbooked/?show=book&type=phlebotomy", "0")
    book = client.get(tabs["To book"][0])
    [past] = [tab.url for tab in book.context["tabs"] if tab.label == "Past"]
    assert past == f"{ADDRESS}?show=past&type=phlebotomy"


def test_clearing_the_filters_keeps_the_tab(client: Client, clinician: User) -> None:
    page = client.get(ADDRESS, {"show": "past", "state": "TX"}).content.decode()
    assert f'href="{ADDRESS}?show=past">Clear</a>' in page


@pytest.mark.parametrize("show", ["upcoming", "past", "requested"])
def test_other_direction_begins_at_the_other_end(
    client: Client, clinician: User, now: datetime, show: str
) -> None:
    days = {"upcoming": 1, "past": -1}.get(show)
    for n in (1, 2, 3):
        start = now + timedelta(days=days * n) if days else None
        visit(n, start, as_of=now - timedelta(days=n))
    first = _numbers(client.get(ADDRESS, {"show": show}))
    direction = "asc" if show == "past" else "desc"
    other = _numbers(client.get(ADDRESS, {"show": show, "order_direction": direction}))
    assert sorted(first) == [1, 2, 3] and other == first[::-1]


def _numbers(answer: Any) -> list[int]:
    numbers = {uid("appointment", n): n for n in range(200)}
    return [numbers[row.appointment.pk] for row in answer.context["rows"]]


def test_filter_by_patient(client: Client, clinician: User, now: datetime) -> None:
    for n in (1, 2):
        visit(n, now + timedelta(days=n))
    assert _shown(client, user_id=str(uid("patient", 2))) == {2}


def test_cells_of_a_download_without_names(client: Client, now: datetime) -> None:
    order(1, patient_first_name="Bo", patient_last_name="Madeup").save()
    rows = appointment_rows([visit(1, now, city="Homeville")], by_name=False)
    cells = {cell.header: cell.read(rows[0]) for each in APPOINTMENT_LIST.columns
             for cell in each.cells}  # fmt: skip
    assert (cells["Patient"], cells["Born"], cells["City"], cells["State"]) == (
        "B. M.",
        None,
        "",
        "",
    )
    assert cells["Order"] == uid("order", 1)


def test_orders_to_rebook_are_listed(client: Client, clinician: User, now: datetime) -> None:
    called_off = {"low_level_status": "appointment_cancelled", "method": "walk_in_test"}
    for n in (1, 2):
        order(n, **called_off).save()
    visit(1, now - timedelta(days=1), status="cancelled", event_status="cancelled")
    visit(2, now + timedelta(days=1))
    assert _unbooked(client, show="rebook") == {1}
    assert "MST" in client.get(f"{ADDRESS}unbooked/", {"show": "rebook"}).content.decode()


def test_row_links_to_moving_and_canceling_the_visit(
    client: Client, clinician: User, now: datetime
) -> None:
    for n in (1, 2):
        order(n, low_level_status="appointment_scheduled", method="at_home_phlebotomy").save()
    visit(1, now + timedelta(days=3), can_reschedule=True)
    visit(2, now + timedelta(days=3), can_reschedule=False)
    page = client.get(ADDRESS).content.decode()
    first, second = (f"/orders/{uid('order', n)}/visit/" for n in (1, 2))
    assert f'href="{first}move/"' in page and f'href="{first}cancel/"' in page
    assert f'href="{second}move/"' not in page and f'href="{second}cancel/?rebook=1"' in page
    client.force_login(staff("viewer"))
    assert "/visit/" not in client.get(ADDRESS).content.decode()


def test_days_are_those_of_the_draw(client: Client, clinician: User) -> None:
    """23:30 in Honolulu is the next day for staff in New York."""
    clinician.time_zone = "America/New_York"
    clinician.save()
    late = datetime(2031, 6, 3, 9, 30, tzinfo=UTC)
    visit(1, late, iana_timezone="Pacific/Honolulu")
    visit(2, late - timedelta(hours=4), iana_timezone="America/New_York")
    visit(3, late - timedelta(hours=6), iana_timezone="America/New_York")
    assert _shown(client, start_date="2031-06-02", end_date="2031-06-02") == {1, 3}
    page = client.get(ADDRESS).content.decode()
    assert "Tue, Jun 3, 5:30 AM EDT your time" in page
    assert page.count("Mon, Jun 2, 2031, <time") == 2 and page.count("Tue, Jun 3, 2031, <time") == 1


@pytest.mark.parametrize("name", ["week", "sites", "sheet"])
def test_other_views(client: Client, clinician: User, name: str) -> None:
    start = datetime(2031, 6, 4, 16, 0, tzinfo=UTC)
    for n in (1, 2):
        patient(n).save()
        demographics(n).save()
    visit(1, start, city="Homeville", state="AK")
    center = {"type": "patient_service_center", "provider": "lab-north", "provider_id": "N12"}
    visit(2, start + timedelta(hours=1), **center, first_line="9 Made Up Road")
    visit(3, start, status="cancelled")
    visit(4, start, superseded_at=start)
    visit(5, start + timedelta(days=9))
    address = f"{ADDRESS}{name}/"
    where = {"week": {"from": "2031-06-07"}}.get(name, {"day": "2031-06-04"})
    answer = client.get(address, where)
    assert answer.status_code == 200
    page = answer.content.decode()
    assert "Ada1 Testperson" in page and "Ada2 Testperson" in page
    assert page.count("<strong>9:00 AM</strong> MST") == 1
    if name == "week":
        assert [len(each["visits"]) for each in answer.context["columns"]] == [0, 0, 2, 0, 0, 0, 0]
        assert [each["count"].value for each in answer.context["columns"]][2] == 2
    else:
        sites = answer.context["sites"]
        assert [(site.is_at_home, len(site.visits)) for site in sites] == [(False, 1), (True, 1)]
        assert "N12" in page and "9 Made Up Road" in page
    entry = AuditEntry.objects.get()
    assert entry.action == ("print" if name == "sheet" else "list")
    assert {*entry.patient_ids} == {uid("patient", 1), uid("patient", 2)}
    few = client.get(address, {**where, "type": "patient_service_center"}).content.decode()
    assert "Ada1 Testperson" not in few and "Ada2 Testperson" in few
    assert client.get(address, {**where, "state": "\x00"}).status_code == 400
    for bad in ("soon", "2031-02-30", "0001-01-01", "9999-12-31", "\x00"):
        assert client.get(address, dict.fromkeys(where, bad)).status_code == 200
    client.force_login(staff("viewer"))
    answer = client.get(address, where)
    assert answer.status_code == (403 if name == "sheet" else 200)
    assert "Testperson" not in answer.content.decode()
    assert "Homeville" not in answer.content.decode()


def test_a_full_day_is_bounded(client: Client, clinician: User) -> None:
    start = datetime(2031, 6, 4, 16, 0, tzinfo=UTC)
    for n in range(60):
        visit(n, start + timedelta(minutes=n))
    answer = client.get(f"{ADDRESS}week/", {"from": "2031-06-04"})
    column = answer.context["columns"][2]
    assert (len(column["visits"]), column["count"].value, column["rest"]) == (40, 60, True)
    assert len(client.get(f"{ADDRESS}sites/", {"day": "2031-06-04"}).context["appointments"]) == 60
