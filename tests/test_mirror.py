"""`mirror.apply_batch` on a real database: what it writes, what it leaves alone, and who wins."""

from __future__ import annotations

import json
import random
import string
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import msgspec
import pytest
from django.db import connection, transaction

from backoffice.core.models import UnknownValue
from backoffice.mirror import applying
from backoffice.mirror.applying import flag_missing
from backoffice.mirror.models import Drift, UnreadRecord
from backoffice.mirror.tables import ApplyOutcome, MirrorRecord, MirrorTable
from backoffice.mirror.unreadable_records import clear_unreadable, save_unreadable
from backoffice.service.labs import LAB_ACCOUNT
from backoffice.service.orders import ORDER
from backoffice.service.payload import Record
from labs.models import LabAccount, LabAccountTeam
from labs.sync import LAB_ACCOUNTS
from orders.models import Order, OrderEvent
from orders.sync.orders import ORDERS

pytestmark = pytest.mark.django_db(transaction=True)

T0 = datetime(2026, 6, 1, 12, tzinfo=UTC)
TEAM = str(UUID(int=7))


def minutes(count: float) -> datetime:
    return T0 + timedelta(minutes=count)


def event(number: int, step: str = "ordered", **changes: Any) -> dict[str, Any]:
    return {
        "id": number,
        "created_at": minutes(number % 1_000).isoformat(),
        "status": f"received.testkit.{step}",
        "status_detail": None,
        **changes,
    }


def order(
    number: int = 1,
    *,
    updated: float = 0,
    as_of: float = 0,
    events: Sequence[dict[str, Any]] = (),
    **changes: Any,
) -> MirrorRecord:
    """An order fact as `orders/sync` makes it. `updated`, `as_of`: minutes after `T0`."""
    steps = list(events) or [event(1)]
    body = {
        "id": str(UUID(int=number)),
        "user_id": TEAM,
        "team_id": TEAM,
        "created_at": T0.isoformat(),
        "updated_at": minutes(updated).isoformat(),
        "events": steps,
        "last_event": steps[-1],
        "lab_test": {"name": "Panel", "method": "testkit"},
        **changes,
    }
    raw = json.dumps(body).encode()
    record = ORDER.read(raw, minutes(as_of))
    assert isinstance(record, Record)
    data = record.data
    return MirrorRecord.from_service(
        record,
        data.id,
        version=(data.updated_at, data.last_event.id if data.last_event else 0),
    )


def account(
    number: int = 1, *, as_of: float = 0, teams: Sequence[int] = (1,), **changes: Any
) -> MirrorRecord:
    """A lab account: no version, and a set of teams that is replaced."""
    body = {
        "id": str(UUID(int=number)),
        "lab": "lab-north",
        "status": "active",
        "delegated_flow": "order_delegated",
        "provider_account_id": "A1",
        "team_id_allowlist": [str(UUID(int=team)) for team in teams],
        **changes,
    }
    raw = json.dumps(body).encode()
    record = LAB_ACCOUNT.read(raw, minutes(as_of))
    assert isinstance(record, Record)
    return MirrorRecord((record.data.id,), raw, minutes(as_of), record.data)


def unstorable(record: MirrorRecord) -> MirrorRecord:
    """The same record with a byte that is no UTF-8: PostgreSQL holds no such text."""
    return msgspec.structs.replace(record, raw=record.raw + b"\xff")


def apply(table: MirrorTable, *records: MirrorRecord) -> ApplyOutcome:
    with transaction.atomic():
        return applying.apply_batch(table, records)


def counts(outcome: ApplyOutcome) -> tuple[int, int, int, int, int]:
    """Created, changed, unchanged, older, unread."""
    return (
        len(outcome.created),
        len(outcome.changed),
        outcome.unchanged,
        outcome.older,
        outcome.unreadable,
    )


def written(*tables: str) -> list[tuple[Any, ...]]:
    """Where each row lies and which transaction wrote it."""
    with connection.cursor() as cursor:
        found = []
        for table in tables or ("orders_order", "orders_orderevent"):
            cursor.execute(f"SELECT ctid::text, xmin::text FROM {table} ORDER BY 1")
            found += cursor.fetchall()
    return found


