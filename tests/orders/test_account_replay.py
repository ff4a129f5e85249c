"""What-if of an allowlist: our latest orders, placed again under the new state."""

from __future__ import annotations

import csv
import io
import re
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone
from pytest_django import Settings

from backoffice.accounts.models import User
from backoffice.audit.models import AuditEntry
from backoffice.outbox import maintenance
from backoffice.outbox.models import CommandRecord
from labs.models import LabAccount, LabAccountMarker, LabAccountTeam, LabAccountTest, Marker
from orders.commands import CreateOrder, ImportOrder
from orders.models import Order
from orders.placing import account_replay
from orders.placing.account_replay import Replay, replay
from tests.api.rows import TEAM, envelope, order, patient, staff, uid
from tests.labs.test_pages import account as make_account
from tests.labs.test_pages import lab, lab_test

pytestmark = pytest.mark.django_db

ONE, TWO, TEST, KIT = uid("account", 1), uid("account", 2), uid("lab test", 1), uid("lab test", 2)


@pytest.fixture(autouse=True)
def world() -> None:
    """Two active accounts of our team at one lab, which offers two tests, and a patient."""
    lab()
    make_account(1)
    make_account(2)
    for number in (1, 2):
        lab_test(number)
    patient(1, team_id=TEAM).save()
    staff("lab admin")


def ordered(n: int, **values: Any) -> Order:
    now = timezone.now()
    made = order(
        n,
        **{
            "user_id": uid("patient", 1),
            "lab_slug": "lab-1",
            "lab_test_id": TEST,
            "lab_test_name": "Test 001",
            "patient_first_name": "Nora",
            "patient_last_name": "Notreal",
            "created_at": now - timedelta(days=n),
            **values,
        },
    )
    made.save()
    return made


def requested(
    made: Order,
    account_id: UUID | None,
    kind: str = CreateOrder.kind,
    markers: tuple[int, ...] = (),
) -> None:
    body: dict[str, Any] = {
        "lab_account_id": account_id and str(account_id),
        "order_set": {"lab_test_ids": [str(made.lab_test_id)]},
    }
    if markers:
        body["order_set"] = {"add_on": {"marker_ids": list(markers)}}
    CommandRecord.objects.create(
        kind=kind,
        title="Place the order",
        subject_type="patient",
        subject_id=str(made.user_id),
        patient_id=made.user_id,
        payload={"body": body},
        form_id=uuid4(),
        idempotency_key=uuid4(),
        requested_by=User.objects.get(),
        state=CommandRecord.State.DONE,
        remote_id=str(made.pk),
    )


def offers(account_id: UUID, *tests: UUID, markers: tuple[int, ...] = ()) -> None:
    for test in tests:
        LabAccountTest.objects.create(account_id=account_id, lab_test_id=test)
    for marker in markers:
        LabAccountMarker.objects.create(account_id=account_id, marker_id=marker)
    LabAccount.objects.filter(pk=account_id).update(catalog_read_at=timezone.now())


def shut_out(account_id: UUID) -> None:
    LabAccountTeam.objects.filter(account_id=account_id).delete()


def replayed(account_id: UUID, is_allowed: bool) -> Replay:
    return replay(LabAccount.objects.get(pk=account_id), is_allowed, timezone.now())


def reasons(found: Replay) -> dict[UUID, str]:
    return {one.order.pk: one.reason for one in found.refused}


def test_order_under_removed_account_would_be_refused() -> None:
    under, other = ordered(1), ordered(2)
    requested(under, ONE)
    requested(other, TWO)
    found = replayed(ONE, False)
    assert (found.total, found.unknown, found.refused_already) == (2, 0, 0)
    assert reasons(found) == {under.pk: "Our team may not use its account, Account 1."}


def test_order_without_account_is_refused_where_two_become_active() -> None:
    shut_out(TWO)
    automatic, named = ordered(1), ordered(2)
    requested(automatic, None)
    requested(named, ONE)
    assert not replayed(ONE, True).refused
    assert reasons(replayed(TWO, True)) == {
        automatic.pk: "It names no account, and 2 are active: Account 1, Account 2."
    }


def test_new_default_account_must_offer_what_was_ordered() -> None:
    """Without the first account, orders that name none go to the second, which lacks the test."""
    has, lacks = ordered(1, lab_test_id=KIT), ordered(2)
    requested(has, None)
    requested(lacks, None)
    offers(TWO, KIT)
    found = replayed(ONE, False)
    assert reasons(found) == {lacks.pk: "Account 2 does not offer Test 001."}
    assert not any(one.is_new for one in found.refused)  # Two active ones: refused today, too.
    assert found.refused_already == 1


