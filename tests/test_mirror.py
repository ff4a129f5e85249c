"""`mirror.apply_batch` on a real database: what it writes, what it keeps, and which record wins."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest
from django.db import transaction

from backoffice.core.models import UnknownValue
from backoffice.mirror.applying import flag_missing
from backoffice.mirror.models import Drift
from labs.models import LabAccount, LabAccountTeam
from labs.sync import LAB_ACCOUNTS
from orders.models import Order, OrderEvent
from orders.sync.orders import ORDERS
from tests.mirror_records import T0, account, apply, counts, event, minutes, order, row_versions

pytestmark = pytest.mark.django_db(transaction=True)


def test_new_then_unchanged_writes_nothing() -> None:
    records = [order(n) for n in range(1, 30)]
    assert counts(apply(ORDERS, *records)) == (29, 0, 0, 0, 0)
    before = row_versions()
    assert len(before) == 58
    later = [order(n, as_of=60) for n in range(1, 30)]
    assert counts(apply(ORDERS, *later)) == (0, 0, 29, 0, 0)
    assert row_versions() == before


def test_record_is_stored_byte_for_byte() -> None:
    record = order(passthrough='Ünï\u2028 \\u0041 "quoted" \t', extra={"unknown": [1, 2.50]})
    apply(ORDERS, record)
    stored = Order.objects.get()
    assert stored.record.encode() == record.raw and stored.as_of == record.as_of


def test_only_newer_record_is_written() -> None:
    apply(ORDERS, *(order(n) for n in range(1, 10)))
    before = dict(Order.objects.values_list("pk", "as_of"))
    newer = order(4, updated=5, as_of=6, sample_id="S4")
    outcome = apply(ORDERS, *(order(n, as_of=6) for n in range(1, 10) if n != 4), newer)
    assert counts(outcome) == (0, 1, 8, 0, 0)
    assert outcome.touched == [newer]
    after = dict(Order.objects.values_list("pk", "as_of"))
    assert {key for key in after if after[key] != before[key]} == {newer.key[0]}
    assert Order.objects.get(pk=newer.key[0]).sample_id == "S4"


def test_older_record_is_ignored_whenever_requested() -> None:
    apply(ORDERS, order(updated=10, as_of=10, sample_id="new"))
    before = row_versions()
    assert counts(apply(ORDERS, order(updated=9, as_of=99, sample_id="old"))) == (0, 0, 0, 1, 0)
    assert row_versions() == before and Order.objects.get().sample_id == "new"


def test_event_id_decides_between_equal_times() -> None:
    apply(ORDERS, order(updated=10, events=[event(1), event(2)], sample_id="two"))
    assert counts(apply(ORDERS, order(updated=10, as_of=50, events=[event(1)]))) == (0, 0, 0, 1, 0)
    newer = order(updated=10, as_of=-50, events=[event(1), event(2), event(3)], sample_id="three")
    assert counts(apply(ORDERS, newer)) == (0, 1, 0, 0, 0)
    assert Order.objects.get().sample_id == "three"


def test_tie_goes_to_later_request() -> None:
    apply(ORDERS, order(updated=10, as_of=10, sample_id="first"))
    assert counts(apply(ORDERS, order(updated=10, as_of=9, sample_id="earlier"))) == (0, 0, 0, 1, 0)
    assert counts(apply(ORDERS, order(updated=10, as_of=10, sample_id="same"))) == (0, 0, 0, 1, 0)
    assert counts(apply(ORDERS, order(updated=10, as_of=11, sample_id="later"))) == (0, 1, 0, 0, 0)
    assert Order.objects.get().sample_id == "later"


def test_result_is_independent_of_arrival_order() -> None:
    """Records in every order of arrival leave the newest state and all events."""
    from itertools import permutations

    history = [event(1), event(2, "awaiting_registration"), event(3, "transit_customer")]
    records = [
        order(updated=n, as_of=10 - n, events=history[:n], sample_id=f"S{n}") for n in (1, 2, 3)
    ]
    for arrival in permutations(records):
        Order.objects.all().delete()
        OrderEvent.objects.all().delete()
        for record in arrival:
            apply(ORDERS, record)
        assert Order.objects.get().sample_id == "S3"
        assert set(OrderEvent.objects.values_list("event_id", flat=True)) == {1, 2, 3}


def test_newest_duplicate_in_batch_is_applied() -> None:
    batch = [order(updated=n, as_of=n, sample_id=f"S{n}") for n in (2, 5, 3)]
    assert counts(apply(ORDERS, *batch)) == (1, 0, 0, 0, 0)
    assert Order.objects.get().sample_id == "S5"
    assert counts(apply(ORDERS, *batch, *batch)) == (0, 0, 1, 0, 0)


def test_volatile_fields_are_not_changes() -> None:
    link = "https://files.service.invalid/r.pdf?signature="
    apply(ORDERS, order(requisition_form_url=link + "aa"))
    before = row_versions()
    again = order(as_of=5, requisition_form_url=link + "bb")
    assert counts(apply(ORDERS, again)) == (0, 0, 1, 0, 0)
    assert row_versions() == before
    assert counts(apply(ORDERS, order(as_of=6, requisition_form_url=None))) == (0, 1, 0, 0, 0)


def test_events_are_only_added() -> None:
    apply(ORDERS, order(events=[event(1), event(2)]))
    before = row_versions("orders_orderevent")
    apply(ORDERS, order(updated=1, as_of=1, events=[event(2), event(3)]))
    assert set(OrderEvent.objects.values_list("event_id", flat=True)) == {1, 2, 3}
    assert set(before) < set(row_versions("orders_orderevent"))
    assert not Drift.objects.exists()


def test_changed_history_is_reported_and_not_applied() -> None:
    apply(ORDERS, order(events=[event(1), event(2)]))
    changed_event = event(1, status_detail="changed_later")
    apply(ORDERS, order(updated=1, as_of=1, events=[changed_event, event(2), event(3)]))
    found = Drift.objects.get()
    assert (found.kind, found.key) == ("history_conflict", f"{UUID(int=1)}:1")
    assert OrderEvent.objects.get(event_id=1).status_detail is None


def test_team_set_is_replaced() -> None:
    apply(LAB_ACCOUNTS, account(1, teams=(1, 2, 3)), account(2, teams=(1,)))
    untouched = row_versions("labs_labaccountteam")
    apply(LAB_ACCOUNTS, account(1, as_of=1, teams=(2, 4)), account(2, as_of=1, teams=(1,)))
    teams = LabAccountTeam.objects.values_list("account_id", "team_id")
    assert sorted((a.int, t.int) for a, t in teams) == [(1, 2), (1, 4), (2, 1)]
    assert (
        len(set(untouched) & set(row_versions("labs_labaccountteam"))) == 1
    )  # of the other account
    apply(LAB_ACCOUNTS, account(1, as_of=2, teams=()))
    assert LabAccountTeam.objects.count() == 1


def test_older_record_does_not_change_children() -> None:
    apply(LAB_ACCOUNTS, account(as_of=5, teams=(1, 2)))
    apply(LAB_ACCOUNTS, account(as_of=4, teams=(3,)))
    assert {t.int for t in LabAccountTeam.objects.values_list("team_id", flat=True)} == {1, 2}


def test_missing_since_is_set_and_cleared() -> None:
    apply(LAB_ACCOUNTS, account(1), account(2))
    with transaction.atomic():
        assert flag_missing(LAB_ACCOUNTS, [(UUID(int=1),)], minutes(5)) == 1
        assert (
            flag_missing(LAB_ACCOUNTS, [(UUID(int=1),)], minutes(6)) == 0
        )  # it is flagged already
    assert LabAccount.objects.get(pk=UUID(int=1)).missing_since == minutes(5)
    assert LabAccount.objects.get(pk=UUID(int=2)).missing_since is None
    assert Drift.objects.get().kind == "missing_remote"
    # The same content, requested later: the record is back.
    assert counts(apply(LAB_ACCOUNTS, account(1, as_of=9))) == (0, 1, 0, 0, 0)
    assert LabAccount.objects.get(pk=UUID(int=1)).missing_since is None


def test_row_read_after_the_list_is_not_missing() -> None:
    apply(LAB_ACCOUNTS, account(as_of=10))
    with transaction.atomic():
        assert flag_missing(LAB_ACCOUNTS, [(UUID(int=1),)], minutes(10)) == 0
    assert LabAccount.objects.get().missing_since is None and not Drift.objects.exists()


def test_flagging_no_rows_changes_nothing() -> None:
    assert flag_missing(LAB_ACCOUNTS, [], T0) == 0


@pytest.mark.parametrize("as_of", [4, 5])
def test_earlier_request_does_not_clear_missing_flag(as_of: float) -> None:
    """This holds for any version: at the time of the request the record was not yet found
    missing."""
    apply(ORDERS, order(1), order(2))
    apply(LAB_ACCOUNTS, account(1))
    with transaction.atomic():
        flag_missing(ORDERS, [(UUID(int=1),)], minutes(5))
        flag_missing(LAB_ACCOUNTS, [(UUID(int=1),)], minutes(5))
    late = order(updated=3, as_of=as_of, sample_id="late")
    assert counts(apply(ORDERS, late, order(2, as_of=as_of))) == (0, 0, 1, 1, 0)
    assert counts(apply(LAB_ACCOUNTS, account(1, as_of=as_of))) == (0, 0, 0, 1, 0)
    stored = Order.objects.get(pk=UUID(int=1))
    assert stored.missing_since == minutes(5) and stored.sample_id != "late"
    assert LabAccount.objects.get().missing_since == minutes(5)
    # Requested afterwards: the record is back.
    assert counts(apply(ORDERS, order(updated=3, as_of=6, sample_id="late"))) == (0, 1, 0, 0, 0)
    assert counts(apply(LAB_ACCOUNTS, account(1, as_of=6))) == (0, 1, 0, 0, 0)
    stored = Order.objects.get(pk=UUID(int=1))
    assert stored.missing_since is None and stored.sample_id == "late"
    assert LabAccount.objects.get().missing_since is None


def test_unknown_values_are_counted_and_kept() -> None:
    unknown_status: dict[str, Any] = {"status": "teleported"}
    apply(LAB_ACCOUNTS, account(1, **unknown_status), account(2, **unknown_status), account(3))
    found = UnknownValue.objects.get()
    assert (found.vocabulary, found.value, found.sightings) == (
        "lab_account.status",
        "teleported",
        2,
    )
    assert LabAccount.objects.filter(status="teleported").count() == 2
    apply(LAB_ACCOUNTS, account(1, as_of=1, **unknown_status))
    assert UnknownValue.objects.get().sightings == 2  # unchanged rows are not counted again
    apply(LAB_ACCOUNTS, account(1, as_of=2, provider_account_id="B", **unknown_status))
    assert UnknownValue.objects.get().sightings == 3


def test_unknown_values_of_children_are_counted() -> None:
    apply(ORDERS, order(events=[event(1), event(2, "beamed_up")]))
    values = set(UnknownValue.objects.values_list("vocabulary", "value"))
    assert ("order.low_level_status", "beamed_up") in values
    assert Order.objects.get().low_level_status == "beamed_up"


def test_future_version_is_ignored_in_comparison() -> None:
    """The later request wins, whichever record has the future version, until it is in the past."""
    ahead = (datetime.now(UTC) - T0).total_seconds() / 60
    year = ahead + 365 * 24 * 60
    assert counts(apply(ORDERS, order(updated=5, as_of=5))) == (1, 0, 0, 0, 0)
    assert counts(apply(ORDERS, order(updated=year, as_of=4))) == (0, 0, 0, 1, 0)
    assert counts(apply(ORDERS, order(updated=year, as_of=10))) == (0, 1, 0, 0, 0)
    assert counts(apply(ORDERS, order(updated=7, as_of=9))) == (0, 0, 0, 1, 0)
    assert counts(apply(ORDERS, order(updated=year + 1, as_of=11))) == (0, 1, 0, 0, 0)
    assert counts(apply(ORDERS, order(updated=year, as_of=13), order(updated=6, as_of=12))) == (
        (0, 1, 0, 0, 0)
    )
    assert counts(apply(ORDERS, order(updated=7, as_of=20))) == (0, 1, 0, 0, 0)
    # A clock that is slightly ahead is no future version.
    assert counts(apply(ORDERS, order(updated=ahead + 5, as_of=21))) == (0, 1, 0, 0, 0)
    assert counts(apply(ORDERS, order(updated=8, as_of=22))) == (0, 0, 0, 1, 0)


def test_tracking_numbers_of_a_parcel_are_stored() -> None:
    shipment = {"outbound_tracking_number": "OUT-1", "inbound_tracking_number": None}
    details = {"type": "testkit", "data": {"shipment": shipment}}
    apply(ORDERS, order(1, details=details), order(2))
    numbers = Order.objects.order_by("pk").values_list(
        "outbound_tracking_number", "inbound_tracking_number"
    )
    assert list(numbers) == [("OUT-1", None), (None, None)]