def test_new_then_unchanged_writes_nothing() -> None:
    records = [order(n) for n in range(1, 30)]
    assert counts(apply(ORDERS, *records)) == (29, 0, 0, 0, 0)
    before = written()
    assert len(before) == 58
    later = [order(n, as_of=60) for n in range(1, 30)]
    assert counts(apply(ORDERS, *later)) == (0, 0, 29, 0, 0)
    assert written() == before


def test_record_is_kept_byte_for_byte() -> None:
    record = order(passthrough='Ünï\u2028 \\u0041 "quoted" \t', extra={"unknown": [1, 2.50]})
    apply(ORDERS, record)
    held = Order.objects.get()
    assert held.record.encode() == record.raw and held.as_of == record.as_of


def test_newer_wins_and_only_it_is_written() -> None:
    apply(ORDERS, *(order(n) for n in range(1, 10)))
    before = dict(Order.objects.values_list("pk", "as_of"))
    moved = order(4, updated=5, as_of=6, sample_id="S4")
    outcome = apply(ORDERS, *(order(n, as_of=6) for n in range(1, 10) if n != 4), moved)
    assert counts(outcome) == (0, 1, 8, 0, 0)
    assert outcome.touched == [moved]
    after = dict(Order.objects.values_list("pk", "as_of"))
    assert {key for key in after if after[key] != before[key]} == {moved.key[0]}
    assert Order.objects.get(pk=moved.key[0]).sample_id == "S4"


def test_older_is_ignored_whenever_it_was_asked_for() -> None:
    apply(ORDERS, order(updated=10, as_of=10, sample_id="new"))
    before = written()
    assert counts(apply(ORDERS, order(updated=9, as_of=99, sample_id="old"))) == (0, 0, 0, 1, 0)
    assert written() == before and Order.objects.get().sample_id == "new"


def test_event_id_decides_between_equal_times() -> None:
    apply(ORDERS, order(updated=10, events=[event(1), event(2)], sample_id="two"))
    assert counts(apply(ORDERS, order(updated=10, as_of=50, events=[event(1)]))) == (0, 0, 0, 1, 0)
    newer = order(updated=10, as_of=-50, events=[event(1), event(2), event(3)], sample_id="three")
    assert counts(apply(ORDERS, newer)) == (0, 1, 0, 0, 0)
    assert Order.objects.get().sample_id == "three"


def test_tie_goes_to_the_one_asked_for_later() -> None:
    apply(ORDERS, order(updated=10, as_of=10, sample_id="first"))
    assert counts(apply(ORDERS, order(updated=10, as_of=9, sample_id="earlier"))) == (0, 0, 0, 1, 0)
    assert counts(apply(ORDERS, order(updated=10, as_of=10, sample_id="same"))) == (0, 0, 0, 1, 0)
    assert counts(apply(ORDERS, order(updated=10, as_of=11, sample_id="later"))) == (0, 1, 0, 0, 0)
    assert Order.objects.get().sample_id == "later"


def test_any_order_of_arrival_ends_the_same() -> None:
    """Facts in every order of arrival leave the newest, and all events."""
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


def test_duplicates_in_a_batch_count_as_the_newest() -> None:
    batch = [order(updated=n, as_of=n, sample_id=f"S{n}") for n in (2, 5, 3)]
    assert counts(apply(ORDERS, *batch)) == (1, 0, 0, 0, 0)
    assert Order.objects.get().sample_id == "S5"
    assert counts(apply(ORDERS, *batch, *batch)) == (0, 0, 1, 0, 0)


def test_volatile_bytes_do_not_count() -> None:
    link = "https://files.service.invalid/r.pdf?signature="
    apply(ORDERS, order(requisition_form_url=link + "aa"))
    before = written()
    again = order(as_of=5, requisition_form_url=link + "bb")
    assert counts(apply(ORDERS, again)) == (0, 0, 1, 0, 0)
    assert written() == before
    assert counts(apply(ORDERS, order(as_of=6, requisition_form_url=None))) == (0, 1, 0, 0, 0)


# Children


def test_events_only_add_up() -> None:
    apply(ORDERS, order(events=[event(1), event(2)]))
    before = written("orders_orderevent")
    apply(ORDERS, order(updated=1, as_of=1, events=[event(2), event(3)]))
    assert set(OrderEvent.objects.values_list("event_id", flat=True)) == {1, 2, 3}
    assert set(before) < set(written("orders_orderevent"))
    assert not Drift.objects.exists()