def test_markers_of_an_order_are_checked_by_name() -> None:
    Marker.objects.create(pk=7, name="Ferritin", slug="", lab_id=1, **envelope())
    Marker.objects.create(pk=8, name="Glucose", slug="", lab_id=1, **envelope())
    made = ordered(1, lab_test_id=None)
    requested(made, TWO, markers=(7, 8))
    offers(TWO, markers=(8,))
    assert reasons(replayed(ONE, False)) == {made.pk: "Account 2 does not offer Ferritin."}


def test_catalog_never_read_refuses_nothing() -> None:
    requested(ordered(1), TWO)
    assert not replayed(ONE, False).refused


def test_no_account_left_refuses_all() -> None:
    shut_out(TWO)
    made = ordered(1)
    assert reasons(replayed(ONE, False)) == {made.pk: "Our team may use no account at this lab."}


def test_no_active_account_left_refuses_all() -> None:
    LabAccount.objects.filter(pk=TWO).update(status="suspended")
    made = ordered(1)
    assert reasons(replayed(ONE, False)) == {
        made.pk: "No account that our team may use at this lab is active."
    }


@pytest.mark.parametrize(("kind", "refused"), [(CreateOrder.kind, 1), (ImportOrder.kind, 0)])
def test_pending_account_takes_imports_only(kind: str, refused: int) -> None:
    LabAccount.objects.filter(pk=TWO).update(status="pending")
    requested(ordered(1), TWO, kind)
    assert len(replayed(ONE, True).refused) == refused


def test_order_from_elsewhere_may_have_named_its_account() -> None:
    ordered(1)
    found = replayed(ONE, False)
    assert found.unknown == 1 and not found.refused


def test_order_from_elsewhere_is_refused_where_no_remaining_account_offers_it() -> None:
    kit, other = ordered(1, lab_test_id=KIT, lab_test_name="Test 002"), ordered(2)
    offers(ONE, TEST, KIT)
    offers(TWO, TEST)
    found = replayed(ONE, False)
    assert found.unknown == 2
    assert reasons(found) == {kit.pk: "Account 2 does not offer Test 002."}
    assert found.refused[0].is_new
    assert other.pk not in reasons(found), "it may have named the second account"


def test_order_from_elsewhere_is_accepted_while_one_remaining_account_offers_it() -> None:
    make_account(3)
    third = uid("account", 3)
    made = ordered(1, lab_test_id=KIT)
    offers(ONE, TEST)
    offers(TWO, TEST)
    offers(third, KIT)
    assert not replayed(ONE, False).refused
    expected = "Account 1 does not offer Test 002. Account 2 does not offer Test 002."
    assert reasons(replayed(third, False)) == {made.pk: expected}


def test_order_from_elsewhere_would_have_to_name_an_account_where_two_become_active() -> None:
    shut_out(TWO)
    ordered(1)
    kit, named, automatic = ordered(2, lab_test_id=KIT), ordered(3), ordered(4)
    requested(named, ONE)
    requested(automatic, None)
    offers(ONE, TEST)
    offers(TWO, TEST)
    found = replayed(TWO, True)
    assert (found.total, found.unknown, found.must_choose) == (4, 2, 1)
    assert [str(one) for one in found.choices] == ["Account 1", "Account 2"]
    assert set(reasons(found)) == {kit.pk, automatic.pk}, "what is known to name none is refused"
    assert {one.order.pk: one.is_new for one in found.refused}[kit.pk] is False


def test_third_account_changes_nothing_for_orders_from_elsewhere() -> None:
    make_account(3)
    third = uid("account", 3)
    shut_out(third)
    ordered(1)
    found = replayed(third, True)
    assert not found.refused and found.must_choose == 0


def test_order_without_contents_of_its_request_has_an_unknown_account() -> None:
    """Contents of requests are deleted after 30 days; orders of 90 days are replayed."""
    made = ordered(40)
    requested(made, ONE)
    CommandRecord.objects.update(finished_at=timezone.now() - timedelta(days=31))
    assert maintenance.erase_contents() == 1
    found = replayed(TWO, False)
    assert found.unknown == 1 and not found.refused
    found = replayed(TWO, True)
    assert found.unknown == 1 and not found.refused, "it named one of the two"


@pytest.mark.parametrize(
    "values",
    [{"created_at": timezone.now() - timedelta(days=91)}, {"lab_slug": "lab-2"},
     {"origin": "redraw"}, {"missing_since": timezone.now()}],
    ids=["old", "another lab", "redraw", "missing"],
)  # fmt: skip
def test_replay_leaves_other_orders_out(values: dict[str, Any]) -> None:
    ordered(1, **values)
    assert replayed(ONE, False).total == 0


