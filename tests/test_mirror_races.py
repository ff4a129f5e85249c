"""`apply_batch` with several workers at once."""

from __future__ import annotations

import threading
from datetime import UTC, datetime
from uuid import UUID

import pytest
from django.db import transaction

from backoffice.mirror import applying
from backoffice.mirror.applying import flag_missing
from backoffice.mirror.models import Drift, UnreadRecord
from backoffice.mirror.tables import ApplyOutcome, MirrorRecord
from labs.models import LabAccount
from labs.sync import LAB_ACCOUNTS
from orders.models import Order, OrderEvent
from orders.sync.orders import ORDERS
from tests.mirror_records import (
    T0,
    account,
    apply,
    counts,
    minutes,
    order,
    run_in_thread,
    wait_for_lock_wait,
)

pytestmark = pytest.mark.django_db(transaction=True)


def test_flag_set_during_older_write_is_kept() -> None:
    """The later request flags the row after the other worker read it: it stays flagged."""
    apply(LAB_ACCOUNTS, account(1), account(2))
    records = [account(n, as_of=4, provider_account_id="B") for n in (1, 2)]
    outcomes: list[ApplyOutcome] = []
    with transaction.atomic():
        flag_missing(LAB_ACCOUNTS, [(UUID(int=1),)], minutes(5))
        thread = run_in_thread(lambda: outcomes.append(apply(LAB_ACCOUNTS, *records)))
        raised = thread.__enter__()
        wait_for_lock_wait()  # its upsert waits for our uncommitted flag
    thread.__exit__(None, None, None)
    assert raised == [] and counts(outcomes[0]) == (0, 1, 0, 1, 0)
    one, two = LabAccount.objects.order_by("pk")
    assert (one.missing_since, one.provider_account_id) == (minutes(5), "A1")
    assert two.provider_account_id == "B"


def test_upsert_ignores_stored_future_version() -> None:
    """Another worker stores such a version between our read and our write."""
    year = (datetime.now(UTC) - T0).total_seconds() / 60 + 365 * 24 * 60
    for as_of, winner in ((1, "theirs"), (3, "ours")):
        Order.objects.all().delete()
        with transaction.atomic():
            applying.apply_batch(ORDERS, [order(updated=year, as_of=2, sample_id="theirs")])
            with_thread = run_in_thread(
                lambda at=as_of: apply(ORDERS, order(updated=1, as_of=at, sample_id="ours"))
            )
            raised = with_thread.__enter__()
            wait_for_lock_wait()
        with_thread.__exit__(None, None, None)
        assert raised == []
        assert Order.objects.get().sample_id == winner


def test_upsert_decides_insert_race() -> None:
    """Another worker inserts the same key after our read: no error, and the newer record stays."""
    for ours, theirs, winner in ((1, 2, "theirs"), (2, 1, "ours")):
        Order.objects.all().delete()
        OrderEvent.objects.all().delete()
        our_records = [order(5, updated=ours, as_of=ours, sample_id="ours"), order(6)]
        other = [order(5, updated=theirs, as_of=theirs, sample_id="theirs"), order(7)]
        outcomes: list[ApplyOutcome] = []

        def apply_ours(
            records: list[MirrorRecord] = our_records, into: list[ApplyOutcome] = outcomes
        ) -> None:
            into.append(apply(ORDERS, *records))

        with transaction.atomic():
            applying.apply_batch(ORDERS, other)
            with_thread = run_in_thread(apply_ours)
            raised = with_thread.__enter__()
            wait_for_lock_wait()  # its COPY waits for our uncommitted row
        with_thread.__exit__(None, None, None)
        assert raised == []
        assert Order.objects.count() == 3
        assert Order.objects.get(pk=UUID(int=5)).sample_id == winner
        assert len(outcomes[0].touched) == (2 if winner == "ours" else 1)


def test_overlapping_batches_do_not_deadlock() -> None:
    """Two workers write the same rows in opposite order, many rounds: no deadlock, nothing lost."""
    rows = range(1, 41)
    apply(ORDERS, *(order(n) for n in rows))
    start = threading.Barrier(2)

    def rounds(backwards: bool) -> None:
        for number in range(1, 31):
            start.wait(20)
            version = number * 2 + backwards
            records = [
                order(n, updated=version, as_of=version, sample_id=f"V{version}") for n in rows
            ]
            apply(ORDERS, *(reversed(records) if backwards else records))

    with (
        run_in_thread(lambda: rounds(False)) as forward_errors,
        run_in_thread(lambda: rounds(True)) as backward_errors,
    ):
        pass
    assert forward_errors == backward_errors == []
    assert set(Order.objects.values_list("sample_id", flat=True)) == {"V61"}
    assert not UnreadRecord.objects.exists() and not Drift.objects.exists()