def test_history_that_changed_is_reported_and_kept() -> None:
    apply(ORDERS, order(events=[event(1), event(2)]))
    rewritten = event(1, status_detail="changed_later")
    apply(ORDERS, order(updated=1, as_of=1, events=[rewritten, event(2), event(3)]))
    found = Drift.objects.get()
    assert (found.kind, found.key) == ("history_conflict", f"{UUID(int=1)}:1")
    assert OrderEvent.objects.get(event_id=1).status_detail is None


def test_set_is_replaced() -> None:
    apply(LAB_ACCOUNTS, account(1, teams=(1, 2, 3)), account(2, teams=(1,)))
    untouched = written("labs_labaccountteam")
    apply(LAB_ACCOUNTS, account(1, as_of=1, teams=(2, 4)), account(2, as_of=1, teams=(1,)))
    teams = LabAccountTeam.objects.values_list("account_id", "team_id")
    assert sorted((a.int, t.int) for a, t in teams) == [(1, 2), (1, 4), (2, 1)]
    assert len(set(untouched) & set(written("labs_labaccountteam"))) == 1  # of the other account
    apply(LAB_ACCOUNTS, account(1, as_of=2, teams=()))
    assert LabAccountTeam.objects.count() == 1


def test_older_fact_leaves_children_alone() -> None:
    apply(LAB_ACCOUNTS, account(as_of=5, teams=(1, 2)))
    apply(LAB_ACCOUNTS, account(as_of=4, teams=(3,)))
    assert {t.int for t in LabAccountTeam.objects.values_list("team_id", flat=True)} == {1, 2}


# Missing


def test_missing_since_is_set_and_cleared() -> None:
    apply(LAB_ACCOUNTS, account(1), account(2))
    with transaction.atomic():
        assert flag_missing(LAB_ACCOUNTS, [(UUID(int=1),)], minutes(5)) == 1
        assert flag_missing(LAB_ACCOUNTS, [(UUID(int=1),)], minutes(6)) == 0  # already
    assert LabAccount.objects.get(pk=UUID(int=1)).missing_since == minutes(5)
    assert LabAccount.objects.get(pk=UUID(int=2)).missing_since is None
    assert Drift.objects.get().kind == "missing_remote"
    # The same content again, asked for later: it is back.
    assert counts(apply(LAB_ACCOUNTS, account(1, as_of=9))) == (0, 1, 0, 0, 0)
    assert LabAccount.objects.get(pk=UUID(int=1)).missing_since is None


def test_row_read_after_the_list_is_not_missing() -> None:
    apply(LAB_ACCOUNTS, account(as_of=10))
    with transaction.atomic():
        assert flag_missing(LAB_ACCOUNTS, [(UUID(int=1),)], minutes(10)) == 0
    assert LabAccount.objects.get().missing_since is None and not Drift.objects.exists()


def test_flagging_nothing() -> None:
    assert flag_missing(LAB_ACCOUNTS, [], T0) == 0


@pytest.mark.parametrize("as_of", [4, 5])
def test_answer_asked_for_before_does_not_revive(as_of: float) -> None:
    """Whatever its version: when it was sent for, the record was not yet found to be gone."""
    apply(ORDERS, order(1), order(2))
    apply(LAB_ACCOUNTS, account(1))
    with transaction.atomic():
        flag_missing(ORDERS, [(UUID(int=1),)], minutes(5))
        flag_missing(LAB_ACCOUNTS, [(UUID(int=1),)], minutes(5))
    late = order(updated=3, as_of=as_of, sample_id="late")
    assert counts(apply(ORDERS, late, order(2, as_of=as_of))) == (0, 0, 1, 1, 0)
    assert counts(apply(LAB_ACCOUNTS, account(1, as_of=as_of))) == (0, 0, 0, 1, 0)
    held = Order.objects.get(pk=UUID(int=1))
    assert held.missing_since == minutes(5) and held.sample_id != "late"
    assert LabAccount.objects.get().missing_since == minutes(5)
    # Asked for after: it is back.
    assert counts(apply(ORDERS, order(updated=3, as_of=6, sample_id="late"))) == (0, 1, 0, 0, 0)
    assert counts(apply(LAB_ACCOUNTS, account(1, as_of=6))) == (0, 1, 0, 0, 0)
    held = Order.objects.get(pk=UUID(int=1))
    assert held.missing_since is None and held.sample_id == "late"
    assert LabAccount.objects.get().missing_since is None


