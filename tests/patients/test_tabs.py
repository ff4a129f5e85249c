"""The tabs of a patient's page: content, permissions and query counts."""

from __future__ import annotations

import html
import re
from datetime import date, timedelta
from typing import Any
from uuid import uuid4

import pytest
from django.db import connection
from django.test import Client, RequestFactory
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from backoffice.accounts.models import User
from backoffice.audit.models import AuditEntry
from backoffice.outbox.models import CommandRecord
from backoffice.team.actions import add_note
from orders.models import Appointment, AppointmentEvent, Order, OrderEvent, Result, ResultMarker
from orders.patient_tabs import latest
from patients.models import Connection, DifferentPeople, Insurance
from patients.wearables.models import HistoricalPull
from tests.api.rows import NOW, demographics, envelope, order, patient, staff, uid

pytestmark = pytest.mark.django_db

PATIENT_ID = uid("patient", 1)
OVERVIEW = f"/patients/{PATIENT_ID}/"
TABS = ("", "orders/", "results/", "insured/", "devices/", "activity/")


@pytest.fixture
def clinician(client: Client) -> User:
    user = staff("clinician")
    client.force_login(user)
    patient(1).save()
    demographics(1, dob=date(1990, 6, 1), phone_digits="0010555", phone_number="").save()
    return user


def page(client: Client, tab: str = "", **query: str) -> str:
    answer = client.get(OVERVIEW + tab, query)
    assert answer.status_code == 200, answer.status_code
    return answer.content.decode()


def create_result(n: int, *lines: dict[str, Any], days: int = 0) -> None:
    order(
        n, user_id=PATIENT_ID, created_at=NOW - timedelta(days=days), lab_test_name=f"Panel {n}"
    ).save()
    Result(order_id=uid("order", n), returned=len(lines), **envelope()).save()
    for position, line in enumerate(lines):
        values = {"name": "Iron", "text": "", "interpretation": "normal", **line}
        ResultMarker(result_id=uid("order", n), position=position, **values).save(force_insert=True)


@pytest.mark.parametrize("tab", TABS)
def test_every_tab_shows_identity_and_other_tabs(client: Client, clinician: User, tab: str) -> None:
    text = page(client, tab)
    assert text.count('class="person"') == 1 and "Ada1" in text
    assert f'href="{OVERVIEW}{tab}" aria-current="page"' in text
    for other in TABS:
        assert f'href="{OVERVIEW}{other}"' in text
    seen = AuditEntry.objects.filter(patient_ids=[PATIENT_ID], action__in=("view", "list"))
    assert seen.count() == 1
    assert client.get(f"/patients/{uuid4()}/{tab}").status_code == 404


@pytest.mark.parametrize(
    ("role", "refused"),
    [("front desk", {"results/"}), ("viewer", set(TABS)), ("auditor", set(TABS))],
)
def test_tabs_need_their_permissions(
    client: Client, clinician: User, role: str, refused: set[str]
) -> None:
    client.force_login(staff(role))
    for tab in TABS:
        answer = client.get(OVERVIEW + tab)
        assert answer.status_code == (403 if tab in refused else 200), tab
        assert b"Ada1" not in answer.content or tab not in refused
    if role == "front desk":
        assert f'href="{OVERVIEW}results/"' not in page(client)


def test_orders_tab_groups_by_transaction(client: Client, clinician: User) -> None:
    group = uid("transaction", 1)
    order(
        1, user_id=PATIENT_ID, order_transaction_id=group, created_at=NOW - timedelta(days=9)
    ).save()
    order(2, user_id=PATIENT_ID, order_transaction_id=group, origin="redraw", created_at=NOW).save()
    order(3, user_id=PATIENT_ID, created_at=NOW - timedelta(days=2)).save()
    answer = client.get(OVERVIEW + "orders/")
    groups = [[one.pk for one in group["orders"]] for group in answer.context["transactions"]]
    assert groups == [[uid("order", 1), uid("order", 2)], [uid("order", 3)]]


