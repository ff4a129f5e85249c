"""Records that the mirror cannot read or store."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

import pytest
from django.db import transaction

from backoffice.mirror import applying
from backoffice.mirror.models import UnreadRecord
from backoffice.mirror.unreadable_records import clear_unreadable, save_unreadable
from labs.models import LabAccount, LabAccountTeam
from labs.sync import LAB_ACCOUNTS
from orders.models import Order, OrderEvent
from orders.sync.orders import ORDERS
from tests.mirror_records import (
    account,
    apply,
    counts,
    event,
    incompressible_text,
    minutes,
    order,
    unstorable,
)

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.mark.parametrize("place", [0, 17, 63])
def test_unstorable_record_fails_alone(place: int) -> None:
    """A record that PostgreSQL refuses is stored separately; the others are stored normally."""
    records = [account(n) for n in range(1, 65)]
    records[place] = unstorable(account(place + 1, account_name="odd"))
    outcome = apply(LAB_ACCOUNTS, *records)
    assert counts(outcome) == (63, 0, 0, 0, 1)
    assert LabAccount.objects.count() == LabAccountTeam.objects.count() == 63
    unread = UnreadRecord.objects.get()
    assert (unread.resource, unread.key) == ("labs_labaccount", str(UUID(int=place + 1)))
    assert unread.record.endswith("\ufffd") and not unread.is_stored
    # Again among changed records: still one separate row, and the rest is stored.
    changed = [account(n, as_of=1, provider_account_id="B") for n in range(1, 65)]
    changed[place] = records[place]
    assert counts(apply(LAB_ACCOUNTS, *changed)) == (0, 63, 0, 0, 1)
    assert UnreadRecord.objects.count() == 1


def test_number_beyond_its_column_costs_one_field() -> None:
    records = [order(1), order(2, events=[event(2**63)], sample_id="S2"), order(3)]
    assert counts(apply(ORDERS, *records[::2])) == (2, 0, 0, 0, 0)
    assert counts(apply(ORDERS, records[1])) == (
        0,
        0,
        0,
        0,
        1,
    )  # The event ID is part of its version.
    steps = [event(1), event(2**63)]
    partly_stored = order(4, events=steps, last_event=event(1), sample_id="S4")
    assert counts(apply(ORDERS, partly_stored)) == (1, 0, 0, 0, 0)
    assert Order.objects.get(pk=UUID(int=4)).sample_id == "S4"
    assert OrderEvent.objects.filter(order_id=UUID(int=4)).count() == 1
    unread = UnreadRecord.objects.get(key=str(UUID(int=4)))
    assert unread.is_stored and unread.path == "$.event_id"


def test_nul_in_any_text_is_replaced_and_the_row_stored() -> None:
    assert counts(apply(LAB_ACCOUNTS, account(1, account_name="NUL \x00 here"))) == (1, 0, 0, 0, 0)
    assert LabAccount.objects.get().account_name == "NUL \ufffd here"
    again = account(1, as_of=1, account_name="NUL \x00 here")
    assert counts(apply(LAB_ACCOUNTS, again)) == (0, 0, 1, 0, 0)
    assert not UnreadRecord.objects.exists()


def test_value_too_long_for_index_fails_alone() -> None:
    """PostgreSQL reports an operational error, but it concerns one record, new or changed."""
    patient = {"first_name": incompressible_text(9_000), "last_name": "Testperson"}
    bad = order(17, patient_details=patient)
    good = [order(n) for n in range(1, 31) if n != 17]
    assert counts(apply(ORDERS, *good, bad)) == (30, 0, 0, 0, 0)
    assert Order.objects.count() == OrderEvent.objects.count() == 30
    assert Order.objects.get(pk=UUID(int=17)).patient_last_name == "Testperson"
    unread = UnreadRecord.objects.get()
    assert (unread.resource, unread.key, unread.is_stored) == (
        "orders_order",
        str(UUID(int=17)),
        True,
    )
    assert "$.patient_name" in unread.path
    assert unread.record.encode() == bad.raw
    # Now among changed records; this one was stored completely before.
    assert counts(apply(ORDERS, order(17, updated=1, as_of=1))) == (0, 1, 0, 0, 0)
    assert not UnreadRecord.objects.exists()  # it could be read this time
    changed = [order(n, updated=2, as_of=2, sample_id="B") for n in range(1, 31) if n != 17]
    bad = order(17, updated=2, as_of=2, patient_details=patient)
    assert counts(apply(ORDERS, *changed, bad)) == (0, 30, 0, 0, 0)
    assert Order.objects.filter(sample_id="B").count() == 29
    assert Order.objects.get(pk=UUID(int=17)).as_of == minutes(2)
    assert UnreadRecord.objects.get().record.encode() == bad.raw
    assert counts(apply(ORDERS, order(17, updated=3, as_of=3))) == (0, 1, 0, 0, 0)
    assert not UnreadRecord.objects.exists()


def test_unstorable_record_does_not_undo_other_writes() -> None:
    with transaction.atomic():
        applying.apply_batch(LAB_ACCOUNTS, [account(1)])
        applying.apply_batch(LAB_ACCOUNTS, [unstorable(account(2))])
    assert LabAccount.objects.count() == 1 and UnreadRecord.objects.count() == 1


UNREADABLE_MOMENTS = (
    "0001-01-01T00:00:00+14:00",
    "9999-12-31T23:59:59-14:00",
    "0001-01-01T12:00:00Z",
)


@pytest.mark.parametrize("moment", UNREADABLE_MOMENTS)
@pytest.mark.parametrize("field", ["updated_at", "created_at", "events", "last_event"])
@pytest.mark.parametrize("is_stored_before", [False, True])
def test_unreadable_moment_affects_only_its_record(
    field: str, moment: str, is_stored_before: bool
) -> None:
    """A required moment makes the order unread; an optional one is left out.

    Other records, and the earlier state of this one, stay readable.
    """
    if is_stored_before:
        apply(ORDERS, order(2, updated=-5))
    step = event(1, created_at=moment)
    changed: dict[str, Any] = {"events": [step, event(2)], "last_event": step}
    changed_record = order(2, as_of=1, **{field: changed.get(field, moment)})
    outcome = apply(ORDERS, order(1), changed_record, order(3))
    older = is_stored_before and field == "updated_at" and moment[0] == "0"
    required = field in ("updated_at", "created_at")
    assert outcome.unreadable == (1 if required and not older else 0)
    stored = {1, 2, 3} if is_stored_before or not required else {1, 3}
    assert {row.pk.int for row in Order.objects.all()} == stored
    assert {step.created_at.year for step in OrderEvent.objects.all()} == {2026}
    unread = UnreadRecord.objects.filter(key=str(UUID(int=2)))
    assert [row.is_stored for row in unread] == ([] if older else [not required])
    for row in unread:
        assert moment in row.record


def test_extreme_readable_moments_are_stored() -> None:
    moments = ["0001-01-02T14:00:00+14:00", "9999-12-30T09:00:00-14:00"]
    apply(ORDERS, *(order(n, created_at=moment) for n, moment in enumerate(moments)))
    stored = Order.objects.order_by("pk").values_list("created_at", flat=True)
    assert list(stored) == [datetime.fromisoformat(moment) for moment in moments]


@pytest.mark.parametrize("key", ["a\x00b", incompressible_text(9_000), "\ud800"])
def test_unreadable_record_with_any_key_is_stored(key: str) -> None:
    """An unreadable record is stored separately, whatever its key is."""
    assert save_unreadable("labs", key, "id", "no number", b"{}")
    assert not save_unreadable("labs", key, "id", "no number", b"{}")
    clear_unreadable("labs", ["another"])
    assert UnreadRecord.objects.count() == 1
    clear_unreadable("labs", [key])
    assert not UnreadRecord.objects.exists()