def test_replay_takes_few_queries_and_newest_orders() -> None:
    for number in range(1, 31):
        requested(ordered(number), ONE)
    account = LabAccount.objects.get(pk=ONE)
    with CaptureQueriesContext(connection) as queries:
        assert len(replay(account, False, timezone.now()).refused) == 30
    assert len(queries) <= 7, [query["sql"] for query in queries]
    Order.objects.bulk_create(
        order(n, lab_slug="lab-1", created_at=timezone.now() - timedelta(hours=n))
        for n in range(100, 101 + account_replay.MAX_ORDERS)
    )
    found = replayed(ONE, False)
    assert found.is_capped and found.total == account_replay.MAX_ORDERS


# The page


@pytest.fixture
def managed(settings: Settings) -> None:
    settings.MANAGEMENT_KEY = "mg_local_sandbox"
    org = uid("organization", 1)
    settings.MANAGEMENT_ORG_ID = str(org)
    LabAccount.objects.update(org_id=org)


def without_our_team(client: Client) -> str:
    """The part of the page that shows what removing our team changes."""
    url = reverse("labs:account-effects", args=[ONE])
    return " ".join(client.get(url, {"teams": []}).content.decode().split())


def test_page_lists_refused_orders_before_the_change(client: Client, managed: None) -> None:
    made = ordered(1)
    requested(made, ONE)
    requested(ordered(2), TWO)
    client.force_login(User.objects.get())
    text = without_our_team(client)
    assert "<strong>1 of 2 orders would have been refused</strong>" in text
    assert f'href="/orders/{made.pk}/"' in text and "Nora Notreal" in text
    entry = AuditEntry.objects.filter(object_type="order", action="list").latest("pk")
    assert entry.object_ids == [str(made.pk)] and entry.patient_ids == [made.user_id]


def test_page_without_refused_orders_says_so(client: Client, managed: None) -> None:
    requested(ordered(1), TWO)
    client.force_login(User.objects.get())
    assert "None of 1 order would have been refused." in without_our_team(client)


def test_whole_list_of_refused_orders_is_downloaded(client: Client, managed: None) -> None:
    made = [ordered(n) for n in range(1, 31)]
    Order.objects.filter(pk=made[0].pk).update(patient_last_name="=1+1")
    for one in made:
        requested(one, ONE)
    client.force_login(User.objects.get())
    text = without_our_team(client)
    assert "And 5 more." in text and "Download all 30 as CSV" in text
    assert f'href="/orders/{made[0].pk}/" target="_blank" rel="noopener"' in text
    link = re.search(r'href="(/orders/refused/[^"]+)"', text)
    assert link is not None
    answer = client.get(link[1])
    assert answer["Content-Type"] == "text/csv; charset=utf-8"
    assert 'filename="orders-refused-' in answer["Content-Disposition"]
    rows = list(csv.DictReader(io.StringIO(answer.content.decode("utf-8-sig"))))
    assert [row["Order"] for row in rows] == [str(one.pk) for one in made]
    assert rows[0]["Last name"] == "'=1+1" and rows[1]["Last name"] == "Notreal"
    assert rows[0]["Reason"] == "Our team may not use its account, Account 1."
    assert rows[0]["Refused today, too"] == "no"
    entry = AuditEntry.objects.filter(object_type="order", action="export").get()
    assert entry.object_ids == [str(one.pk) for one in made] and entry.row_count == 30
    assert set(entry.patient_ids) == {uid("patient", 1)}


def test_refused_orders_are_downloaded_by_those_who_may(client: Client, managed: None) -> None:
    client.force_login(staff("lab coordinator"))
    url = reverse("orders:refused", args=[ONE])
    assert client.get(url, {"allowed": "no"}).status_code == 403
    client.force_login(User.objects.get(groups__name="lab admin"))
    assert client.get(url, {"allowed": "maybe"}).status_code == 400
    assert client.get(url, {"allowed": "no"}).status_code == 200


def test_page_counts_orders_that_would_have_to_name_an_account(
    client: Client, managed: None
) -> None:
    shut_out(TWO)
    ordered(1)
    ordered(2)
    client.force_login(User.objects.get())
    url = reverse("labs:account-effects", args=[TWO])
    text = " ".join(client.get(url, {"teams": [str(TEAM)]}).content.decode().split())
    assert "None of 2 orders would have been refused." in text
    expected = "2 orders would have to name an account: 2 would be active (Account 1, Account 2)."
    assert expected in text


def test_other_teams_change_replays_nothing(client: Client, managed: None) -> None:
    client.force_login(User.objects.get())
    url = reverse("labs:account-effects", args=[ONE])
    text = client.get(url, {"teams": [str(TEAM), str(uid("team", 2))]}).content.decode()
    assert "Our orders of the last" not in text
