"""Pages of the lab catalog."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from backoffice.audit.models import AuditEntry
from labs.details import billing_by_state, questions
from labs.models import (
    ExpectedResult,
    Lab,
    LabAccount,
    LabAccountMarker,
    LabAccountTeam,
    LabAccountTest,
    LabTest,
    LabTestMarker,
    Marker,
)
from tests.api.rows import TEAM, envelope, staff, uid

pytestmark = pytest.mark.django_db

BILLING = {
    "patient_bill": ["AZ", "CA"],
    "client_bill": ["AZ", "CA", "NY"],
    "something_new": ["NY"],
}


def lab(n: int = 1) -> Lab:
    return Lab.objects.create(
        id=n,
        slug=f"lab-{n}",
        name=f"Lab number {n}",
        city="Sampleville",
        collection_methods=["walk_in_test", "method_x"],
        sample_types=["serum"],
        **envelope(),
    )


def account(n: int, lab_slug: str = "lab-1", record: str = "{}", **values: Any) -> LabAccount:
    created = LabAccount.objects.create(
        **{
            "id": uid("account", n),
            "lab": lab_slug,
            "status": "active",
            "delegated_flow": "not_delegated",
            "provider_account_id": f"A-{n}",
            "account_name": f"Account {n}",
            **envelope(record),
            **values,
        }
    )
    LabAccountTeam.objects.create(account=created, team_id=TEAM)
    return created


def lab_test(n: int, **values: Any) -> LabTest:
    return LabTest.objects.create(
        **{
            "id": uid("lab test", n),
            "lab_id": 1,
            "slug": f"test-{n}",
            "name": f"Test {n:03}",
            "sample_type": "serum",
            "method": "walk_in_test",
            "status": "active",
            **envelope(),
            **values,
        }
    )


def marker(n: int, **values: Any) -> Marker:
    return Marker.objects.create(
        **{
            "id": n,
            "lab_id": 1,
            "name": f"Marker {n:03}",
            "slug": f"marker-{n}",
            "provider_id": f"C{n:04}",
            **envelope(),
            **values,
        }
    )


@pytest.fixture(autouse=True)
def _logged_in(client: Client) -> None:
    client.force_login(staff("viewer"))


def test_lab_list_shows_state_of_accounts(client: Client) -> None:
    lab(1)
    lab(2)
    account(1)
    account(2, status="suspended")
    account(3, lab_slug="lab-unknown")
    marker(1)
    lab_test(1)
    answer = client.get("/labs/")
    page = answer.content.decode()
    assert "Lab number 1" in page
    assert "Suspended" in page
    assert "Walk-in" in page
    assert "method_x" in page, "an unknown method is shown as received"
    assert "No account" in page
    assert [(row.tests, row.markers) for row in answer.context["rows"]] == [(1, 1), (0, 0)]
    assert "Accounts at labs not in the catalog" in page


def test_empty_lab_list_says_no_labs_yet(client: Client) -> None:
    assert "No labs yet" in client.get("/labs/").content.decode()


def test_lab_page_shows_teams_note_and_billing_of_account(client: Client) -> None:
    lab()
    account(
        1, record=json.dumps({"allowed_billing": BILLING}), default_clinical_notes="Call us first"
    )
    page = client.get("/labs/1/").content.decode()
    assert "Call us first" in page
    assert str(TEAM) in page
    assert "Clinic bill" in page
    assert "something_new" in page
    assert "AZ, CA" in page
    assert "All other states" in page


def test_billing_groups_states_by_allowed_types() -> None:
    rows = billing_by_state(LabAccount(record=json.dumps({"allowed_billing": BILLING})))
    assert [(list(row.states), list(row.allowed), list(row.refused)) for row in rows] == [
        (["AZ", "CA"], ["client_bill", "patient_bill"], ["something_new"]),
        (["NY"], ["client_bill", "something_new"], ["patient_bill"]),
    ]


@pytest.mark.parametrize(
    "record", ["", "null", "[]", "{}", '{"allowed_billing": null}', '{"allowed_billing": {"x": 1}}']
)
def test_missing_billing_gives_no_rows(record: str) -> None:
    assert billing_by_state(LabAccount(record=record)) == []


def test_questions_are_in_order_of_the_lab() -> None:
    given = [
        {"id": 2, "value": "How often?", "sequence": 2, "type": "numeric", "constraint": "0-9"},
        {
            "id": 1,
            "value": "Fasting?",
            "sequence": 1,
            "type": "choice",
            "required": True,
            "answers": [{"value": "Yes"}, {"code": "N"}],
        },
    ]
    found = questions(Marker(record=json.dumps({"aoe": {"questions": given}})))
    assert [each.text for each in found] == ["Fasting?", "How often?"]
    assert found[0].required
    assert list(found[0].answers) == ["Yes", "N"]
    assert found[1].hint == "0-9"
    for text in ('{"aoe": null}', '{"aoe": {"questions": 7}}', "x", "[]"):
        assert questions(Marker(record=text)) == []


def test_marker_search_finds_by_name_and_code(client: Client) -> None:
    lab()
    for n in range(3):
        marker(n)
    for word, expected in (("marker 00", [0, 1, 2]), ("c0001", [1]), ("002", [2]), ("zzz", [])):
        answer = client.get("/labs/1/", {"show": "markers", "q": word})
        assert [row.pk for row in answer.context["page"].rows] == expected, word
    assert "No matches" in answer.content.decode()
    for tab in ("tests", "markers"):
        assert client.get("/labs/1/", {"show": tab, "q": "a\x00"}).status_code == 400


@pytest.mark.parametrize("tab", ["markers", "tests"])
def test_paging_returns_every_row_once(client: Client, tab: str) -> None:
    lab()
    for n in range(120):
        marker(n) if tab == "markers" else lab_test(n)
    seen: list[Any] = []
    query: dict[str, str] = {"show": tab}
    while True:
        answer = client.get("/labs/1/", query)
        page = answer.context["page"]
        seen += [row.name for row in page.rows]
        if page.next is None:
            break
        query = {"show": tab, "after": page.next}
    assert seen == sorted(set(seen))
    assert len(seen) == 120
    assert "120" in answer.content.decode()


def test_marker_page_shows_results_questions_and_tests(client: Client) -> None:
    lab()
    record = {"aoe": {"questions": [{"id": 1, "value": "Fasting today?", "type": "choice"}]}}
    marker(1, **envelope(json.dumps(record)))
    ExpectedResult.objects.create(
        marker_id=1, position=0, result_id=9, name="Glucose", slug="g", loinc_code="2345-7"
    )
    lab_test(1)
    LabTestMarker.objects.create(lab_test_id=uid("lab test", 1), marker_id=1, position=0)
    page = client.get("/labs/markers/1/").content.decode()
    for words in ("Glucose", "2345-7", "Fasting today?", "Test 001"):
        assert words in page


def test_lab_test_lists_markers_in_order_of_the_service(client: Client) -> None:
    lab()
    lab_test(1, fasting=True, price=12.5)
    for position, n in enumerate((7, 3, 5)):
        marker(n)
        LabTestMarker.objects.create(lab_test_id=uid("lab test", 1), marker_id=n, position=position)
    answer = client.get(f"/labs/tests/{uid('lab test', 1)}/")
    assert [row.pk for row in answer.context["markers"]] == [7, 3, 5]
    assert "$12.50" in answer.content.decode()


@pytest.mark.parametrize(
    "address", ["/labs/9/", "/labs/markers/9/", f"/labs/tests/{uid('lab test', 9)}/"]
)
def test_unknown_ids_are_404(client: Client, address: str) -> None:
    assert client.get(address).status_code == 404


@pytest.mark.parametrize("address", ["/labs/", "/labs/1/", "/labs/1/?show=markers"])
def test_auditor_cannot_view_labs(client: Client, address: str) -> None:
    lab()
    client.force_login(staff("auditor"))
    assert client.get(address).status_code == 403


def test_catalog_views_are_not_recorded(client: Client) -> None:
    lab()
    client.get("/labs/1/")
    assert AuditEntry.objects.count() == 0


@pytest.mark.parametrize("rows", [1, 40])
def test_query_count_does_not_grow_with_rows(
    client: Client, rows: int, django_assert_num_queries: Any
) -> None:
    lab()
    for n in range(rows):
        account(n)
        marker(n)
        lab_test(n)
        ExpectedResult.objects.create(marker_id=0, position=n, result_id=n, name="R", slug="r")
        LabTestMarker.objects.create(lab_test_id=uid("lab test", 0), marker_id=n, position=n)
    client.get("/labs/")  # The first page of a session stores its form token.
    # Session, user with roles; notifications each time.
    for address, queries in (
        ("/labs/", 2 + 1 + 2),
        ("/labs/1/", 2 + 1 + 4 + 2),
        ("/labs/1/?show=tests", 2 + 1 + 4 + 1),
        ("/labs/1/?show=markers&q=m", 2 + 1 + 4 + 2),
        ("/labs/markers/0/", 2 + 1 + 3),
        (f"/labs/tests/{uid('lab test', 0)}/", 2 + 1 + 2),
    ):
        with django_assert_num_queries(queries):
            client.get(address)


# Catalogs of accounts


def set_catalog(created: LabAccount, *tests: LabTest, markers: Sequence[Marker] = ()) -> None:
    """Store the catalog of an account as if it had just been read."""
    LabAccountTest.objects.bulk_create(
        LabAccountTest(account=created, lab_test=each) for each in tests
    )
    LabAccountMarker.objects.bulk_create(
        LabAccountMarker(account=created, marker=each) for each in markers
    )
    LabAccount.objects.filter(pk=created.pk).update(catalog_read_at=timezone.now())


def test_account_page_reports_old_catalog(client: Client) -> None:
    lab()
    one = account(1)
    set_catalog(one, lab_test(1))
    address = f"/labs/accounts/{one.pk}/"
    assert "The last check is too old" not in client.get(address).content.decode()
    LabAccount.objects.update(catalog_read_at=timezone.now() - timedelta(hours=49))
    assert "The last check is too old" in client.get(address).content.decode()


def test_account_page_lists_missing_tests_and_markers(client: Client) -> None:
    lab()
    one, other = account(1), account(2)
    first, second = lab_test(1), lab_test(2)
    lab_test(3, status="inactive")
    lab_test(4, missing_since=timezone.now())
    added = marker(1, a_la_carte_enabled=True)
    offered_elsewhere, reflex, not_orderable = marker(2), marker(3), marker(4, is_orderable=False)
    set_catalog(one, first, markers=[added])
    set_catalog(other, first, second, markers=[offered_elsewhere, not_orderable])
    page = client.get(f"/labs/accounts/{one.pk}/").content.decode()
    assert "Last checked" in page and "Not checked yet" not in page
    assert page.count("1 offered, <strong>1 not offered</strong>") == 2
    assert second.name in page and first.name not in page
    assert offered_elsewhere.name in page
    assert reflex.name not in page and not_orderable.name not in page
    whole = client.get(f"/labs/accounts/{other.pk}/").content.decode()
    assert "2 offered, none of this lab’s missing" in whole


def test_account_page_reports_unchecked_catalog(client: Client) -> None:
    lab()
    created = account(1)
    lab_test(1)
    for page in (f"/labs/accounts/{created.pk}/", f"/labs/accounts/{created.pk}/catalog/"):
        text = client.get(page).content.decode()
        assert "Not checked yet" in text and "not offered" not in text


def test_account_catalog_is_searched_by_name_and_code(client: Client) -> None:
    lab()
    created, other = account(1), account(2)
    tests, markers = [lab_test(n) for n in range(1, 14)], [marker(n) for n in range(1, 61)]
    set_catalog(created, tests[0], markers=markers[:55])
    set_catalog(other, markers=markers)
    url = f"/labs/accounts/{created.pk}/catalog/"
    page = client.get(f"/labs/accounts/{created.pk}/").content.decode()
    assert "View all 12 not offered" in page and page.count('href="/labs/tests/') == 10

    def rows(**query: str) -> list[str]:
        return [row.name for row in client.get(url, query).context["page"].rows]

    assert rows() == ["Test 001"]
    assert rows(show="missing-tests")[0] == "Test 002" and len(rows(show="missing-tests")) == 12
    assert rows(show="missing-tests", q="013") == ["Test 013"]
    assert len(rows(show="markers")) == 50
    assert rows(show="markers", q="C0007") == ["Marker 007"]
    assert rows(show="missing-markers") == [f"Marker {n:03}" for n in range(56, 61)]
    assert rows(show="missing-markers", q="nothing") == []
    assert client.get(url, {"show": "nonsense", "after": "x"}).status_code == 200
    assert client.get(url, {"q": "a\x00"}).status_code == 400
