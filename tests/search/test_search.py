"""The search box: what it finds, which page it opens, and who may see what."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, timedelta
from typing import Any
from uuid import UUID

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from backoffice.accounts.models import User
from backoffice.audit.models import AuditEntry
from backoffice.pages.paging.keys import keys_of_any
from orders.models import Appointment, Order, OrderNameWord
from orders.models.search_conditions import list_conditions
from orders.search import lookup
from orders.search.lookup import MAX_SHOWN, ORDERS_PER_PATIENT
from orders.search_text import parse_order_search_text
from patients.models import FINISHED_BUCKETS, Demographics, Patient
from patients.search_keys import name_key, phone_key
from patients.search_text import parse_search_text, required_prefixes
from tests.api.rows import NOBODY, NOW, demographics, envelope, order, patient, staff, uid

pytestmark = pytest.mark.django_db

ADDRESS = "/find/"
NOWHERE = "f" * 12


def make_patient(n: int, first: str, last: str, phone: str = "", **values: Any) -> None:
    patient(n).save()
    demographics(
        n,
        first_name=first,
        last_name=last,
        name_key=name_key(first, last),
        phone_number=phone,
        phone_digits=phone_key(phone),
        **values,
    ).save()


def make_order(n: int, of: int | None, **values: Any) -> Order:
    row = order(n, user_id=uid("patient", of) if of is not None else None, **values)
    row.save()
    return row


def make_visit(n: int, of: int, **values: Any) -> Appointment:
    return Appointment.objects.create(
        **{
            "id": uid("visit", n),
            "user_id": uid("patient", of),
            "order_id": uid("order", n),
            "type": "phlebotomy",
            "provider": "draw-west",
            "status": "confirmed",
            "event_status": "scheduled",
            "start_at": NOW + timedelta(days=900),
            "iana_timezone": "America/Phoenix",
            **envelope(),
            **values,
        }
    )


@pytest.fixture
def desk(client: Client) -> User:
    user = staff("front desk")
    client.force_login(user)
    return user


@pytest.fixture
def clinic(desk: User) -> None:
    make_patient(1, "Maria", "Gonzalez", "+15550100123", dob=date(1980, 1, 2), city="Phoenix")
    make_patient(2, "José", "Núñez-Sample", "(555) 010-0199", email="Jose.N@Example.invalid")
    make_patient(3, "Mario", "Gonzaga", dob=date(1984, 2, 29))
    make_order(
        1,
        1,
        sample_id="K123456789",
        order_transaction_id=uid("group", 1),
        patient_name="maria gonzalez",
        outbound_tracking_number="1Z999AA10123456784",
        inbound_tracking_number="9400111202555842",
    )
    make_order(2, 2, bucket="closed")
    make_order(3, 2, bucket="closed")
    make_visit(1, 1, external_id="A7654321")


def enter_target(client: Client, text: str) -> str:
    """Return the path that Enter opens, without the query of a page of results."""
    answer = client.post(ADDRESS, {"q": text})
    assert answer.status_code == 302, (text, answer.status_code)
    return answer["Location"].partition("?")[0]


def suggested_matches(client: Client, text: str) -> Any:
    answer = client.post("/find/suggestions/", {"q": text})
    assert answer.status_code == 200
    return answer.context["result"]


def order_page(n: int) -> str:
    return reverse("orders:detail", args=[uid("order", n)])


def patient_page(n: int) -> str:
    return reverse("patients:detail", args=[uid("patient", n)])


FINDS_THE_FIRST_ORDER = pytest.mark.parametrize(
    "text",
    [
        *("maria gon", "gonzalez", "González", "GONZALEZ maria", "gon mar 2 Jan 1980"),
        *("2 Jan 1980", "1980-01-02", "01/02/1980", "1/2/80", "Jan 2, 1980", "01021980"),
        *("0100123", "555-010-0123", "+1 (555) 010 0123", "1.555.010.0123", "5550100123"),
        *("gonzalez 0123", "client-1"),
        *("K123456789", "k1234567", "A7654321", "a765"),
        *("1Z999AA10123456784", "1z 999 aa1 01", "9400 1112 0255 5842", "94001112"),
        str(uid("order", 1)),
        str(uid("order", 1))[:6],
        str(uid("order", 1)).replace("-", "")[:12].upper(),
        str(uid("group", 1))[:8],
        str(uid("visit", 1))[:8],
        str(uid("patient", 1))[:8],
    ],
)


@FINDS_THE_FIRST_ORDER
def test_enter_opens_the_only_open_order(client: Client, clinic: None, text: str) -> None:
    assert enter_target(client, text) == order_page(1)


@FINDS_THE_FIRST_ORDER
def test_list_of_orders_finds_what_the_search_box_finds(
    client: Client, clinic: None, text: str
) -> None:
    answer = client.get("/orders/", {"search_input": text})
    assert [row.pk for row in answer.context["page"].rows] == [uid("order", 1)]


def test_parcel_is_shown_with_its_tracking_number(client: Client, clinic: None) -> None:
    (match,) = suggested_matches(client, "94001112").parcels
    assert match.number == "9400111202555842"
    page = client.post("/find/suggestions/", {"q": "94001112"}).content.decode()
    assert "Parcels" in page and "<strong>9400111202555842</strong>" in page


def test_few_digits_are_no_tracking_number(client: Client, clinic: None) -> None:
    assert suggested_matches(client, "9400").count == 0


@pytest.mark.parametrize(
    "text", ["nunez", "Núñez josé", "jose.n@", "JOSE.N@example.invalid", "0199"]
)
def test_enter_opens_the_patient_without_an_open_order(
    client: Client, clinic: None, text: str
) -> None:
    assert enter_target(client, text) == patient_page(2)


def make_older_order(n: int, of: int, days: int, **values: Any) -> Order:
    return make_order(n, of, created_at=NOW - timedelta(days=days), **values)


def test_each_of_several_matches_links_to_its_page(client: Client, desk: User) -> None:
    for of, last in ((1, "Gonzalez"), (2, "Gonzalo")):
        make_patient(of, "Maria", last)
        for n in range(1, 8):
            shown = {"bucket": "at-lab" if n == 7 else "closed", "lab_test_name": f"Panel {of}{n}"}
            make_older_order(10 * of + n, of, n, **shown)
    for one in suggested_matches(client, "gonzal").people:
        assert str(one.order.pk) in one.url
        assert (
            one.order.lab_test_name.endswith("7")
            and len(one.newest_order_ids) == ORDERS_PER_PATIENT
        )
    page = client.post("/find/suggestions/", {"q": "gonzal"}).content.decode()
    assert "Panel 17" in page and "Panel 27" in page and "Panel 11" not in page


def test_open_orders_are_counted_however_many_are_newer(client: Client, desk: User) -> None:
    make_patient(1, "Maria", "Gonzalez")
    for n in range(1, 8):
        make_older_order(n, 1, n, bucket="closed" if n < 5 else "at-lab")
    (one,) = suggested_matches(client, "gonzalez").people
    assert len(one.orders) == ORDERS_PER_PATIENT
    assert one.open_order_ids == [uid("order", n) for n in (5, 6, 7)]
    assert one.order and one.order.pk == uid("order", 5), "not a finished one that is newer"
    page = client.post("/find/suggestions/", {"q": "gonzalez"}).content.decode()
    assert "3 open" in page
    assert enter_target(client, "gonzalez") == patient_page(1)


def test_enter_opens_the_open_order_older_than_closed_ones(client: Client, desk: User) -> None:
    make_patient(1, "Maria", "Gonzalez")
    for n in range(1, 8):
        make_older_order(n, 1, n, bucket="at-lab" if n == 7 else "closed")
    assert enter_target(client, "gonzalez") == order_page(7)


def test_patients_with_open_orders_are_first(client: Client, desk: User) -> None:
    for n, days in ((1, 1), (2, 40)):
        make_patient(n, "Maria", f"Gonzalez{n}")
        for each in range(6):
            make_older_order(n * 10 + each, n, days + each, bucket="closed")
    make_older_order(99, 2, 90, bucket="at-lab")
    assert [one.patient_id for one in suggested_matches(client, "gonz").people] == [
        uid("patient", 2), uid("patient", 1),
    ]  # fmt: skip


def test_open_orders_are_read_by_the_index_of_the_patient(desk: User) -> None:
    Patient.objects.bulk_create(patient(n) for n in range(40))
    Order.objects.bulk_create(order(n, user_id=uid("patient", n % 40)) for n in range(800))
    asked: list[Any] = [list(FINISHED_BUCKETS), [uid("patient", n) for n in range(20)]]
    with connection.cursor() as cursor:
        cursor.execute("REINDEX TABLE orders_order")
        cursor.execute("ANALYZE orders_order, patients_patient")
        cursor.execute(f"EXPLAIN {lookup._RECENT_ORDERS_SQL}", asked)
        plan = "\n".join(line for (line,) in cursor.fetchall())
    assert "order_of_patient" in plan and "Seq Scan on orders_order" not in plan


def test_enter_opens_the_patient_with_several_open_orders(client: Client, clinic: None) -> None:
    make_order(4, 1)
    assert enter_target(client, "maria gonzalez") == patient_page(1)


def test_a_patient_without_orders(client: Client, clinic: None) -> None:
    assert enter_target(client, "gonzaga") == patient_page(3)


def test_several_matches_are_shown_on_a_page_with_a_url(client: Client, clinic: None) -> None:
    answer = client.post(ADDRESS, {"q": "mar gonz"})
    assert answer.status_code == 302
    address = answer["Location"]
    assert address.startswith("/find/?of=") and "gonz" not in address
    for _ in range(2):
        page = client.get(address)
        assert page.status_code == 200
        text = page.content.decode()
        assert "Search results for “mar gonz”" in text
        for words in ("Maria Gonzalez", "Jan 2, 1980", "Phoenix", "Mario Gonzaga", "No orders"):
            assert words in text, words
    assert page.context["result"].people[0].patient_id == uid("patient", 1), "open orders first"
    other = Client()
    other.force_login(staff("front desk", "another"))
    assert "This search has expired" in other.get(address).content.decode()


def test_exact_names_are_before_prefix_matches(client: Client, desk: User) -> None:
    Patient.objects.bulk_create(patient(n) for n in range(MAX_SHOWN + 20))
    Demographics.objects.bulk_create(
        demographics(n, first_name="Lisa", name_key="lisa testperson")
        for n in range(MAX_SHOWN + 19)
    )
    last = MAX_SHOWN + 19
    demographics(last, first_name="Li", name_key="li testperson").save()
    assert suggested_matches(client, "li testp").has_more
    assert uid("patient", last) in {
        one.patient_id for one in suggested_matches(client, "li").people
    }


def test_orders_with_a_name_no_patient_has_are_found(client: Client, clinic: None) -> None:
    make_order(7, None, patient_name="", recipient_name="zora parcel")
    make_order(
        8, 3, patient_first_name="Wilma", patient_last_name="Before", patient_name="wilma before"
    )
    assert enter_target(client, "zora") == order_page(7)
    assert (
        "Parcel for <bdi>Zora Parcel</bdi>"
        in client.post("/find/suggestions/", {"q": "zora"}).content.decode()
    )
    assert enter_target(client, "wilma bef") == order_page(8)
    page = client.post("/find/suggestions/", {"q": "wilma bef"}).content.decode()
    assert "Mario Gonzaga" in page and "Formerly Wilma Before" in page


def test_parcel_from_stock_is_an_order_without_a_patient(client: Client, desk: User) -> None:
    patient(6).save()
    make_order(12, 6, patient_name="", recipient_name="zora parcel")
    make_order(13, 6, patient_name="")
    shown = suggested_matches(client, "zora")
    assert not shown.people and [one.pk for one in shown.orders] == [uid("order", 12)]
    assert enter_target(client, "zora") == order_page(12)


def test_a_patient_known_by_orders_alone_is_one_patient(client: Client, clinic: None) -> None:
    patient(6).save()
    for n in (10, 11):
        name = {"patient_first_name": "Olga", "patient_last_name": "Orderonly"}
        make_order(n, 6, **name, patient_name="olga orderonly", patient_dob=date(1990, 3, 4))
    assert enter_target(client, "orderonly") == patient_page(6)
    shown = suggested_matches(client, "orderonly")
    assert [one.name for one in shown.people] == ["Olga Orderonly"]
    page = client.post("/find/suggestions/", {"q": "orderonly"}).content.decode()
    assert "Mar 4, 1990" in page and "Once" not in page


def test_orders_of_one_transaction_are_one_thing(client: Client, clinic: None) -> None:
    make_order(9, 1, order_transaction_id=uid("group", 1), created_at=NOW + timedelta(days=1))
    assert enter_target(client, str(uid("group", 1))) == order_page(9)


def test_single_patient_is_shown_with_orders_and_visits(client: Client, clinic: None) -> None:
    shown = suggested_matches(client, "maria gonzalez")
    assert [row.pk for row in shown.orders] == [uid("order", 1)]
    assert [row.pk for row in shown.visits] == [uid("visit", 1)]
    page = client.post("/find/suggestions/", {"q": "maria gonzalez"}).content.decode()
    assert 'role="option"' in page and "MST" in page


def test_visit_found_by_number_shows_its_patient(client: Client, clinic: None) -> None:
    for name in ("Maria Gonzalez", "Mary Once"):
        page = client.post("/find/suggestions/", {"q": "A7654321"}).content.decode()
        assert f"<bdi>{name}</bdi> · " in page
        Demographics.objects.all().delete()
        Patient.objects.update(**NOBODY)
        Order.objects.update(patient_first_name="Mary", patient_last_name="Once")


@pytest.mark.parametrize(
    "text",
    ["a", "%", "_", "%%", "'; --", "😀😀", "\\", "* & !", "x" * 100, "zz zz", NOWHERE, "-----"],
)
def test_search_without_matches_says_so(client: Client, clinic: None, text: str) -> None:
    assert enter_target(client, text) == ADDRESS
    assert suggested_matches(client, text).count == 0


@pytest.mark.parametrize("text", ["x" * 101, "m" * 10_000, "mar\x00ia"])
def test_invalid_search_text_is_refused_and_kept(client: Client, clinic: None, text: str) -> None:
    answer = client.post(ADDRESS, {"q": text})
    assert answer.status_code == 400
    assert "Type " in answer.content.decode()
    assert f'value="{text}"' in answer.content.decode()
    assert client.post("/find/suggestions/", {"q": text}).status_code == 200


def test_user_without_names_finds_only_ids_and_samples(client: Client, clinic: None) -> None:
    client.force_login(staff("viewer"))
    Order.objects.update(patient_first_name="Canaria", patient_name="canaria secret")
    for text in (
        "gonzalez",
        "canaria",
        "0100123",
        "1980-01-02",
        "jose.n@example.invalid",
        "94001112",
    ):
        assert enter_target(client, text) == ADDRESS
        assert suggested_matches(client, text).count == 0
    for text in ("K123456789", str(uid("order", 1))[:6], "A7654321", str(uid("visit", 1))[:8]):
        assert enter_target(client, text) == order_page(1)
        page = client.post("/find/suggestions/", {"q": text}).content.decode()
        assert "Canaria" not in page and "Gonzalez" not in page and "Jan 1980" not in page
        assert "1980-01-02" not in page


def test_search_is_audited_with_the_shown_records(client: Client, clinic: None) -> None:
    enter_target(client, "maria gonzalez")
    suggested_matches(client, "gonza")
    first, second = AuditEntry.objects.order_by("pk")
    assert (first.action, first.object_type, second.action) == ("search", "finding", "search")
    assert {uid("patient", 1), uid("patient", 3)} <= set(second.patient_ids)
    assert "gonz" not in f"{first.__dict__}{second.__dict__}".lower()


def test_search_text_is_in_no_url(client: Client, clinic: None) -> None:
    for address in (ADDRESS, "/find/suggestions/"):
        answer = Client().post(address, {"q": "Canary"})
        assert answer.status_code == 302
        assert "canary" not in answer["Location"].lower()
    assert "q=" not in client.post(ADDRESS, {"q": "gonza"})["Location"]


def test_an_auditor_is_refused(client: Client) -> None:
    client.force_login(staff("auditor"))
    assert client.post(ADDRESS, {"q": "maria"}).status_code == 403


def test_the_number_of_queries_is_fixed(client: Client, desk: User) -> None:
    def queries(text: str) -> int:
        with CaptureQueriesContext(connection) as seen:
            client.post("/find/suggestions/", {"q": text})
        return len(seen)

    make_patient(1, "Ada", "Sample")
    make_order(1, 1)
    queries("ada")
    few = queries("ada s")
    for n in range(2, 40):
        make_patient(n, "Ada", "Sample")
        make_order(n, n)
        make_order(n + 100, n)
    assert queries("ada s") <= few + 1 <= 14


@pytest.mark.parametrize(
    ("make", "index"),
    [
        (
            lambda: OrderNameWord.matching({"names": required_prefixes("ada29")}),
            "orders_ordernameword_pkey",
        ),
        (lambda: Order.objects.with_person(parse_search_text("ada29")), "order_of_name"),
        (lambda: Patient.objects.matching(parse_search_text("ada@exa")), "patient_email"),
    ],
)
def test_readings_are_answered_by_an_index(make: Callable[[], Any], index: str) -> None:
    Order.objects.bulk_create(order(n, patient_name=f"ada{n} testperson") for n in range(300))
    Patient.objects.bulk_create(patient(n) for n in range(300))
    Demographics.objects.bulk_create(demographics(n) for n in range(300))
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE orders_order, orders_ordernameword, patients_patient")
        cursor.execute("SET LOCAL enable_seqscan = off")
        plan = make().explain()
    assert index in plan
    assert "Seq Scan" not in plan


@pytest.mark.parametrize(
    ("text", "indexes"),
    [
        (str(uid("order", 1))[:8], {"orders_order_pkey", "order_of_patient"}),
        ("S-77", {"order_sample", "appointment_by_number"}),
        ("9400111202", {"order_outbound_parcel", "order_inbound_parcel", "patient_phone"}),
        ("2 Jan 1980", {"order_patient_dob", "patient_by_birth_date"}),
        ("ada7@exa", {"patient_email"}),
        ("client-7", {"patient_client_id"}),
    ],
)
def test_each_meaning_of_a_text_is_answered_by_its_index(text: str, indexes: set[str]) -> None:
    parcels = {f"{way}_tracking_number": "9400" for way in ("outbound", "inbound")}
    Order.objects.bulk_create(order(n, sample_id=f"S-{n}", **parcels) for n in range(500))
    Patient.objects.bulk_create(patient(n) for n in range(500))
    Demographics.objects.bulk_create(demographics(n) for n in range(500))
    for n in range(50):
        make_visit(n, n, external_id=f"A{n}")
    search = parse_order_search_text(text, by_name=True)
    conditions = list_conditions(search)
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE orders_order, orders_appointment, patients_patient")
        cursor.execute("SET LOCAL enable_seqscan = off")
        plan = keys_of_any(Order.objects.all(), conditions, 1_000).explain()
    assert "Seq Scan" not in plan
    assert {index for index in indexes if index not in plan} == set(), plan


def test_sample_id_is_not_read_as_a_name(client: Client, clinic: None) -> None:
    """A name of hexadecimal letters may be the prefix of an id by chance. The person is meant."""
    make_patient(5, "Ada", "Decade")
    low = order(50, id=UUID("decade00-0000-4000-8000-000000000001"))
    low.save()
    assert enter_target(client, "dec") == patient_page(5)
    assert enter_target(client, "deca") == patient_page(5)
    assert enter_target(client, "decade00") == reverse("orders:detail", args=[low.pk])


def test_user_without_names_sees_a_hint(client: Client, clinic: None) -> None:
    client.force_login(staff("viewer"))
    typed = {"q": "gonzalez"}
    told = client.post("/find/suggestions/", typed).content.decode()
    page = client.post(ADDRESS, typed, follow=True).content.decode()
    assert "Your role cannot search for patients" in told and "Your role cannot search" in page
    client.force_login(staff("front desk", "colleague"))
    told = client.post("/find/suggestions/", {"q": NOWHERE}).content.decode()
    assert "No matches" in told and "Your role" not in told


def test_kit_without_patient_shows_a_dash_to_a_viewer(client: Client) -> None:
    order(1, user_id=None, patient_name="").save()
    client.force_login(staff("viewer"))
    page = client.post("/find/suggestions/", {"q": str(uid("order", 1))[:8]}).content.decode()
    assert '<strong><span class="muted"' in page and "&lt;" not in page


def test_parcel_is_shown_with_its_recipient(client: Client) -> None:
    named = order(1, user_id=None, patient_name="", recipient_name="2nd floor & <co>")
    named.save()
    client.force_login(staff("clinician"))
    page = client.post("/find/suggestions/", {"q": str(uid("order", 1))[:8]}).content.decode()
    assert "Parcel for <bdi>2nd Floor &amp; &lt;Co&gt;</bdi>" in page