def test_flagged_while_an_older_answer_waits_to_be_written() -> None:
    """The one that asked later flags the row after the other looked at it: it stays flagged."""
    apply(LAB_ACCOUNTS, account(1), account(2))
    records = [account(n, as_of=4, provider_account_id="B") for n in (1, 2)]
    outcomes: list[ApplyOutcome] = []
    with transaction.atomic():
        flag_missing(LAB_ACCOUNTS, [(UUID(int=1),)], minutes(5))
        thread = worker(lambda: outcomes.append(apply(LAB_ACCOUNTS, *records)))
        raised = thread.__enter__()
        until_waiting()  # its upsert waits for our uncommitted flag
    thread.__exit__(None, None, None)
    assert raised == [] and counts(outcomes[0]) == (0, 1, 0, 1, 0)
    one, two = LabAccount.objects.order_by("pk")
    assert (one.missing_since, one.provider_account_id) == (minutes(5), "A1")
    assert two.provider_account_id == "B"


# Unknown and unreadable


def test_unknown_values_are_counted_and_kept() -> None:
    strange: dict[str, Any] = {"status": "teleported"}
    apply(LAB_ACCOUNTS, account(1, **strange), account(2, **strange), account(3))
    found = UnknownValue.objects.get()
    assert (found.vocabulary, found.value, found.sightings) == (
        "lab_account.status",
        "teleported",
        2,
    )
    assert LabAccount.objects.filter(status="teleported").count() == 2
    apply(LAB_ACCOUNTS, account(1, as_of=1, **strange))
    assert UnknownValue.objects.get().sightings == 2  # unchanged rows are not seen again
    apply(LAB_ACCOUNTS, account(1, as_of=2, provider_account_id="B", **strange))
    assert UnknownValue.objects.get().sightings == 3


def test_unknown_values_of_children() -> None:
    apply(ORDERS, order(events=[event(1), event(2, "beamed_up")]))
    values = set(UnknownValue.objects.values_list("vocabulary", "value"))
    assert ("order.low_level_status", "beamed_up") in values
    assert Order.objects.get().low_level_status == "beamed_up"


@pytest.mark.parametrize("place", [0, 17, 63])
def test_poisonous_record_fails_alone(place: int) -> None:
    """A record PostgreSQL refuses is kept beside; its neighbours are stored as if it were not."""
    records = [account(n) for n in range(1, 65)]
    records[place] = unstorable(account(place + 1, account_name="odd"))
    outcome = apply(LAB_ACCOUNTS, *records)
    assert counts(outcome) == (63, 0, 0, 0, 1)
    assert LabAccount.objects.count() == LabAccountTeam.objects.count() == 63
    kept = UnreadRecord.objects.get()
    assert (kept.resource, kept.key) == ("labs_labaccount", str(UUID(int=place + 1)))
    assert kept.record.endswith("\ufffd") and not kept.is_stored
    # And again, among changed ones: still one row beside, and the rest is stored.
    changed = [account(n, as_of=1, provider_account_id="B") for n in range(1, 65)]
    changed[place] = records[place]
    assert counts(apply(LAB_ACCOUNTS, *changed)) == (0, 63, 0, 0, 1)
    assert UnreadRecord.objects.count() == 1


def test_number_beyond_its_column_costs_one_field() -> None:
    records = [order(1), order(2, events=[event(2**63)], sample_id="S2"), order(3)]
    assert counts(apply(ORDERS, *records[::2])) == (2, 0, 0, 0, 0)
    assert counts(apply(ORDERS, records[1])) == (0, 0, 0, 0, 1)  # The step is part of its version.
    steps = [event(1), event(2**63)]
    beside = order(4, events=steps, last_event=event(1), sample_id="S4")
    assert counts(apply(ORDERS, beside)) == (1, 0, 0, 0, 0)
    assert Order.objects.get(pk=UUID(int=4)).sample_id == "S4"
    assert OrderEvent.objects.filter(order_id=UUID(int=4)).count() == 1
    noted = UnreadRecord.objects.get(key=str(UUID(int=4)))
    assert noted.is_stored and noted.path == "$.event_id"