def test_overview_shows_open_orders_of_any_age(client: Client, clinician: User) -> None:
    for n in range(1, 15):
        order(n, user_id=PATIENT_ID, bucket="closed", created_at=NOW - timedelta(days=n)).save()
    order(
        20, user_id=PATIENT_ID, created_at=NOW - timedelta(days=400), lab_test_name="The old one"
    ).save()
    text = page(client)
    assert "The old one" in text and "1 open order<" in text
    assert "All orders of this patient" in text


def test_results_tab_shows_latest_and_previous_value(client: Client, clinician: User) -> None:
    iron, lead = {"loinc_slug": "iron"}, {"name": "Lead", "slug": "lead"}
    create_result(1, {**iron, "text": "80", "unit": "ug/dL", "value": 80.0}, days=90)
    create_result(
        2, {**iron, "text": "91", "unit": "ug/dL", "value": 91.0}, {**lead, "text": "3"}, days=9
    )
    create_result(3, {**lead, "text": "40", "interpretation": "critical"}, days=1)
    create_result(4, {**iron, "text": "", "is_missing": True})
    order(9, user_id=uid("patient", 2)).save()
    latest = client.get(OVERVIEW + "results/").context["latest"]
    assert [(one.name, one.text, one.previous_text) for one in latest] == [
        ("Lead", "40", "3"),
        ("Iron", "91", "80"),
    ]
    assert latest[0].order_id == uid("order", 3)


def test_results_tab_reads_only_newest_lines_of_a_marker(client: Client, clinician: User) -> None:
    iron = {"loinc_slug": "iron"}
    create_result(1, {"name": "Lead", "slug": "lead", "text": "3"}, days=900)
    for n in range(2, latest.MAX_LINES_PER_MARKER + 12):
        create_result(n, {**iron, "text": str(100 + n)}, days=800 - n)
    with connection.cursor() as cursor:
        cursor.execute(latest._LINES_SQL, [PATIENT_ID])
        assert cursor.rowcount == latest.MAX_LINES_PER_MARKER + 1
    found = client.get(OVERVIEW + "results/").context["latest"]
    newest = 100 + latest.MAX_LINES_PER_MARKER + 11
    assert [(one.name, one.text, one.previous_text) for one in found] == [
        ("Iron", str(newest), str(newest - 1)),
        ("Lead", "3", None),
    ]


def test_values_of_two_labs_compare_only_by_common_code(client: Client, clinician: User) -> None:
    own = {"name": "Zinc", "slug": "zinc"}
    create_result(1, {**own, "text": "11"}, {"name": "Remark", "text": "none"}, days=9)
    create_result(2, {**own, "text": "70"}, days=1)
    Order.objects.filter(pk=uid("order", 2)).update(lab_slug="another-lab")
    answer = client.get(OVERVIEW + "results/")
    latest = {(one.name, one.text): one for one in answer.context["latest"]}
    assert set(latest) == {("Zinc", "11"), ("Zinc", "70"), ("Remark", "none")}
    assert {one.previous_text for one in latest.values()} == {None}
    assert latest["Remark", "none"].trend == "" and "/trend/" not in answer.content.decode()
    create_result(3, {**own, "text": "12"}, days=0)
    text = page(client, "results/")
    (trend,) = re.findall(r'href="([^"]+/trend/[^"]+)"', text)
    assert client.get(html.unescape(trend)).status_code == 200


def test_insurance_tab_shows_when_it_was_seen(client: Client, clinician: User) -> None:
    card = {"user_id": PATIENT_ID, "is_primary": True, "payor_code": "PAY1", "relationship": "Self"}
    Insurance(id=uuid4(), member_id="M-NOW", **card, **envelope()).save()
    Insurance(id=uuid4(), member_id="M-BEFORE", superseded_at=NOW, **card, **envelope()).save()
    text = page(client, "insured/")
    now, before = text.index("M-NOW"), text.index("M-BEFORE")
    assert now < text.index("Added") < before
    assert before < text.rindex("Added") < text.index("Inactive since")
    # The service does not report when a policy began or was replaced.
    assert "In force since" not in text and "Replaced" not in text


def activity_texts(client: Client, show: str) -> list[str]:
    found = client.get(OVERVIEW + "activity/", {"show": show}).context["activity"]
    return [one.change.what if one.change else one.text or one.raw for one in found]


