"""Deliveries that arrive together share a commit, and each learns its own outcome."""

from __future__ import annotations

import io
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from uuid import UUID

import pytest
from django.db import connections

from tests.webhooks.other_worker import elsewhere
from tests.webhooks.records import TEAM, USER, order
from tests.webhooks.signed import Message, message
from webhooks import receiving
from webhooks.group_commit import GroupCommit, RowValues
from webhooks.models import Event

THREADS = 12


def deliver(sent: Message) -> int:
    try:
        return receiving.receive(sent.headers(), io.BytesIO(sent.body).read).status
    finally:
        connections.close_all()


def messages(count: int) -> list[Message]:
    return [message("labtest.order.created", order(number, 1)) for number in range(count)]


def held(event: Event) -> AbstractContextManager[None]:
    """A worker is applying it."""
    return elsewhere(lambda: Event.objects.select_for_update().get(pk=event.pk), 30)


@pytest.mark.usefixtures("inbox")
def test_concurrent_repeats_are_stored_once() -> None:
    sent = messages(60)
    with ThreadPoolExecutor(THREADS) as pool:
        answers = list(pool.map(deliver, [one for one in sent for _ in range(3)]))
    assert set(answers) == {204}
    stored = dict(Event.objects.values_list("message_id", "deliveries"))
    assert stored == {one.id: 3 for one in sent}
    assert {bytes(body or b"") for body in Event.objects.values_list("body", flat=True)} == {
        one.body for one in sent
    }


@pytest.mark.usefixtures("inbox")
def test_locked_repeat_does_not_fail_its_group() -> None:
    first, *others = messages(40)
    assert deliver(first) == 204
    with held(Event.objects.get()), ThreadPoolExecutor(THREADS) as pool:
        answers = list(pool.map(deliver, [*others[:6], first, *others[6:]]))
    assert set(answers) == {204}
    assert Event.objects.count() == 40
    assert Event.objects.get(message_id=first.id).deliveries == 1


@pytest.mark.usefixtures("inbox")
def test_insert_is_prepared_once_for_all_events() -> None:
    for known in ({}, {"user_id": USER}, {"team_id": TEAM}, {"user_id": USER, "team_id": TEAM}):
        assert deliver(message("labtest.order.created", {"id": "x"}, **known)) == 204
    stored = Event.objects.order_by("pk").values_list("user_id", "team_id")
    assert list(stored) == [
        (None, None), (UUID(USER), None), (None, UUID(TEAM)), (UUID(USER), UUID(TEAM)),
    ]  # fmt: skip
    with receiving.group_connection().cursor() as cursor:
        cursor.execute(
            "SELECT count(*) FROM pg_prepared_statements WHERE statement LIKE %s",
            ["INSERT INTO webhooks_event%"],
        )
        assert cursor.fetchone() == (1,)


def together(
    write: Callable[[Sequence[RowValues]], object], rows: Sequence[RowValues]
) -> list[bool]:
    """The first row's thread is at it until all others wait; then they go."""
    at_it, all_wait = threading.Event(), threading.Event()

    def slowly(given: Sequence[RowValues]) -> None:
        at_it.set()
        all_wait.wait(10)
        write(given)

    group = GroupCommit(slowly, max_rows=4)
    with ThreadPoolExecutor(len(rows)) as pool:
        first = pool.submit(group.store, rows[0])
        assert at_it.wait(10)
        rest = [pool.submit(group.store, row) for row in rows[1:]]
        while len(group._waiting) < len(rest):
            pass
        all_wait.set()
        return [one.result(10) for one in (first, *rest)]


def test_waiting_rows_commit_together_up_to_limit() -> None:
    written: list[list[str]] = []
    rows = [(name,) for name in "abcdefgh"]
    stored = together(lambda given: written.append([str(row[0]) for row in given]), rows)
    assert all(stored)
    assert [len(group) for group in written] == [1, 4, 3]
    assert sorted(name for group in written for name in group) == list("abcdefgh")


def test_repeats_are_never_in_one_statement() -> None:
    written: list[list[str]] = []
    rows = [(name,) for name in "axxxy"]
    assert all(together(lambda given: written.append([str(row[0]) for row in given]), rows))
    assert sorted(name for group in written for name in group) == sorted("axxxy")
    assert all(len(set(group)) == len(group) for group in written)


def test_failed_group_commit_makes_each_row_retry_alone() -> None:
    def write(given: Sequence[RowValues]) -> None:
        if len(given) > 1:
            raise ValueError("one of them")

    stored = together(write, [(name,) for name in "abcdef"])
    # The first went alone; of the others four and one.
    assert stored.count(False) == 4 and stored.count(True) == 2