def test_nul_in_any_text_is_replaced_and_the_row_stored() -> None:
    assert counts(apply(LAB_ACCOUNTS, account(1, account_name="NUL \x00 here"))) == (1, 0, 0, 0, 0)
    assert LabAccount.objects.get().account_name == "NUL \ufffd here"
    again = account(1, as_of=1, account_name="NUL \x00 here")
    assert counts(apply(LAB_ACCOUNTS, again)) == (0, 0, 1, 0, 0)
    assert not UnreadRecord.objects.exists()


def letters(count: int) -> str:
    """Text that does not compress."""
    return "".join(random.Random(3).choices(string.ascii_lowercase + string.digits, k=count))


def test_value_too_long_for_an_index() -> None:
    """PostgreSQL calls it an operational error, yet it is about one record: new and changed."""
    patient = {"first_name": letters(9_000), "last_name": "Testperson"}
    bad = order(17, patient_details=patient)
    good = [order(n) for n in range(1, 31) if n != 17]
    assert counts(apply(ORDERS, *good, bad)) == (30, 0, 0, 0, 0)
    assert Order.objects.count() == OrderEvent.objects.count() == 30
    assert Order.objects.get(pk=UUID(int=17)).patient_last_name == "Testperson"
    kept = UnreadRecord.objects.get()
    assert (kept.resource, kept.key, kept.is_stored) == ("orders_order", str(UUID(int=17)), True)
    assert "$.patient_name" in kept.path
    assert kept.record.encode() == bad.raw
    # Now among changed ones, itself one that was stored whole before.
    assert counts(apply(ORDERS, order(17, updated=1, as_of=1))) == (0, 1, 0, 0, 0)
    assert not UnreadRecord.objects.exists()  # it could be read after all
    changed = [order(n, updated=2, as_of=2, sample_id="B") for n in range(1, 31) if n != 17]
    bad = order(17, updated=2, as_of=2, patient_details=patient)
    assert counts(apply(ORDERS, *changed, bad)) == (0, 30, 0, 0, 0)
    assert Order.objects.filter(sample_id="B").count() == 29
    assert Order.objects.get(pk=UUID(int=17)).as_of == minutes(2)
    assert UnreadRecord.objects.get().record.encode() == bad.raw
    assert counts(apply(ORDERS, order(17, updated=3, as_of=3))) == (0, 1, 0, 0, 0)
    assert not UnreadRecord.objects.exists()


def test_poison_does_not_undo_what_the_caller_wrote() -> None:
    with transaction.atomic():
        applying.apply_batch(LAB_ACCOUNTS, [account(1)])
        applying.apply_batch(LAB_ACCOUNTS, [unstorable(account(2))])
    assert LabAccount.objects.count() == 1 and UnreadRecord.objects.count() == 1


def test_version_of_the_future_decides_nothing() -> None:
    """What was asked for later wins, whichever of the two has it, until it lies in the past."""
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
    # A clock that is a little ahead is no such thing.
    assert counts(apply(ORDERS, order(updated=ahead + 5, as_of=21))) == (0, 1, 0, 0, 0)
    assert counts(apply(ORDERS, order(updated=8, as_of=22))) == (0, 0, 0, 1, 0)


def test_upsert_takes_a_version_of_the_future_for_none() -> None:
    """Where another worker stored one between our look and our write."""
    year = (datetime.now(UTC) - T0).total_seconds() / 60 + 365 * 24 * 60
    for as_of, winner in ((1, "theirs"), (3, "ours")):
        Order.objects.all().delete()
        with transaction.atomic():
            applying.apply_batch(ORDERS, [order(updated=year, as_of=2, sample_id="theirs")])
            with_thread = worker(
                lambda at=as_of: apply(ORDERS, order(updated=1, as_of=at, sample_id="ours"))
            )
            raised = with_thread.__enter__()
            until_waiting()
        with_thread.__exit__(None, None, None)
        assert raised == []
        assert Order.objects.get().sample_id == winner


BEYOND = ("0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00", "0001-01-01T12:00:00Z")