def test_activity_tab_is_one_stream_with_three_views(
    client: Client, clinician: User, rf: RequestFactory
) -> None:
    order(1, user_id=PATIENT_ID, method="testkit").save()
    steps = ("transit_customer", "out_for_delivery", "transit_customer", "with_customer",
             "problem_in_transit_lab")  # fmt: skip
    for n, status in enumerate(steps):
        at, dotted = NOW + timedelta(minutes=n), f"x.y.{status}"
        OrderEvent(order_id=uid("order", 1), event_id=n, created_at=at, status=dotted,
                   low_level_status=status).save(force_insert=True)  # fmt: skip
    Appointment(id=uid("visit", 1), user_id=PATIENT_ID, order_id=uid("order", 1), type="phlebotomy",
                provider="made-up", status="confirmed", event_status="scheduled",
                **envelope()).save()  # fmt: skip
    AppointmentEvent(appointment_id=uid("visit", 1), position=0, status="scheduled",
                     created_at=NOW + timedelta(hours=9)).save(force_insert=True)  # fmt: skip
    Connection(user_id=PATIENT_ID, slug="band-one", name="Band One", status="connected",
               created_on=NOW - timedelta(days=1), **envelope()).save()  # fmt: skip
    request = rf.get("/")
    request.user = clinician
    add_note(request, "order", uid("order", 1), "Called <them>", PATIENT_ID)
    service = {"scheduled", "x.y.transit_customer", "x.y.with_customer",
               "x.y.problem_in_transit_lab", "Band One connected",
               "Registered with the lab service"}  # fmt: skip
    assert set(activity_texts(client, "milestones")) == service | {"Note", "2 delivery scans"}
    assert set(activity_texts(client, "everything")) == service | {"Note", "x.y.out_for_delivery"}
    assert activity_texts(client, "people") == ["Note"]
    assert "Called &lt;them&gt;" in page(client, "activity/")
    assert client.get(OVERVIEW + "activity/", {"show": "x"}).status_code == 400
    found = client.get(OVERVIEW + "activity/").context["activity"]
    assert [one.at for one in found] == sorted((one.at for one in found), reverse=True)


def test_activity_separates_orders_of_one_test(client: Client, clinician: User) -> None:
    for n in (1, 2):
        order(n, user_id=PATIENT_ID, method="testkit", lab_test_name="Made-up kit").save()
        for step, status in enumerate(("transit_customer", "out_for_delivery") * 2):
            at = NOW + timedelta(minutes=10 * n + step)
            dotted = {"status": f"x.y.{status}", "low_level_status": status}
            event = OrderEvent(order_id=uid("order", n), event_id=10 * n + step, **dotted)
            event.created_at = at
            event.save(force_insert=True)
    assert activity_texts(client, "milestones").count("3 delivery scans") == 2


def create_twin(n: int = 2, **values: Any) -> None:
    patient(n).save()
    demographics(n, **{"first_name": "Testperson", "last_name": "Ada1", "phone_digits": "",
                       "dob": date(1990, 6, 1), **values}).save()  # fmt: skip


def test_duplicates_are_shown_until_declared_different(client: Client, clinician: User) -> None:
    create_twin()
    other = f"/patients/{uid('patient', 2)}/"
    assert "First and last name swapped" in page(client)
    assert "First and last name swapped" in client.get(other).content.decode()
    shown = AuditEntry.objects.filter(action="search", patient_ids=[uid("patient", 2)])
    assert shown.count() == 1, "the view of the duplicate is recorded"
    answer = client.post(f"{other}different/", {"other": str(PATIENT_ID)})
    assert answer.status_code == 302
    assert DifferentPeople.objects.count() == 1
    for address in (OVERVIEW, other):
        assert "swapped" not in client.get(address).content.decode()
    entry = AuditEntry.objects.get(action="change")
    assert entry.object_type == "not the same person"
    assert set(entry.patient_ids) == {PATIENT_ID, uid("patient", 2)}


