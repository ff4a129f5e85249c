"""No sequence of versions, signatures, undos and calls loses a result."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from django.db import IntegrityError, connection, transaction
from django.db.models import QuerySet
from django.utils import timezone
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from backoffice.accounts.models import User
from orders.models import (
    CriticalAcknowledgement,
    CriticalAnnouncement,
    CriticalCall,
    ResultVersion,
    Review,
    Signature,
)
from orders.models.review import NOT_REACHED, READ_BACK, SEEN, SIGNED, UNDONE
from orders.results import open_criticals, result_badges, unsigned_count
from orders.results.critical_calls import acknowledge, record_call
from orders.results.filters import review_queue
from orders.results.queue import compact_tally, queue_counts, sort_queue
from orders.results.sign_off import (
    AlreadySigned,
    CannotSign,
    NotAcknowledged,
    ResultChanged,
    UndoExpired,
    sign,
    undo,
)
from tests.api.rows import staff
from tests.reviewing.rows import announce_correction, make_order, receive_result, uid

pytestmark = pytest.mark.django_db

NORMAL = ("Sodium", "4.1", "normal")
HIGH = ("Sodium", "5.6", "abnormal")
CRITICAL = ("Potassium", "6.9", "critical")


@pytest.fixture
def anna() -> User:
    return staff("clinician", "anna")


@pytest.fixture
def bruno() -> User:
    return staff("clinician", "bruno")


def review(n: int = 1) -> Review:
    return Review.objects.get(pk=uid("order", n))


def announce_critical(order_id: UUID) -> None:
    now = timezone.now()
    CriticalAnnouncement(
        order_id=order_id, first_heard_at=now, heard_at=now, event_number=1, message_id="m"
    ).save(force_insert=True)


def test_result_stays_in_queue_until_signed(anna: User) -> None:
    row = make_order(1)
    receive_result(row.pk, NORMAL)
    assert review().in_queue and unsigned_count() == 1 and review().place == "normal"
    sign(row.pk, 1, anna)
    assert not review().in_queue and unsigned_count() == 0
    assert review().signer == anna


def test_same_result_again_makes_no_version(anna: User) -> None:
    row = make_order(1)
    receive_result(row.pk, NORMAL)
    sign(row.pk, 1, anna)
    receive_result(row.pk, NORMAL, date_reported="2026-11-21T10:00:00+00:00")
    assert ResultVersion.objects.count() == 1 and not review().in_queue


def waiting_reviews(user: User, **filters: str) -> QuerySet[Review]:
    return review_queue(filters, user).qs


def test_changed_value_reopens_a_signed_result_as_corrected(anna: User) -> None:
    row = make_order(1)
    receive_result(row.pk, NORMAL)
    sign(row.pk, 1, anna)
    receive_result(row.pk, ("Sodium", "4.2", "normal"))
    assert (review().place, review().version, review().signed) == ("corrected", 2, 1)
    assert list(waiting_reviews(anna, mine="on")) == [review()]


def test_correction_without_changed_value_reopens_a_result(anna: User) -> None:
    row = make_order(1)
    receive_result(row.pk, NORMAL)
    sign(row.pk, 1, anna)
    announce_correction(row.pk)
    assert review().in_queue and review().kind == "corrected"


def test_partial_result_is_acknowledged_and_waits_for_the_rest(anna: User, bruno: User) -> None:
    row = make_order(1)
    receive_result(row.pk, NORMAL, status="partial", missing=("Iron",))
    assert review().place == "partial"
    assert sign(row.pk, 1, anna).kind == SEEN
    assert review().in_queue and review().place == "seen"
    assert queue_counts() == (0, 1)
    with pytest.raises(AlreadySigned):
        sign(row.pk, 1, bruno)
    receive_result(row.pk, NORMAL, ("Iron", "4", "normal"))
    assert review().kind == "final", "the first complete result is no correction"
    assert queue_counts() == (1, 0)


def test_critical_result_is_open_until_called_about(anna: User) -> None:
    row = make_order(1)
    receive_result(row.pk, NORMAL, CRITICAL)
    assert review().place == "critical" and list(open_criticals()) == [review()]
    with pytest.raises(NotAcknowledged):
        sign(row.pk, 1, anna)
    acknowledge(review(), 1, anna)
    acknowledgement = CriticalAcknowledgement.objects.get()
    assert [value["text"] for value in acknowledgement.values] == ["6.9"]
    sign(row.pk, 1, anna)
    assert list(open_criticals()) == [review()], "nobody was called"
    record_call(review(), 1, anna, recipient="Dr. Madeup", outcome=NOT_REACHED,
                next_attempt_at=timezone.now() + timedelta(minutes=15))  # fmt: skip
    assert list(open_criticals()) == [review()] and review().next_call_at
    record_call(review(), 1, anna, recipient="Dr. Madeup", outcome=READ_BACK)
    assert not open_criticals().exists() and review().next_call_at is None


def test_call_about_a_future_version_is_refused(anna: User) -> None:
    receive_result(make_order(1).pk, CRITICAL)
    with pytest.raises(ResultChanged):
        record_call(review(), 2, anna, recipient="Dr. Madeup", outcome=READ_BACK)
    assert review().called == -1 and open_criticals().exists()


def test_new_critical_value_needs_another_acknowledgement(anna: User) -> None:
    row = make_order(1)
    receive_result(row.pk, CRITICAL, status="partial")
    acknowledge(review(), 1, anna)
    receive_result(row.pk, CRITICAL, NORMAL)
    assert review().is_acknowledged, "the critical value is the same, with more lines"
    receive_result(row.pk, ("Potassium", "7.2", "critical"), NORMAL)
    assert not review().is_acknowledged
    with pytest.raises(NotAcknowledged):
        sign(row.pk, 3, anna)


def test_announced_critical_result_is_first_in_queue(anna: User) -> None:
    row = make_order(1)
    announce_critical(row.pk)
    assert review().place == "critical" and review().in_queue and unsigned_count() == 1
    assert open_criticals().count() == 1
    with pytest.raises(ResultChanged):
        sign(row.pk, 0, anna)
    receive_result(row.pk, HIGH)
    assert review().place == "critical", (
        "it was announced critical but its values are not: a person decides"
    )
    acknowledge(review(), 1, anna)
    sign(row.pk, 1, anna)
    assert not review().in_queue


def test_result_of_an_unknown_order_is_in_queue() -> None:
    announce_critical(uid("order", 99))
    assert unsigned_count() == 1 and review(99).in_queue


def test_signing_an_outdated_version_is_refused(anna: User) -> None:
    row = make_order(1)
    receive_result(row.pk, NORMAL)
    receive_result(row.pk, HIGH)
    with pytest.raises(ResultChanged):
        sign(row.pk, 1, anna)
    assert not Signature.objects.exists()


def test_only_the_signer_can_undo_and_only_once(anna: User, bruno: User) -> None:
    row = make_order(1)
    receive_result(row.pk, NORMAL)
    signature = sign(row.pk, 1, anna)
    with pytest.raises(UndoExpired):
        undo(signature.pk, bruno)
    undo(signature.pk, anna)
    assert review().in_queue and review().signer is None
    with pytest.raises(UndoExpired):
        undo(signature.pk, anna)
    assert sign(row.pk, 1, bruno) and not review().in_queue


def test_undo_expires_after_ten_seconds(anna: User) -> None:
    row = make_order(1)
    receive_result(row.pk, NORMAL)
    signature = sign(row.pk, 1, anna)
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL session_replication_role = replica")  # without the triggers
        cursor.execute("UPDATE orders_signature SET at = at - interval '11 seconds'")
        cursor.execute("SET LOCAL session_replication_role = origin")
    with pytest.raises(UndoExpired):
        undo(signature.pk, anna)
    assert not review().in_queue


def test_queue_sorts_by_urgency(anna: User) -> None:
    receive_result(make_order(1).pk, NORMAL)
    receive_result(make_order(2).pk, NORMAL, status="partial")
    receive_result(make_order(3).pk, HIGH)
    receive_result(make_order(4).pk, CRITICAL)
    receive_result(make_order(5).pk, NORMAL)
    announce_correction(make_order(6).pk)
    receive_result(uid("order", 6), NORMAL)
    receive_result(make_order(7).pk, NORMAL, interpretation=None)
    receive_result(make_order(8).pk, NORMAL, status="partial")
    sign(uid("order", 8), 1, anna)
    places = [row.place for row in sort_queue(waiting_reviews(anna))]
    assert {*places[1:3]} == {"abnormal", "unknown"}, "of one rank, whichever waited longer first"
    assert places[:1] + places[3:] == [
        *("critical", "corrected", "normal", "normal", "partial", "seen")
    ]


def test_signature_time_is_set_by_the_server(anna: User) -> None:
    row = make_order(1)
    receive_result(row.pk, CRITICAL)
    acknowledge(review(), 1, anna)
    long_ago = timezone.now() - timedelta(days=1)
    CriticalCall(
        order_id=row.pk, version=1, by=anna, recipient="x", outcome=READ_BACK, at=long_ago
    ).save()
    assert CriticalCall.objects.get().at > long_ago + timedelta(hours=23)


@pytest.mark.parametrize(
    "table",
    ["resultversion", "signature", "criticalacknowledgement", "criticalcall"],
)
@pytest.mark.parametrize("change", ["DELETE FROM {}", "UPDATE {} SET version = version"])
def test_recorded_rows_cannot_be_changed(anna: User, table: str, change: str) -> None:
    row = make_order(1)
    receive_result(row.pk, CRITICAL)
    acknowledge(review(), 1, anna)
    sign(row.pk, 1, anna)
    record_call(review(), 1, anna, recipient="Dr. Madeup", outcome=READ_BACK)
    words = change.format(f"orders_{table}")
    if table == "resultversion":
        words = words.replace("version = version", "number = number")
    with (
        pytest.raises(IntegrityError, match="append-only"),
        transaction.atomic(),
        connection.cursor() as cursor,
    ):
        cursor.execute(words)


def test_unanswered_call_needs_a_next_attempt(anna: User) -> None:
    row = make_order(1)
    receive_result(row.pk, CRITICAL)
    with pytest.raises(IntegrityError), transaction.atomic():
        record_call(review(), 1, anna, recipient="x", outcome=NOT_REACHED)


ACTIONS = st.one_of(
    st.tuples(
        st.just("came"),
        st.lists(st.sampled_from([NORMAL, HIGH, CRITICAL]), max_size=2).map(tuple),
        st.sampled_from(["partial", "final"]),
    ),
    st.tuples(st.just("corrected")),
    st.tuples(st.just("announced")),
    st.tuples(st.just("sign"), st.integers(0, 1), st.integers(0, 4)),
    st.tuples(st.just("sign newest"), st.integers(0, 1)),
    st.tuples(st.just("undo"), st.integers(0, 1)),
    st.tuples(st.just("acknowledge")),
    st.tuples(st.just("call"), st.booleans()),
    st.tuples(st.just("add up")),
)


def perform_action(order_id: UUID, people: list[User], step: tuple[Any, ...]) -> None:
    found = Review.objects.filter(pk=order_id).first()
    match step:
        case ("came", lines, status):
            receive_result(order_id, *lines, status=status)
        case ("corrected",):
            announce_correction(order_id)
        case ("announced",):
            if not CriticalAnnouncement.objects.filter(pk=order_id).exists():
                announce_critical(order_id)
        case ("sign", who, version):
            sign(order_id, version, people[who])
        case ("sign newest", who):
            sign(order_id, found.version if found else 1, people[who])
        case ("undo", who):
            newest = Signature.objects.exclude(kind=UNDONE).order_by("pk").last()
            undo(newest.pk if newest else 0, people[who])
        case ("acknowledge",):
            if found:
                acknowledge(found, found.version, people[0])
        case ("call", reached):
            if found and found.version >= 0:
                next_attempt = None if reached else timezone.now()
                outcome = READ_BACK if reached else NOT_REACHED
                record_call(found, found.version, people[0], recipient="Dr. Madeup",
                            outcome=outcome, next_attempt_at=next_attempt)  # fmt: skip
        case ("add up",):
            compact_tally(worth=1)


def expected(order_id: UUID) -> tuple[bool, bool]:
    """Return whether the result must be in the queue and open as critical, from records alone."""
    newest = ResultVersion.objects.filter(order_id=order_id).order_by("number").last()
    is_announced = CriticalAnnouncement.objects.filter(pk=order_id).exists()
    if newest is None:
        number, since = (0, 0) if is_announced else (-1, None)
    else:
        is_confirmed = ResultVersion.objects.exclude(critical_since=None).exists()
        number, since = newest.number, newest.critical_since
        if since is None and is_announced and not is_confirmed:
            since = 0
    undone_ids = set(Signature.objects.filter(kind=UNDONE).values_list("undoes_id", flat=True))
    signed = {s.version for s in Signature.objects.filter(kind=SIGNED) if s.pk not in undone_ids}
    is_waiting = number >= 0 and number not in signed
    if since is None:
        return is_waiting, False
    seen = CriticalAcknowledgement.objects.filter(version__gte=since).exists()
    calls = CriticalCall.objects.filter(version__gte=since).exclude(outcome=NOT_REACHED)
    return is_waiting, not (seen and calls.exists())


@settings(
    max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.lists(ACTIONS, max_size=12))
def test_no_sequence_of_actions_loses_a_result(
    anna: User, bruno: User, steps: list[tuple[Any, ...]]
) -> None:
    with transaction.atomic():
        row = make_order(1)
        for step in steps:
            try:
                with transaction.atomic():
                    perform_action(row.pk, [anna, bruno], step)
            except (CannotSign, Review.DoesNotExist):
                pass
            must_wait, is_open = expected(row.pk)
            assert waiting_reviews(anna).filter(pk=row.pk).exists() == must_wait
            assert open_criticals().filter(pk=row.pk).exists() == is_open
            badges = result_badges(User.objects.get(pk=anna.pk))
            assert badges.criticals == is_open
            assert badges.unsigned == queue_counts()[0]
            assert sum(queue_counts()) == waiting_reviews(anna).count()
            signed = Signature.objects.filter(kind=SIGNED, undone=None)
            for one in signed:
                version = ResultVersion.objects.get(order_id=row.pk, number=one.version)
                assert version.kind != "partial", "a partial result is never signed"
        transaction.set_rollback(True)