@pytest.mark.parametrize("moment", BEYOND)
@pytest.mark.parametrize("where", ["updated_at", "created_at", "events", "last_event"])
@pytest.mark.parametrize("held", [False, True])
def test_moment_that_could_not_be_read_back(where: str, moment: str, held: bool) -> None:
    """A moment that an order cannot do without makes it unread, another one is left out; its
    neighbours, and what was known of it, can be read."""
    if held:
        apply(ORDERS, order(2, updated=-5))
    step = event(1, created_at=moment)
    changed: dict[str, Any] = {"events": [step, event(2)], "last_event": step}
    beyond = order(2, as_of=1, **{where: changed.get(where, moment)})
    outcome = apply(ORDERS, order(1), beyond, order(3))
    older = held and where == "updated_at" and moment[0] == "0"
    required = where in ("updated_at", "created_at")
    assert outcome.unreadable == (1 if required and not older else 0)
    stored = {1, 2, 3} if held or not required else {1, 3}
    assert {row.pk.int for row in Order.objects.all()} == stored
    assert {step.created_at.year for step in OrderEvent.objects.all()} == {2026}
    kept = UnreadRecord.objects.filter(key=str(UUID(int=2)))
    assert [row.is_stored for row in kept] == ([] if older else [not required])
    for row in kept:
        assert moment in row.record


def test_early_and_late_moments_that_can_be_read_back() -> None:
    moments = ["0001-01-02T14:00:00+14:00", "9999-12-30T09:00:00-14:00"]
    apply(ORDERS, *(order(n, created_at=moment) for n, moment in enumerate(moments)))
    kept = Order.objects.order_by("pk").values_list("created_at", flat=True)
    assert list(kept) == [datetime.fromisoformat(moment) for moment in moments]


# Together with other workers


@contextmanager
def worker(step: Any) -> Iterator[list[BaseException]]:
    """Runs `step` in a thread with a database connection of its own."""
    raised: list[BaseException] = []

    def run() -> None:
        try:
            step()
        except BaseException as error:
            raised.append(error)
        finally:
            connection.close()

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield raised
    finally:
        thread.join(30)
        assert not thread.is_alive()


def waiting() -> int:
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_stat_clear_snapshot()")
        cursor.execute(
            "SELECT count(*) FROM pg_stat_activity"
            " WHERE datname = current_database() AND wait_event_type = 'Lock'"
        )
        return int(cursor.fetchone()[0])


def until_waiting() -> None:
    for _ in range(500):
        if waiting():
            return
        threading.Event().wait(0.01)
    raise AssertionError("nobody waits for a lock")


def test_insert_race_is_decided_by_the_upsert() -> None:
    """Another worker inserted the same key after we looked: no error, and the newer one stays."""
    for ours, theirs, winner in ((1, 2, "theirs"), (2, 1, "ours")):
        Order.objects.all().delete()
        OrderEvent.objects.all().delete()
        mine = [order(5, updated=ours, as_of=ours, sample_id="ours"), order(6)]
        other = [order(5, updated=theirs, as_of=theirs, sample_id="theirs"), order(7)]
        outcomes: list[ApplyOutcome] = []

        def apply_mine(
            records: list[MirrorRecord] = mine, into: list[ApplyOutcome] = outcomes
        ) -> None:
            into.append(apply(ORDERS, *records))

        with transaction.atomic():
            applying.apply_batch(ORDERS, other)
            with_thread = worker(apply_mine)
            raised = with_thread.__enter__()
            until_waiting()  # its COPY waits for our uncommitted row
        with_thread.__exit__(None, None, None)
        assert raised == []
        assert Order.objects.count() == 3
        assert Order.objects.get(pk=UUID(int=5)).sample_id == winner
        assert len(outcomes[0].touched) == (2 if winner == "ours" else 1)


def test_overlapping_batches_in_opposite_order() -> None:
    """Two workers, the same rows in opposite order, many rounds: no deadlock, nothing lost."""
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

    with worker(lambda: rounds(False)) as forth, worker(lambda: rounds(True)) as back:
        pass
    assert forth == back == []
    assert set(Order.objects.values_list("sample_id", flat=True)) == {"V61"}
    assert not UnreadRecord.objects.exists() and not Drift.objects.exists()


@pytest.mark.parametrize("key", ["a\x00b", letters(9_000), "\ud800"])
def test_key_that_no_column_or_index_takes(key: str) -> None:
    """A record that cannot be read is kept beside, whatever it says it is."""
    assert save_unreadable("labs", key, "id", "no number", b"{}")
    assert not save_unreadable("labs", key, "id", "no number", b"{}")
    clear_unreadable("labs", ["another"])
    assert UnreadRecord.objects.count() == 1
    clear_unreadable("labs", [key])
    assert not UnreadRecord.objects.exists()