def test_different_needs_permission_and_known_patients(client: Client, clinician: User) -> None:
    create_twin()
    address = f"{OVERVIEW}different/"
    assert client.post(address, {"other": str(uuid4())}).status_code == 404
    assert client.post(address, {"other": "x"}).status_code == 400
    client.force_login(staff("viewer"))
    assert client.post(address, {"other": str(uid("patient", 2))}).status_code == 403
    assert not DifferentPeople.objects.exists()


def test_viewers_tab_needs_audit_permission(client: Client, clinician: User) -> None:
    page(client)
    page(client, "insured/")
    assert client.get(OVERVIEW + "viewers/").status_code == 403
    client.force_login(staff("lab admin", "lena"))
    assert "Who viewed this record" in page(client)
    people = client.get(OVERVIEW + "viewers/").context["people"]
    # The own view of this page is recorded after reading, so it appears next time.
    assert [(one.user.username, one.opened) for one in people] == [("lena", 1), ("clinician", 2)]
    fragment = client.get(OVERVIEW + "viewers/", headers={"HX-Request": "true"}).content.decode()
    assert "clinician" in fragment and "<html" not in fragment
    assert AuditEntry.objects.filter(object_type="access log").count() == 2


@pytest.mark.parametrize(
    ("tab", "max_queries"),
    [("orders/", 13), ("results/", 14), ("insured/", 14), ("activity/", 26), ("devices/", 22)],
)
def test_query_count_of_tab_is_fixed(
    client: Client, clinician: User, tab: str, max_queries: int
) -> None:
    def count_queries() -> int:
        with CaptureQueriesContext(connection) as seen:
            page(client, tab)
        return len(seen)

    def create_rows(n: int) -> None:
        create_result(n, {"text": str(n), "slug": f"s{n}", "name": f"Marker {n}"})
        OrderEvent(order_id=uid("order", n), event_id=n, created_at=NOW, status="x.y.ordered",
                   low_level_status="ordered").save(force_insert=True)  # fmt: skip
        Connection(user_id=PATIENT_ID, slug=f"p{n}", name=f"P {n}", status="connected",
                   created_on=NOW, **envelope()).save()  # fmt: skip
        HistoricalPull(user_id=PATIENT_ID, provider=f"p{n}", resource="steps", status="success",
                       **envelope()).save()  # fmt: skip
        CommandRecord.objects.create(
            kind="order.cancel", title="Cancel", subject_type="order",
            subject_id=str(uid("order", n)), patient_id=PATIENT_ID, payload={}, form_id=uuid4(),
            idempotency_key=uuid4(),
            requested_by=clinician, requested_at=timezone.now(), state="done",
        )  # fmt: skip

    create_rows(1)
    count_queries()
    few = count_queries()
    for n in range(2, 20):
        create_rows(n)
    assert count_queries() == few
    assert few <= max_queries, few


def test_devices_tab_shows_sources_and_support_text(client: Client, clinician: User) -> None:
    Connection(user_id=PATIENT_ID, slug="band-one", name="Band One", status="error", created_on=NOW,
               error_type="token_refresh_failed", errored_at=NOW, **envelope()).save()  # fmt: skip
    HistoricalPull(user_id=PATIENT_ID, provider="band-one", resource="sleep", status="retrying",
                   days_with_data=12, error_details="provider_unavailable",
                   trace_id="trace-17", scheduled_at=NOW, **envelope()).save()  # fmt: skip
    HistoricalPull(user_id=PATIENT_ID, provider="ring-two", resource="steps", status="not_pulled",
                   **envelope()).save()  # fmt: skip
    text = page(client, "devices/")
    for words in ("Connected since", "none yet", "Permission expired – reconnect", "Retrying",
                  "The provider is not responding", "ring-two", "Not pulled", "Disconnect…",
                  'data-copy="trace-17"', "Copy for support"):  # fmt: skip
        assert words in text, words
    support = dict(client.get(OVERVIEW + "devices/").context["sources"])
    support_text = next(words for source, words in support.items() if source.slug == "band-one")
    assert "sleep: retrying, provider_unavailable, days with data 12" in support_text
    assert "trace trace-17" in support_text and f"User: {PATIENT_ID}" in support_text
    assert "Ada" not in support_text and "Testperson" not in support_text
