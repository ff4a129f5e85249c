"""The digest shows each user everything they have not seen, once, whenever it was committed:
grouped by patient, in words, and marked as seen by patient or as a whole."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from uuid import UUID

import psycopg
import pytest
from django.db import connection, transaction
from django.utils import timezone

from backoffice.accounts.models import User
from backoffice.pages import live
from orders.models import (
    Appointment,
    Order,
    OrderActivity,
    Result,
    Review,
    SeenActivity,
    SeenSubject,
)
from orders.models.review import READ_BACK
from orders.results import critical_calls
from orders.today import digest
from tests.api.rows import envelope, staff, uid
from tests.today.test_page import log_in, make_critical, make_order, make_visit

pytestmark = pytest.mark.django_db(transaction=True)

Fact = tuple[UUID, str, str, str]
"""Order, kind, before, after."""


def now_of(user: User) -> str:
    return live.current_snapshot(User.objects.get(pk=user.pk))


def read(user: User, sees: bool = True) -> digest.Digest:
    return digest.build_digest(user, sees_results=sees)


def digest_facts(user: User) -> list[Fact]:
    return sorted(
        (news.order_id, one.kind, one.before, one.after)
        for group in read(user).groups
        for news in group.orders
        for one in news.entries
    )


def digest_words(user: User, **given: object) -> list[str]:
    """Return the lines of the page, shortened to label and words."""
    return [
        f"{line.term.label} {line.words}".strip()
        for group in read(user, **given).groups  # type: ignore[arg-type]
        for news in group.orders
        for line in news.lines
    ]


def move(n: int, status: str, bucket: str, **more: object) -> None:
    Order.objects.filter(pk=uid("order", n)).update(low_level_status=status, bucket=bucket, **more)


@dataclass
class Oracle:
    """A simple model of what each user has not seen, independent of the product."""

    unseen: dict[int, list[tuple[UUID, Fact]]] = field(default_factory=dict)

    def happens(self, about: UUID, fact: Fact) -> None:
        for news in self.unseen.values():
            news.append((about, fact))

    def sees(self, user: User, about: UUID | None = None) -> None:
        kept = [one for one in self.unseen[user.pk] if about is not None and one[0] != about]
        self.unseen[user.pk] = kept

    def facts(self, user: User) -> list[Fact]:
        return sorted(fact for _, fact in self.unseen[user.pk])


STATES = [
    ("ordered", "preparing"), ("transit_customer", "on-the-way"), ("lost", "needs-action"),
    ("delivered_to_lab", "at-lab"), ("completed", "result-in"), ("sample_error", "needs-action"),
]  # fmt: skip


@pytest.mark.parametrize("seed", [1, 2])
def test_digest_shows_each_user_what_they_have_not_seen(seed: int) -> None:
    """A random day: orders move, visits are booked and moved, results are corrected. Two users mark
    a patient or everything as seen, sometimes on an outdated page."""
    chance, oracle = random.Random(seed), Oracle()
    people = [staff("clinician", f"staff-{n}") for n in range(2)]
    for n in range(1, 7):
        make_order(n, low_level_status="ordered", bucket="preparing")
    for one in people:
        digest.mark_all_seen(one, now_of(one))
        oracle.unseen[one.pk] = []
    stale: list[tuple[User, str, list[tuple[UUID, Fact]]]] = []
    for _ in range(60):
        n = chance.randint(1, 6)
        key, about = uid("order", n), uid("patient", n)
        act = chance.choice(("move", "move", "visit", "result", "see", "see", "look", "page"))
        if act == "move":
            before = Order.objects.get(pk=key).low_level_status
            status, bucket = chance.choice(STATES)
            move(n, status, bucket)
            if status != before:
                oracle.happens(about, (key, "order", before, status))
        elif act == "visit":
            start = timezone.now() + timedelta(hours=chance.randint(1, 90))
            held = Appointment.objects.filter(order_id=key).first()
            if held is None:
                make_visit(n, start_at=start)
                oracle.happens(about, (key, "visit", "", "confirmed"))
            else:
                Appointment.objects.filter(pk=held.pk).update(start_at=start)
                oracle.happens(about, (key, "visit", "confirmed", "confirmed"))
        elif act == "result":
            status = chance.choice(("partial", "final"))
            held_result = Result.objects.filter(pk=key).first()
            if held_result is None:
                Result.objects.create(order_id=key, status=status, **envelope())
            else:
                Result.objects.filter(pk=key).update(status=status)
                if held_result.status != status:
                    oracle.happens(about, (key, "result", held_result.status, status))
        elif act == "page":
            one = chance.choice(people)
            stale.append((one, now_of(one), list(oracle.unseen[one.pk])))
        elif act == "see":
            one = chance.choice(people)
            digest.mark_seen(one, about, now_of(one))
            oracle.sees(one, about)
        elif stale and chance.random() < 0.7:
            one, snapshot, shown = stale.pop()
            digest.mark_all_seen(one, snapshot)
            for fact in shown:
                if fact in oracle.unseen[one.pk]:
                    oracle.unseen[one.pk].remove(fact)
        else:
            one = chance.choice(people)
            digest.mark_all_seen(one, now_of(one))
            oracle.sees(one)
            stale = [page for page in stale if page[0] != one]
        for one in people:
            assert digest_facts(one) == oracle.facts(one), act
    assert OrderActivity.objects.count() > 15


def other_connection() -> psycopg.Connection[object]:
    given = connection.settings_dict
    return psycopg.connect(
        host=given["HOST"], port=given["PORT"], user=given["USER"], password=given["PASSWORD"],
        dbname=given["NAME"],
    )  # fmt: skip


def test_digest_shows_entries_that_are_committed_late() -> None:
    """A worker began before a user marked everything as seen, and committed afterwards."""
    one = staff("clinician")
    make_order(1)
    with other_connection() as worker:
        worker.execute("UPDATE orders_order SET low_level_status = 'lost', bucket = 'needs-action'")
        make_order(2)
        assert [fact[0] for fact in digest_facts(one)].count(uid("order", 1)) == 1
        digest.mark_seen(one, uid("patient", 1), now_of(one))
        digest.mark_all_seen(one, now_of(one))
        assert digest_facts(one) == []
        worker.commit()
    assert digest_facts(one) == [(uid("order", 1), "order", "delivered_to_lab", "lost")]
    digest.mark_seen(one, uid("patient", 1), now_of(one))
    assert digest_facts(one) == []


def test_older_page_does_not_bring_back_seen_entries() -> None:
    one = staff("clinician")
    make_order(1)
    early = now_of(one)
    move(1, "lost", "needs-action")
    digest.mark_seen(one, uid("patient", 1), now_of(one))
    digest.mark_seen(one, uid("patient", 1), early)
    assert digest_facts(one) == []
    digest.mark_all_seen(one, now_of(one))
    digest.mark_all_seen(one, early)
    assert digest_facts(one) == []
    assert not SeenSubject.objects.exists(), "what the whole look covers is not kept twice"


def test_first_digest_shows_the_last_day() -> None:
    make_order(1)
    make_order(2)
    OrderActivity.objects.filter(order_id=uid("order", 2)).update(
        at=timezone.now() - timedelta(hours=25)
    )
    found = read(staff("clinician"))
    assert found.first and [group.about for group in found.groups] == [uid("patient", 1)]


def test_snapshot_of_another_cluster_is_replaced_by_its_time() -> None:
    one = staff("clinician")
    make_order(1)
    OrderActivity.objects.update(at=timezone.now() - timedelta(hours=3))
    SeenActivity.objects.create(
        user=one, snapshot="999999999999:999999999999:", at=timezone.now() - timedelta(hours=1)
    )
    make_order(2)
    SeenSubject.objects.create(
        user=one, about=uid("patient", 2), snapshot="999999999999:999999999999:"
    )
    assert [fact[0] for fact in digest_facts(one)] == [uid("order", 2)]
    digest.mark_seen(one, uid("patient", 2), now_of(one))
    assert digest_facts(one) == []
    OrderActivity.objects.filter(order_id=uid("order", 1)).update(transaction=999999999990)
    digest.mark_all_seen(one, now_of(one))
    assert digest_facts(one) == [] and not SeenSubject.objects.exists()


@pytest.mark.parametrize(
    "snapshot", ["", "nonsense", "1:2", "5:3:", "1:99999999999999999999:", "1:9000000000:"]
)
def test_snapshot_of_the_future_is_refused(snapshot: str) -> None:
    client, user = log_in()
    make_order(1)
    for address in ("/today/seen/", "/today/seen/all/"):
        given = {"about": str(uid("patient", 1)), "snapshot": snapshot}
        assert client.post(address, given).status_code == 400
    assert not SeenActivity.objects.exists() and not SeenSubject.objects.exists()
    assert digest_facts(user)


def test_digest_words_for_problems_results_and_visits() -> None:
    one = staff("clinician")
    make_order(1, low_level_status="transit_customer", bucket="on-the-way")
    start = timezone.now() + timedelta(days=2)
    make_visit(1, start_at=start)
    digest.mark_all_seen(one, now_of(one))
    move(1, "problem_in_transit_customer", "needs-action")
    assert digest_words(one) == ["Delivery problem (to patient) new problem"]
    move(1, "with_customer", "with-patient")
    move(1, "transit_lab", "on-the-way")
    move(1, "completed", "result-in", interpretation="critical")
    Appointment.objects.update(start_at=start + timedelta(hours=1))
    told = digest_words(one)
    assert told[0] == "Critical"
    assert told[1:] == [
        "Result in",
        "Booked Visit moved",
        "Delivery problem (to patient) came and went",
        "1 new step",
    ]
    make_critical(Order.objects.get(pk=uid("order", 1)))
    assert digest_words(one)[0] == "Critical"
    review = Review.objects.get(pk=uid("order", 1))
    with transaction.atomic():
        critical_calls.acknowledge(review, review.version, one)
    assert digest_words(one)[0] == "Critical", "acknowledged, and nobody was told"
    with transaction.atomic():
        critical_calls.record_call(review, review.version, one, recipient="Dr.", outcome=READ_BACK)
    assert digest_words(one)[0] == "Result in"
    assert "Critical acknowledged" in digest_words(one)
    assert not any("Critical" in line for line in digest_words(one, sees=False))
    move(1, "lost", "needs-action")
    digest.mark_all_seen(one, now_of(one))
    move(1, "sample_error", "needs-action")
    assert digest_words(one) == ["Sample unusable new problem"]
    move(1, "cancelled", "closed")
    assert digest_words(one) == ["Sample unusable came and went"]
    digest.mark_all_seen(one, now_of(one))
    move(1, "lost", "needs-action")
    digest.mark_all_seen(one, now_of(one))
    move(1, "cancelled", "closed")
    assert digest_words(one) == ["Lost no longer"]


def test_digest_shows_the_most_urgent_patient_first() -> None:
    one = staff("clinician")
    for n in (1, 2, 3, 4):
        make_order(n, low_level_status="ordered", bucket="preparing")
    digest.mark_all_seen(one, now_of(one))
    move(1, "transit_customer", "on-the-way")
    move(2, "completed", "result-in", interpretation="critical")
    move(3, "lost", "needs-action")
    move(4, "completed", "result-in")
    found = read(one)
    assert [group.about for group in found.groups] == [uid("patient", n) for n in (2, 3, 4, 1)]


def test_replaced_visit_is_shown_as_moved() -> None:
    """The service gives a moved visit another id. The earlier visit is still used."""
    one = staff("clinician")
    make_order(1)
    first = datetime.fromisoformat("2031-03-04T15:00:00+00:00")
    make_visit(1, start_at=first)
    digest.mark_all_seen(one, now_of(one))
    make_visit(101, user_id=uid("patient", 1), order_id=uid("order", 1),
          start_at=first + timedelta(days=1))  # fmt: skip
    (line,) = read(one).groups[0].orders[0].lines
    assert (line.words, line.start_before) == ("Visit moved", first)


def test_digest_says_if_there_is_more() -> None:
    one = staff("clinician")
    make_order(1)
    digest.mark_all_seen(one, now_of(one))
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO orders_orderactivity"
            " (transaction, kind, order_id, patient_id, before, after)"
            " SELECT pg_current_xact_id()::text::bigint, 'order', %s, gen_random_uuid(),"
            " 'ordered', 'lost' FROM generate_series(1, 2005)",
            [uid("order", 1)],
        )
    found = read(one)
    assert found.capped and len(found.groups) <= digest.MAX_GROUPS


def test_marking_as_seen_is_per_user_and_can_be_undone() -> None:
    make_order(1)
    make_order(2)
    (client, user), (_, other) = log_in(), log_in("front desk")
    answer = client.get("/today/")
    given = {"about": str(uid("patient", 1)), "snapshot": answer.context["snapshot"]}
    fragment = client.post("/today/seen/", given, headers={"HX-Request": "true"})
    assert fragment.status_code == 200 and b"Undo" in fragment.content
    assert [fact[0] for fact in digest_facts(user)] == [uid("order", 2)]
    assert len(digest_facts(other)) == 2
    answer = client.post("/today/seen/", {"about": given["about"], "undo": "1"})
    assert answer.status_code == 302 and len(digest_facts(user)) == 2
    move(1, "lost", "needs-action")
    client.post("/today/seen/all/", {"snapshot": given["snapshot"]})
    assert digest_facts(user) == [(uid("order", 1), "order", "delivered_to_lab", "lost")]


def test_critical_event_is_in_the_digest() -> None:
    one = staff("clinician")
    row = make_order(1)
    digest.mark_all_seen(one, now_of(one))
    make_critical(row)
    assert digest_facts(one) == [(row.pk, "critical", "", "final")]


@pytest.mark.parametrize("address", ["/today/seen/", "/today/seen/all/"])
def test_get_of_a_writing_url_changes_nothing(address: str) -> None:
    assert log_in()[0].get(address).status_code == 405


@pytest.mark.parametrize("sees", [True, False])
def test_ranks_in_sql_agree_with_the_words(sees: bool) -> None:
    """The database ranks all new entries to read few of them. The words have the same ranks."""
    chance, user = random.Random(9), staff("clinician")
    begun = timezone.now() - timedelta(hours=20)
    Review.objects.bulk_create(
        Review(order_id=uid("order", n), critical_since=2, acknowledged=n % 4, called=n % 3 + 1)
        for n in range(150)
    )
    for n in range(400):
        (before, left), (after, entered) = chance.choices(STATES, k=2)
        kind = chance.choice(["order"] * 6 + ["visit", "result", "critical"])
        which = chance.randrange(300)
        OrderActivity.objects.create(
            at=begun + timedelta(minutes=n), transaction=n + 1, kind=kind,
            order_id=uid("order", which), before=before, after=after,
            patient_id=uid("patient", which // 2) if which % 5 else None,
            bucket_before=left if kind == "order" else "",
            bucket_after=entered if kind == "order" else "",
        )  # fmt: skip
    few = read(user, sees)
    everything = digest.build_digest(user, sees_results=sees, max_groups=1_000)
    assert len({group.rank for group in everything.groups}) >= 4
    assert few.total == everything.total == len(everything.groups) > len(few.groups) == 25
    assert [one.about for one in few.groups] == [one.about for one in everything.groups[:25]]


def test_entries_before_a_move_are_shown_for_the_new_patient() -> None:
    """They have the new name and link, and are marked as seen together with the new patient."""
    user = staff("clinician")
    make_order(1)
    read(user)
    move(1, "lost", "needs-action")
    Order.objects.filter(pk=uid("order", 1)).update(user_id=uid("patient", 9))
    (group,) = read(user).groups
    assert group.about == group.patient_id == uid("patient", 9)
    digest.mark_seen(user, group.about, now_of(user))
    assert not read(user).groups
