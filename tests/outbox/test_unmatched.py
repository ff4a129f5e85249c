"""Results that nobody could match: from the list to the order that has them."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from backoffice import sync
from backoffice.core import vocabulary
from backoffice.models import AuditEntry, CommandRecord, Lookup, SyncRun, User
from backoffice.service.events import Heard
from orders.models import Order, Result, UnmatchedResult
from orders.unmatched.forms import choice_of
from orders.unmatched.sync import SYNCED_LIST, handle_match_reviews, is_enabled
from patients.models import Demographics
from tests.outbox.desk import Desk
from tests.outbox.matching import unmatched

State = CommandRecord.State


def page_of(item: UnmatchedResult) -> str:
    return reverse("unmatched:detail", args=[item.pk])


def first_choice(item: UnmatchedResult) -> str:
    return choice_of(item.candidates.order_by("position")[0])


def truth(desk: Desk, item: UnmatchedResult) -> tuple[Any, ...]:
    return desk.sandbox.query(
        "SELECT status, resolution_action, resolved_order_id FROM sandbox_unmatchedresult"
        " WHERE id = %s",
        [item.pk],
    )[0]


def read_list() -> None:
    """The list is read now, however lately it was."""
    SyncRun.objects.update(created_at=timezone.now() - timedelta(hours=1))
    sync.tick(SYNCED_LIST, seconds=30)


def recreations(desk: Desk, item: UnmatchedResult) -> int:
    """Orders that the service made anew for the one that was suggested."""
    return desk.count(
        "SELECT count(*) FROM sandbox_order WHERE parent_id = %s AND origin = 'recreation'",
        item.candidates.get().order_id,
    )


@pytest.fixture
def switched_off(desk: Desk) -> Iterator[None]:
    """The service has no such queue for the team."""
    desk.sandbox.control("match_review", {"enabled": False})
    yield
    desk.sandbox.control("match_review", {"enabled": True})


def test_the_list_shows_what_waits_the_oldest_first(desk: Desk) -> None:
    first, second = unmatched(desk.sandbox, "match_demo"), unmatched(desk.sandbox, "no_match")
    UnmatchedResult.objects.all().delete()
    read_list()
    client = desk.client("clinician")
    page = client.get(reverse("unmatched:list"))
    ids = [row.pk for row in page.context["page"].rows]
    assert ids.index(first.pk) < ids.index(second.pk)
    assert "Nemo Unmatched" in page.content.decode()
    entry = AuditEntry.objects.filter(object_type="unmatched result", action="list").get()
    assert str(first.pk) in entry.object_ids
    assert set(first.candidates.values_list("user_id", flat=True)) <= set(entry.patient_ids)


def test_the_card_shows_both_sides_and_what_differs(desk: Desk) -> None:
    item = unmatched(desk.sandbox, "match_sample_id_mismatch_demo")
    page = desk.client("clinician").get(page_of(item))
    shown = page.content.decode()
    assert "Right sample, another person" in shown and "Person differs" in shown
    (side,) = page.context["sides"]
    assert side.name.differs and not side.dob.differs and not side.gender.differs
    assert f'<strong class="differs">{side.name.value}</strong>' in shown
    assert "Accept" in shown and "Reject" in shown and "Ask the service" in shown


def test_queries_do_not_grow_with_what_is_shown(desk: Desk) -> None:
    client = desk.client("clinician")
    one, two = unmatched(desk.sandbox, "match_demo"), unmatched(desk.sandbox, "multiple_demo_match")
    client.get(page_of(one))  # The first page of a session stores its form token.
    counts = []
    for item in (one, two):
        with CaptureQueriesContext(connection) as captured:
            client.get(page_of(item))
        counts.append(len(captured))
        with CaptureQueriesContext(connection) as captured:
            client.get(reverse("unmatched:list"))
        counts.append(len(captured))
        unmatched(desk.sandbox, "no_match")
    assert counts[:2] == counts[2:]


def test_only_what_the_service_allows_is_offered(desk: Desk) -> None:
    item = unmatched(desk.sandbox, "match_demo")
    UnmatchedResult.objects.filter(pk=item.pk).update(allowed_actions=["unsure"])
    client = desk.client("clinician")
    shown = client.get(page_of(item)).content.decode()
    assert 'value="unsure"' in shown and 'value="accept"' not in shown
    answer = desk.fill(client, page_of(item), action="accept", choice=first_choice(item))
    assert answer.status_code == 422 and CommandRecord.objects.count() == 0


def test_result_values_are_for_those_who_may_see_them(desk: Desk) -> None:
    item = unmatched(desk.sandbox, "match_demo", interpretation="critical")
    for address in (reverse("unmatched:list"), page_of(item)):
        assert "Critical</span>" in desk_client(desk, "clinician").get(address).content.decode()
        desk_shows = desk_client(desk, "front desk").get(address).content.decode()
        assert "Critical</span>" not in desk_shows and item.last_name in desk_shows
    front = desk_client(desk, "front desk")
    assert 'name="action"' not in front.get(page_of(item)).content.decode()
    assert front.post(page_of(item), {"action": "reject"}).status_code == 403
    assert desk_client(desk, "viewer").get(page_of(item)).status_code == 403


def desk_client(desk: Desk, role: str) -> Client:
    known = User.objects.filter(username=role.replace(" ", "-")).first()
    if known is None:
        return desk.client(role)
    client = Client()
    client.force_login(known)
    return client


def test_a_result_goes_to_the_order_that_was_chosen(desk: Desk) -> None:
    item = unmatched(desk.sandbox, "multiple_demo_match")
    chosen = item.candidates.order_by("position")[1]
    client = desk.client("clinician")
    answer = desk.fill(
        client, page_of(item), action="accept", choice=choice_of(chosen), note="the second one"
    )
    assert answer.status_code == 302
    desk.deliver()
    asked = desk.newest()
    assert (asked.state, asked.confirmed_by) == (State.DONE, "answer")
    assert truth(desk, item) == ("resolved", "accept", chosen.order_id)
    item.refresh_from_db()
    assert (item.status, item.resolved_order_id, item.note) == (
        "resolved",
        chosen.order_id,
        "the second one",
    )
    assert asked.done_url == reverse("orders:detail", args=[chosen.order_id])
    assert Order.objects.get(pk=str(chosen.order_id)).bucket == vocabulary.RESULT_IN


def test_an_ambiguous_result_needs_a_choice(desk: Desk) -> None:
    item = unmatched(desk.sandbox, "multiple_demo_match")
    client = desk.client("clinician")
    assert "checked" not in client.get(page_of(item)).content.decode()
    answer = desk.fill(client, page_of(item), action="accept", note="which?")
    assert answer.status_code == 422 and CommandRecord.objects.count() == 0
    shown = answer.content.decode()
    assert "Say which order or patient it belongs to" in shown and "which?" in shown


@pytest.mark.parametrize("case", ["match_demo", "match_completed", "match_cancelled", "wrong_lab"])
def test_accepted_with_no_order_selected_it_ends_up_in_review(desk: Desk, case: str) -> None:
    """A matched result that vanishes is the fault that others had: it must be on an order of the
    mirror, with its values, where results are reviewed, whichever order the service chose."""
    item = unmatched(desk.sandbox, case)
    client = desk.client("clinician")
    assert desk.fill(client, page_of(item), action="accept").status_code == 302
    desk.deliver()
    asked = desk.newest()
    assert asked.state == State.DONE, asked.refusal
    status, action, order_id = truth(desk, item)
    assert (status, action, str(order_id)) == ("resolved", "accept", asked.remote_id)
    order = Order.objects.get(pk=order_id)
    assert order.bucket == vocabulary.RESULT_IN
    if case != "match_demo":
        assert order.origin == "recreation"
        assert order.pk != item.candidates.get().order_id
    desk.look_up()
    assert Result.objects.get(order=order).returned > 0
    queue = client.get(f"{reverse('reviewing:queue')}?patient={order.user_id}")
    assert order.pk in [item.review.pk for item in queue.context["items"]], "in the review queue"
    shown = client.get(f"{reverse('orders:list')}?bucket=result-in").content.decode()
    assert str(order.pk) in shown
    assert str(order.pk) in client.get(page_of(item)).content.decode()


def test_a_suggestion_of_another_person_has_to_be_chosen(desk: Desk) -> None:
    item = unmatched(desk.sandbox, "match_sample_id_mismatch_demo")
    client = desk.client("clinician")
    assert "checked" not in client.get(page_of(item)).content.decode()
    answer = desk.fill(client, page_of(item), action="accept")
    assert answer.status_code == 422 and CommandRecord.objects.count() == 0
    answer = desk.fill(client, page_of(item), action="accept", choice=first_choice(item))
    assert answer.status_code == 302


def test_a_result_of_nobody_known_is_given_to_a_patient(desk: Desk) -> None:
    item = unmatched(desk.sandbox, "no_match")
    client = desk.client("clinician")
    answer = desk.fill(client, page_of(item), action="accept")
    assert answer.status_code == 422 and "Say which order or patient" in answer.content.decode()
    person = Demographics.objects.exclude(last_name="").earliest("pk")
    looked: Any = desk.fill(
        client, page_of(item), search="yes", find=person.last_name, note="by phone"
    )
    assert looked.status_code == 200 and CommandRecord.objects.count() == 0
    found = {side.user_id: side.choice for side in looked.context["people"]}
    assert person.pk in found and "by phone" in looked.content.decode()
    desk.fill(client, page_of(item), action="accept", choice=found[person.pk])
    desk.deliver()
    asked = desk.newest()
    assert asked.state == State.DONE and asked.patient_id == person.pk
    order = Order.objects.get(pk=asked.remote_id)
    assert (order.user_id, order.bucket, order.origin) == (
        person.pk,
        vocabulary.RESULT_IN,
        "recreation",
    )


@pytest.mark.parametrize(
    ("action", "status"), [("reject", "resolved"), ("unsure", "pending_ops_review")]
)
def test_a_result_is_rejected_or_passed_on(desk: Desk, action: str, status: str) -> None:
    item = unmatched(desk.sandbox, "match_demo")
    client = desk.client("lab coordinator")
    assert desk.fill(client, page_of(item), action=action, note="not ours").status_code == 302
    desk.deliver()
    assert desk.newest().state == State.DONE
    item.refresh_from_db()
    assert (item.status, item.resolution_action, item.note) == (status, action, "not ours")
    assert truth(desk, item)[:2] == (status, action)
    shown = client.get(page_of(item)).content.decode()
    assert 'name="action"' not in shown and "not ours" in shown


def decide_elsewhere(desk: Desk, item: UnmatchedResult, action: str) -> None:
    with desk.sandbox.service() as service:
        if action == "accept":
            service.unmatched.accept(item.pk, item.candidates.earliest("position").order_id)
        else:
            service.unmatched.resolve(item.pk, action)


@pytest.mark.parametrize(
    ("theirs", "words"),
    [("reject", "It was rejected"), ("unsure", "passed to the service"), ("accept", "to an order")],
)
def test_what_somebody_else_just_decided_is_read_again_and_explained(
    desk: Desk, theirs: str, words: str
) -> None:
    item = unmatched(desk.sandbox, "match_demo")
    client = desk.client("clinician")
    desk.fill(client, page_of(item), action="unsure" if theirs != "unsure" else "reject")
    decide_elsewhere(desk, item, theirs)
    desk.deliver()
    asked = desk.newest()
    assert asked.state == State.REFUSED and asked.attempts == 0
    assert "decided already" in asked.refusal and words in asked.refusal
    item.refresh_from_db()
    assert (item.status, item.resolution_action) == truth(desk, item)[:2]
    shown = client.get(page_of(item)).content.decode()
    assert words in shown and 'name="action"' not in shown
    answer = client.post(page_of(item), {"form_id": str(asked.pk), "action": "reject"})
    assert answer.status_code == 422


def test_a_faster_colleague_between_the_check_and_the_sending(desk: Desk) -> None:
    item = unmatched(desk.sandbox, "match_demo")
    desk.fill(desk.client("clinician"), page_of(item), action="accept")
    desk.fault("drop_before", "/accept$")
    desk.deliver()
    assert desk.newest().state == State.UNCERTAIN
    decide_elsewhere(desk, item, "reject")
    desk.later()
    asked = desk.newest()
    assert asked.state == State.REFUSED and "Somebody else was faster" in asked.refusal
    item.refresh_from_db()
    assert item.resolution_action == "reject"


FAULTS: list[tuple[str, dict[str, Any], int, str]] = [
    ("drop_after", {}, 1, "look-up"),
    ("status_after", {"statuses": [500]}, 1, "look-up"),
    ("drop_before", {}, 2, "answer"),
    ("status", {"statuses": [500]}, 2, "answer"),
    ("status", {"statuses": [429]}, 2, "answer"),
]


@pytest.mark.parametrize("action", ["accept", "reject", "unsure"])
def test_one_decision_whatever_becomes_of_the_answer(desk: Desk, action: str) -> None:
    client = desk.client("clinician")
    for fault, more, attempts, confirmed in FAULTS:
        item = unmatched(desk.sandbox, "match_completed")
        assert desk.fill(client, page_of(item), action=action).status_code == 302
        desk.fault(fault, "/(accept|resolve)$", **more)
        desk.deliver()
        desk.later()
        desk.later()
        asked = desk.newest()
        ended = (asked.state, asked.attempts, asked.confirmed_by)
        assert ended == (State.DONE, attempts, confirmed), fault
        item.refresh_from_db()
        assert truth(desk, item)[1] == action == item.resolution_action
        assert recreations(desk, item) == (1 if action == "accept" else 0), fault
        if action == "accept":
            order = Order.objects.get(pk=asked.remote_id)
            assert order.origin == "recreation" and order.bucket == vocabulary.RESULT_IN


def test_two_people_and_one_result(desk: Desk) -> None:
    item = unmatched(desk.sandbox, "match_demo")
    desk.fill(desk.client("clinician"), page_of(item), action="accept")
    answer = desk.fill(desk.client("lab coordinator"), page_of(item), action="reject", note="mine")
    assert answer.status_code == 422 and CommandRecord.objects.count() == 1
    shown = answer.content.decode()
    assert "asked for something about this already" in shown and "mine" in shown


def test_what_was_decided_elsewhere_leaves_the_list(desk: Desk) -> None:
    item = unmatched(desk.sandbox, "match_demo")
    read_list()
    decide_elsewhere(desk, item, "reject")
    read_list()
    desk.look_up()
    item.refresh_from_db()
    assert (item.status, item.missing_since) == ("resolved", None)
    Lookup.objects.filter(kind="unmatched").delete()
    read_list()
    assert not Lookup.objects.filter(kind="unmatched").exists(), "decided ones are not asked for"


def test_an_event_is_a_reason_to_read_the_item(desk: Desk) -> None:
    item = unmatched(desk.sandbox, "match_demo")
    UnmatchedResult.objects.all().delete()
    data = b'{"id": "%s", "status": "pending_customer_review"}' % str(item.pk).encode()
    now = timezone.now()
    told = Heard(1, "msg_1", "labtest.match_review.created", now, None, None, None, data)
    assert handle_match_reviews([told]) == {told.message_id: "looked up"}
    desk.look_up()
    assert UnmatchedResult.objects.get().pk == item.pk


def test_no_such_queue_is_no_error(desk: Desk, switched_off: None) -> None:
    read_list()
    run = SyncRun.objects.filter(resource="unmatched").latest("created_at")
    assert (run.state, run.error) == ("done", "") and not is_enabled()
    shown = desk.client("clinician").get(reverse("unmatched:list")).content.decode()
    assert "has not switched this queue on" in shown


def test_a_queue_that_is_switched_off_later_keeps_what_it_had(desk: Desk) -> None:
    item = unmatched(desk.sandbox, "match_demo")
    read_list()
    desk.sandbox.control("match_review", {"enabled": False})
    try:
        sync.schedule_lookups("unmatched", [item.pk])
        desk.look_up()
        read_list()
        assert not Lookup.objects.filter(kind="unmatched").exclude(error="").exists()
        item.refresh_from_db()
        assert item.missing_since is None
    finally:
        desk.sandbox.control("match_review", {"enabled": True})
    read_list()
    assert is_enabled()
