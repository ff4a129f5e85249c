"""Replay of recent orders under a changed allowlist of a lab account."""

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
from orders.placing import allowlist_simulation
from orders.placing.allowlist_simulation import Replay, replay
from tests.api.rows import TEAM, envelope, order, patient, staff, uid
from tests.labs.test_pages import account as make_account
from tests.labs.test_pages import lab, lab_test

pytestmark = pytest.mark.django_db

FIRST_ACCOUNT, SECOND_ACCOUNT, TEST, KIT = (
    uid("account", 1),
    uid("account", 2),
    uid("lab test", 1),
    uid("lab test", 2),
)


@pytest.fixture(autouse=True)
def accounts_and_patient() -> None:
    """Two active accounts of our team at one lab that offers two tests, and a patient."""
    lab()
    make_account(1)
    make_account(2)
    for number in (1, 2):
        lab_test(number)
    patient(1, team_id=TEAM).save()
    staff("lab admin")


def create_order(n: int, **values: Any) -> Order:
    now = timezone.now()
    placed = order(
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
    placed.save()
    return placed


def create_request(
    placed: Order,
    account_id: UUID | None,
    kind: str = CreateOrder.kind,
    markers: tuple[int, ...] = (),
) -> None:
    body: dict[str, Any] = {
        "lab_account_id": account_id and str(account_id),
        "order_set": {"lab_test_ids": [str(placed.lab_test_id)]},
    }
    if markers:
        body["order_set"] = {"add_on": {"marker_ids": list(markers)}}
    CommandRecord.objects.create(
        kind=kind,
        title="Place the order",
        subject_type="patient",
        subject_id=str(placed.user_id),
        patient_id=placed.user_id,
        payload={"body": body},
        form_id=uuid4(),
        idempotency_key=uuid4(),
        requested_by=User.objects.get(),
        state=CommandRecord.State.DONE,
        remote_id=str(placed.pk),
    )


def set_catalog(account_id: UUID, *tests: UUID, markers: tuple[int, ...] = ()) -> None:
    for test in tests:
        LabAccountTest.objects.create(account_id=account_id, lab_test_id=test)
    for marker in markers:
        LabAccountMarker.objects.create(account_id=account_id, marker_id=marker)
    LabAccount.objects.filter(pk=account_id).update(catalog_read_at=timezone.now())


def remove_team(account_id: UUID) -> None:
    LabAccountTeam.objects.filter(account_id=account_id).delete()


def replay_change(account_id: UUID, is_allowed: bool) -> Replay:
    return replay(LabAccount.objects.get(pk=account_id), is_allowed, timezone.now())


def refusal_reasons(found: Replay) -> dict[UUID, str]:
    return {one.order.pk: one.reason for one in found.refused}


def test_order_under_removed_account_would_be_refused() -> None:
    under, other = create_order(1), create_order(2)
    create_request(under, FIRST_ACCOUNT)
    create_request(other, SECOND_ACCOUNT)
    found = replay_change(FIRST_ACCOUNT, False)
    assert (found.total, found.unknown, found.refused_already) == (2, 0, 0)
    assert refusal_reasons(found) == {under.pk: "Our team may not use its account, Account 1."}


def test_order_without_account_needs_single_active_account() -> None:
    remove_team(SECOND_ACCOUNT)
    automatic, named = create_order(1), create_order(2)
    create_request(automatic, None)
    create_request(named, FIRST_ACCOUNT)
    assert not replay_change(FIRST_ACCOUNT, True).refused
    assert refusal_reasons(replay_change(SECOND_ACCOUNT, True)) == {
        automatic.pk: "It names no account, and 2 are active: Account 1, Account 2."
    }


def test_new_default_account_must_offer_ordered_test() -> None:
    """Without the first account, orders without an account go to the second one, which does not
    offer the test."""
    offered_order, missing_order = create_order(1, lab_test_id=KIT), create_order(2)
    create_request(offered_order, None)
    create_request(missing_order, None)
    set_catalog(SECOND_ACCOUNT, KIT)
    found = replay_change(FIRST_ACCOUNT, False)
    assert refusal_reasons(found) == {missing_order.pk: "Account 2 does not offer Test 001."}
    assert not any(
        one.is_new for one in found.refused
    )  # Two accounts are active, so they are refused today, too.
    assert found.refused_already == 1


def test_markers_of_an_order_are_checked_by_name() -> None:
    Marker.objects.create(pk=7, name="Ferritin", slug="", lab_id=1, **envelope())
    Marker.objects.create(pk=8, name="Glucose", slug="", lab_id=1, **envelope())
    placed = create_order(1, lab_test_id=None)
    create_request(placed, SECOND_ACCOUNT, markers=(7, 8))
    set_catalog(SECOND_ACCOUNT, markers=(8,))
    assert refusal_reasons(replay_change(FIRST_ACCOUNT, False)) == {
        placed.pk: "Account 2 does not offer Ferritin."
    }


def test_catalog_never_read_refuses_nothing() -> None:
    create_request(create_order(1), SECOND_ACCOUNT)
    assert not replay_change(FIRST_ACCOUNT, False).refused


def test_no_account_left_refuses_all() -> None:
    remove_team(SECOND_ACCOUNT)
    placed = create_order(1)
    assert refusal_reasons(replay_change(FIRST_ACCOUNT, False)) == {
        placed.pk: "Our team may use no account at this lab."
    }


def test_no_active_account_left_refuses_all() -> None:
    LabAccount.objects.filter(pk=SECOND_ACCOUNT).update(status="suspended")
    placed = create_order(1)
    assert refusal_reasons(replay_change(FIRST_ACCOUNT, False)) == {
        placed.pk: "No account that our team may use at this lab is active."
    }


@pytest.mark.parametrize(("kind", "refused"), [(CreateOrder.kind, 1), (ImportOrder.kind, 0)])
def test_pending_account_takes_imports_only(kind: str, refused: int) -> None:
    LabAccount.objects.filter(pk=SECOND_ACCOUNT).update(status="pending")
    create_request(create_order(1), SECOND_ACCOUNT, kind)
    assert len(replay_change(FIRST_ACCOUNT, True).refused) == refused


def test_account_of_order_from_elsewhere_is_unknown() -> None:
    create_order(1)
    found = replay_change(FIRST_ACCOUNT, False)
    assert found.unknown == 1 and not found.refused


def test_foreign_order_is_refused_if_no_account_offers_it() -> None:
    kit, other = create_order(1, lab_test_id=KIT, lab_test_name="Test 002"), create_order(2)
    set_catalog(FIRST_ACCOUNT, TEST, KIT)
    set_catalog(SECOND_ACCOUNT, TEST)
    found = replay_change(FIRST_ACCOUNT, False)
    assert found.unknown == 2
    assert refusal_reasons(found) == {kit.pk: "Account 2 does not offer Test 002."}
    assert found.refused[0].is_new
    assert other.pk not in refusal_reasons(found), "it may have named the second account"


def test_foreign_order_is_accepted_if_an_account_offers_it() -> None:
    make_account(3)
    third = uid("account", 3)
    placed = create_order(1, lab_test_id=KIT)
    set_catalog(FIRST_ACCOUNT, TEST)
    set_catalog(SECOND_ACCOUNT, TEST)
    set_catalog(third, KIT)
    assert not replay_change(FIRST_ACCOUNT, False).refused
    expected = "Account 1 does not offer Test 002. Account 2 does not offer Test 002."
    assert refusal_reasons(replay_change(third, False)) == {placed.pk: expected}


def test_foreign_order_must_choose_among_active_accounts() -> None:
    remove_team(SECOND_ACCOUNT)
    create_order(1)
    kit, named, automatic = create_order(2, lab_test_id=KIT), create_order(3), create_order(4)
    create_request(named, FIRST_ACCOUNT)
    create_request(automatic, None)
    set_catalog(FIRST_ACCOUNT, TEST)
    set_catalog(SECOND_ACCOUNT, TEST)
    found = replay_change(SECOND_ACCOUNT, True)
    assert (found.total, found.unknown, found.must_choose) == (4, 2, 1)
    assert [str(one) for one in found.choices] == ["Account 1", "Account 2"]
    assert set(refusal_reasons(found)) == {kit.pk, automatic.pk}, (
        "the request without an account is refused"
    )
    assert {one.order.pk: one.is_new for one in found.refused}[kit.pk] is False


def test_third_account_changes_nothing_for_foreign_orders() -> None:
    make_account(3)
    third = uid("account", 3)
    remove_team(third)
    create_order(1)
    found = replay_change(third, True)
    assert not found.refused and found.must_choose == 0


def test_erased_request_leaves_account_unknown() -> None:
    """Contents of requests are deleted after 30 days; orders of 90 days are replayed."""
    placed = create_order(40)
    create_request(placed, FIRST_ACCOUNT)
    CommandRecord.objects.update(finished_at=timezone.now() - timedelta(days=31))
    assert maintenance.erase_contents() == 1
    found = replay_change(SECOND_ACCOUNT, False)
    assert found.unknown == 1 and not found.refused
    found = replay_change(SECOND_ACCOUNT, True)
    assert found.unknown == 1 and not found.refused, "its request named one of the two"


@pytest.mark.parametrize(
    "values",
    [{"created_at": timezone.now() - timedelta(days=91)}, {"lab_slug": "lab-2"},
     {"origin": "redraw"}, {"missing_since": timezone.now()}],
    ids=["old", "another lab", "redraw", "missing"],
)  # fmt: skip
def test_replay_excludes_other_orders(values: dict[str, Any]) -> None:
    create_order(1, **values)
    assert replay_change(FIRST_ACCOUNT, False).total == 0


def test_replay_is_capped_and_has_few_queries() -> None:
    for number in range(1, 31):
        create_request(create_order(number), FIRST_ACCOUNT)
    account = LabAccount.objects.get(pk=FIRST_ACCOUNT)
    with CaptureQueriesContext(connection) as queries:
        assert len(replay(account, False, timezone.now()).refused) == 30
    assert len(queries) <= 7, [query["sql"] for query in queries]
    Order.objects.bulk_create(
        order(n, lab_slug="lab-1", created_at=timezone.now() - timedelta(hours=n))
        for n in range(100, 101 + allowlist_simulation.MAX_ORDERS)
    )
    found = replay_change(FIRST_ACCOUNT, False)
    assert found.is_capped and found.total == allowlist_simulation.MAX_ORDERS


# The page


@pytest.fixture
def management_access(settings: Settings) -> None:
    settings.MANAGEMENT_KEY = "mg_local_sandbox"
    org = uid("organization", 1)
    settings.MANAGEMENT_ORG_ID = str(org)
    LabAccount.objects.update(org_id=org)


def effects_of_removing_team(client: Client) -> str:
    """Return the part of the page that shows what removing our team changes."""
    url = reverse("labs:account-effects", args=[FIRST_ACCOUNT])
    return " ".join(client.get(url, {"teams": []}).content.decode().split())


def test_page_lists_refused_orders_before_the_change(
    client: Client, management_access: None
) -> None:
    placed = create_order(1)
    create_request(placed, FIRST_ACCOUNT)
    create_request(create_order(2), SECOND_ACCOUNT)
    client.force_login(User.objects.get())
    text = effects_of_removing_team(client)
    assert "<strong>1 of 2 orders would have been refused</strong>" in text
    assert f'href="/orders/{placed.pk}/"' in text and "Nora Notreal" in text
    entry = AuditEntry.objects.filter(object_type="order", action="list").latest("pk")
    assert entry.object_ids == [str(placed.pk)] and entry.patient_ids == [placed.user_id]


def test_page_without_refused_orders_says_so(client: Client, management_access: None) -> None:
    create_request(create_order(1), SECOND_ACCOUNT)
    client.force_login(User.objects.get())
    assert "The 1 order would not have been refused." in effects_of_removing_team(client)


def test_whole_list_of_refused_orders_is_downloaded(
    client: Client, management_access: None
) -> None:
    placed = [create_order(n) for n in range(1, 31)]
    Order.objects.filter(pk=placed[0].pk).update(patient_last_name="=1+1")
    for one in placed:
        create_request(one, FIRST_ACCOUNT)
    client.force_login(User.objects.get())
    text = effects_of_removing_team(client)
    assert "And 5 more." in text and "Download all 30 as CSV" in text
    assert f'href="/orders/{placed[0].pk}/" target="_blank" rel="noopener"' in text
    link = re.search(r'href="(/orders/refused/[^"]+)"', text)
    assert link is not None
    answer = client.get(link[1])
    assert answer["Content-Type"] == "text/csv; charset=utf-8"
    assert 'filename="orders-refused-' in answer["Content-Disposition"]
    rows = list(csv.DictReader(io.StringIO(answer.content.decode("utf-8-sig"))))
    assert [row["Order"] for row in rows] == [str(one.pk) for one in placed]
    assert rows[0]["Last name"] == "'=1+1" and rows[1]["Last name"] == "Notreal"
    assert rows[0]["Reason"] == "Our team may not use its account, Account 1."
    assert rows[0]["Refused today, too"] == "no"
    entry = AuditEntry.objects.filter(object_type="order", action="export").get()
    assert entry.object_ids == [str(one.pk) for one in placed] and entry.row_count == 30
    assert set(entry.patient_ids) == {uid("patient", 1)}


def test_download_of_refused_orders_needs_permission(
    client: Client, management_access: None
) -> None:
    client.force_login(staff("lab coordinator"))
    url = reverse("orders:refused", args=[FIRST_ACCOUNT])
    assert client.get(url, {"allowed": "no"}).status_code == 403
    client.force_login(User.objects.get(groups__name="lab admin"))
    assert client.get(url, {"allowed": "maybe"}).status_code == 400
    assert client.get(url, {"allowed": "no"}).status_code == 200


def test_page_counts_orders_that_must_choose_an_account(
    client: Client, management_access: None
) -> None:
    remove_team(SECOND_ACCOUNT)
    create_order(1)
    create_order(2)
    client.force_login(User.objects.get())
    url = reverse("labs:account-effects", args=[SECOND_ACCOUNT])
    text = " ".join(client.get(url, {"teams": [str(TEAM)]}).content.decode().split())
    assert "None of 2 orders would have been refused." in text
    expected = (
        "2 orders would have to name an account, because 2 would be active (Account 1, Account 2)."
    )
    assert expected in text


def test_change_of_another_team_replays_nothing(client: Client, management_access: None) -> None:
    client.force_login(User.objects.get())
    url = reverse("labs:account-effects", args=[FIRST_ACCOUNT])
    text = client.get(url, {"teams": [str(TEAM), str(uid("team", 2))]}).content.decode()
    assert "Our orders in the last" not in text
