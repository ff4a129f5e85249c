"""Unmatched results, from the list to the order that gets them."""

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

from backoffice.accounts.models import User
from backoffice.audit.models import AuditEntry
from backoffice.core import vocabulary
from backoffice.outbox.models import CommandRecord
from backoffice.service.events import ReceivedEvent
from backoffice.sync.lookups import schedule_lookups
from backoffice.sync.models import Lookup, SyncRun
from backoffice.sync.runs import sync_when_due
from orders.models import Order, Result, UnmatchedResult
from orders.sync.unmatched import SYNCED_LIST, handle_match_reviews, is_enabled
from orders.unmatched.forms import choice_of
from patients.models import Demographics
from tests.outbox.harness import OutboxHarness
from tests.outbox.unmatched_results import mirrored_unmatched_result

State = CommandRecord.State


def detail_address(item: UnmatchedResult) -> str:
    return reverse("unmatched:detail", args=[item.pk])


def first_choice(item: UnmatchedResult) -> str:
    return choice_of(item.candidates.order_by("position")[0])


def resolution_at_sandbox(harness: OutboxHarness, item: UnmatchedResult) -> tuple[Any, ...]:
    return harness.sandbox.query(
        "SELECT status, resolution_action, resolved_order_id FROM sandbox_unmatchedresult"
        " WHERE id = %s",
        [item.pk],
    )[0]


def sync_list() -> None:
    """Sync the list now, even if the last sync was recent."""
    SyncRun.objects.update(created_at=timezone.now() - timedelta(hours=1))
    sync_when_due(SYNCED_LIST, seconds=30)


def count_recreations(harness: OutboxHarness, item: UnmatchedResult) -> int:
    """Count the orders that the service recreated for the suggested one."""
    return harness.count(
        "SELECT count(*) FROM sandbox_order WHERE parent_id = %s AND origin = 'recreation'",
        item.candidates.get().order_id,
    )


@pytest.fixture
def disabled_queue(harness: OutboxHarness) -> Iterator[None]:
    """Disable the queue of unmatched results for the team."""
    harness.sandbox.control("match_review", {"enabled": False})
    yield
    harness.sandbox.control("match_review", {"enabled": True})


def test_list_shows_oldest_results_first(harness: OutboxHarness) -> None:
    first, second = (
        mirrored_unmatched_result(harness.sandbox, "match_demo"),
        mirrored_unmatched_result(harness.sandbox, "no_match"),
    )
    UnmatchedResult.objects.all().delete()
    sync_list()
    client = harness.client("clinician")
    page = client.get(reverse("unmatched:list"))
    ids = [row.pk for row in page.context["page"].rows]
    assert ids.index(first.pk) < ids.index(second.pk)
    assert "Nemo Unmatched" in page.content.decode()
    entry = AuditEntry.objects.filter(object_type="unmatched result", action="list").get()
    assert str(first.pk) in entry.object_ids
    assert set(first.candidates.values_list("user_id", flat=True)) <= set(entry.patient_ids)


def test_page_shows_both_sides_and_differences(harness: OutboxHarness) -> None:
    item = mirrored_unmatched_result(harness.sandbox, "match_sample_id_mismatch_demo")
    response = harness.client("clinician").get(detail_address(item))
    page = response.content.decode()
    assert "Right sample, another person" in page and "Person differs" in page
    (side,) = response.context["sides"]
    assert side.name.differs and not side.dob.differs and not side.gender.differs
    assert f'<strong class="differs">{side.name.value}</strong>' in page
    assert "Accept" in page and "Reject" in page and "Ask the service" in page


def test_pages_use_a_fixed_number_of_queries(harness: OutboxHarness) -> None:
    client = harness.client("clinician")
    one, two = (
        mirrored_unmatched_result(harness.sandbox, "match_demo"),
        mirrored_unmatched_result(harness.sandbox, "multiple_demo_match"),
    )
    client.get(detail_address(one))  # The first page of a session stores its form token.
    query_counts = []
    for item in (one, two):
        with CaptureQueriesContext(connection) as captured:
            client.get(detail_address(item))
        query_counts.append(len(captured))
        with CaptureQueriesContext(connection) as captured:
            client.get(reverse("unmatched:list"))
        query_counts.append(len(captured))
        mirrored_unmatched_result(harness.sandbox, "no_match")
    assert query_counts[:2] == query_counts[2:]


def test_only_allowed_actions_are_offered(harness: OutboxHarness) -> None:
    item = mirrored_unmatched_result(harness.sandbox, "match_demo")
    UnmatchedResult.objects.filter(pk=item.pk).update(allowed_actions=["unsure"])
    client = harness.client("clinician")
    page = client.get(detail_address(item)).content.decode()
    assert 'value="unsure"' in page and 'value="accept"' not in page
    response = harness.submit_form(
        client, detail_address(item), action="accept", choice=first_choice(item)
    )
    assert response.status_code == 422 and CommandRecord.objects.count() == 0


def test_result_values_require_permission(harness: OutboxHarness) -> None:
    item = mirrored_unmatched_result(harness.sandbox, "match_demo", interpretation="critical")
    for address in (reverse("unmatched:list"), detail_address(item)):
        assert (
            "Critical</span>" in client_of_role(harness, "clinician").get(address).content.decode()
        )
        front_desk_page = client_of_role(harness, "front desk").get(address).content.decode()
        assert "Critical</span>" not in front_desk_page and item.last_name in front_desk_page
    front_desk = client_of_role(harness, "front desk")
    assert 'name="action"' not in front_desk.get(detail_address(item)).content.decode()
    assert front_desk.post(detail_address(item), {"action": "reject"}).status_code == 403
    assert client_of_role(harness, "viewer").get(detail_address(item)).status_code == 403


def client_of_role(harness: OutboxHarness, role: str) -> Client:
    user = User.objects.filter(username=role.replace(" ", "-")).first()
    if user is None:
        return harness.client(role)
    client = Client()
    client.force_login(user)
    return client


def test_result_is_added_to_the_chosen_order(harness: OutboxHarness) -> None:
    item = mirrored_unmatched_result(harness.sandbox, "multiple_demo_match")
    chosen = item.candidates.order_by("position")[1]
    client = harness.client("clinician")
    response = harness.submit_form(
        client,
        detail_address(item),
        action="accept",
        choice=choice_of(chosen),
        note="the second one",
    )
    assert response.status_code == 302
    harness.deliver()
    command = harness.newest_command()
    assert (command.state, command.confirmed_by) == (State.DONE, "answer")
    assert resolution_at_sandbox(harness, item) == ("resolved", "accept", chosen.order_id)
    item.refresh_from_db()
    assert (item.status, item.resolved_order_id, item.note) == (
        "resolved",
        chosen.order_id,
        "the second one",
    )
    assert command.done_url == reverse("orders:detail", args=[chosen.order_id])
    assert Order.objects.get(pk=str(chosen.order_id)).bucket == vocabulary.RESULT_IN


def test_ambiguous_result_needs_a_choice(harness: OutboxHarness) -> None:
    item = mirrored_unmatched_result(harness.sandbox, "multiple_demo_match")
    client = harness.client("clinician")
    assert "checked" not in client.get(detail_address(item)).content.decode()
    response = harness.submit_form(client, detail_address(item), action="accept", note="which?")
    assert response.status_code == 422 and CommandRecord.objects.count() == 0
    page = response.content.decode()
    assert "Say which order or patient it belongs to" in page and "which?" in page


@pytest.mark.parametrize("case", ["match_demo", "match_completed", "match_cancelled", "wrong_lab"])
def test_result_accepted_without_order_is_in_review(harness: OutboxHarness, case: str) -> None:
    """An accepted result must not vanish, as it does in other systems.

    Whichever order the service chose, it is in the mirror with its values and in the review
    queue.
    """
    item = mirrored_unmatched_result(harness.sandbox, case)
    client = harness.client("clinician")
    assert harness.submit_form(client, detail_address(item), action="accept").status_code == 302
    harness.deliver()
    command = harness.newest_command()
    assert command.state == State.DONE, command.refusal
    status, action, order_id = resolution_at_sandbox(harness, item)
    assert (status, action, str(order_id)) == ("resolved", "accept", command.remote_id)
    order = Order.objects.get(pk=order_id)
    assert order.bucket == vocabulary.RESULT_IN
    if case != "match_demo":
        assert order.origin == "recreation"
        assert order.pk != item.candidates.get().order_id
    harness.run_lookups()
    assert Result.objects.get(order=order).returned > 0
    queue = client.get(f"{reverse('reviewing:queue')}?patient={order.user_id}")
    assert order.pk in [item.review.pk for item in queue.context["items"]], (
        "not in the review queue"
    )
    page = client.get(f"{reverse('orders:list')}?bucket=result-in").content.decode()
    assert str(order.pk) in page
    assert str(order.pk) in client.get(detail_address(item)).content.decode()


def test_suggestion_of_another_person_must_be_chosen(harness: OutboxHarness) -> None:
    item = mirrored_unmatched_result(harness.sandbox, "match_sample_id_mismatch_demo")
    client = harness.client("clinician")
    assert "checked" not in client.get(detail_address(item)).content.decode()
    response = harness.submit_form(client, detail_address(item), action="accept")
    assert response.status_code == 422 and CommandRecord.objects.count() == 0
    response = harness.submit_form(
        client, detail_address(item), action="accept", choice=first_choice(item)
    )
    assert response.status_code == 302


def test_result_without_candidates_is_given_to_a_patient(harness: OutboxHarness) -> None:
    item = mirrored_unmatched_result(harness.sandbox, "no_match")
    client = harness.client("clinician")
    response: Any = harness.submit_form(client, detail_address(item), action="accept")
    assert response.status_code == 422 and "Say which order or patient" in response.content.decode()
    person = Demographics.objects.exclude(last_name="").earliest("pk")
    response = harness.submit_form(
        client, detail_address(item), search="yes", find=person.last_name, note="by phone"
    )
    assert response.status_code == 200 and CommandRecord.objects.count() == 0
    choices = {side.user_id: side.choice for side in response.context["people"]}
    assert person.pk in choices and "by phone" in response.content.decode()
    harness.submit_form(client, detail_address(item), action="accept", choice=choices[person.pk])
    harness.deliver()
    command = harness.newest_command()
    assert command.state == State.DONE and command.patient_id == person.pk
    order = Order.objects.get(pk=command.remote_id)
    assert (order.user_id, order.bucket, order.origin) == (
        person.pk,
        vocabulary.RESULT_IN,
        "recreation",
    )


@pytest.mark.parametrize(
    ("action", "status"), [("reject", "resolved"), ("unsure", "pending_ops_review")]
)
def test_result_is_rejected_or_passed_to_the_service(
    harness: OutboxHarness, action: str, status: str
) -> None:
    item = mirrored_unmatched_result(harness.sandbox, "match_demo")
    client = harness.client("lab coordinator")
    assert (
        harness.submit_form(
            client, detail_address(item), action=action, note="not ours"
        ).status_code
        == 302
    )
    harness.deliver()
    assert harness.newest_command().state == State.DONE
    item.refresh_from_db()
    assert (item.status, item.resolution_action, item.note) == (status, action, "not ours")
    assert resolution_at_sandbox(harness, item)[:2] == (status, action)
    page = client.get(detail_address(item)).content.decode()
    assert 'name="action"' not in page and "not ours" in page


def resolve_elsewhere(harness: OutboxHarness, item: UnmatchedResult, action: str) -> None:
    with harness.sandbox.service() as service:
        if action == "accept":
            service.unmatched.accept(item.pk, item.candidates.earliest("position").order_id)
        else:
            service.unmatched.resolve(item.pk, action)


@pytest.mark.parametrize(
    ("other_action", "words"),
    [
        ("reject", "The result was rejected"),
        ("unsure", "The lab service will decide"),
        ("accept", "to an order"),
    ],
)
def test_result_resolved_elsewhere_is_refused_with_reason(
    harness: OutboxHarness, other_action: str, words: str
) -> None:
    item = mirrored_unmatched_result(harness.sandbox, "match_demo")
    client = harness.client("clinician")
    harness.submit_form(
        client, detail_address(item), action="unsure" if other_action != "unsure" else "reject"
    )
    resolve_elsewhere(harness, item, other_action)
    harness.deliver()
    command = harness.newest_command()
    assert command.state == State.REFUSED and command.attempts == 0
    assert "Already decided" in command.refusal and words in command.refusal
    item.refresh_from_db()
    assert (item.status, item.resolution_action) == resolution_at_sandbox(harness, item)[:2]
    page = client.get(detail_address(item)).content.decode()
    assert words in page and 'name="action"' not in page
    response = client.post(detail_address(item), {"form_id": str(command.pk), "action": "reject"})
    assert response.status_code == 422


def test_resolution_elsewhere_before_sending_is_refused(harness: OutboxHarness) -> None:
    item = mirrored_unmatched_result(harness.sandbox, "match_demo")
    harness.submit_form(harness.client("clinician"), detail_address(item), action="accept")
    harness.add_fault("drop_before", "/accept$")
    harness.deliver()
    assert harness.newest_command().state == State.UNCERTAIN
    resolve_elsewhere(harness, item, "reject")
    harness.pass_time()
    command = harness.newest_command()
    assert command.state == State.REFUSED and "Someone else decided first" in command.refusal
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
def test_result_is_resolved_once_under_every_fault(harness: OutboxHarness, action: str) -> None:
    client = harness.client("clinician")
    for fault, fault_options, attempts, confirmed_by in FAULTS:
        item = mirrored_unmatched_result(harness.sandbox, "match_completed")
        assert harness.submit_form(client, detail_address(item), action=action).status_code == 302
        harness.add_fault(fault, "/(accept|resolve)$", **fault_options)
        harness.deliver()
        harness.pass_time()
        harness.pass_time()
        command = harness.newest_command()
        outcome = (command.state, command.attempts, command.confirmed_by)
        assert outcome == (State.DONE, attempts, confirmed_by), fault
        item.refresh_from_db()
        assert resolution_at_sandbox(harness, item)[1] == action == item.resolution_action
        assert count_recreations(harness, item) == (1 if action == "accept" else 0), fault
        if action == "accept":
            order = Order.objects.get(pk=command.remote_id)
            assert order.origin == "recreation" and order.bucket == vocabulary.RESULT_IN


def test_second_resolution_of_a_result_is_refused(harness: OutboxHarness) -> None:
    item = mirrored_unmatched_result(harness.sandbox, "match_demo")
    harness.submit_form(harness.client("clinician"), detail_address(item), action="accept")
    response = harness.submit_form(
        harness.client("lab coordinator"), detail_address(item), action="reject", note="mine"
    )
    assert response.status_code == 422 and CommandRecord.objects.count() == 1
    page = response.content.decode()
    assert "asked for something about this already" in page and "mine" in page


def test_result_resolved_elsewhere_leaves_the_list(harness: OutboxHarness) -> None:
    item = mirrored_unmatched_result(harness.sandbox, "match_demo")
    sync_list()
    resolve_elsewhere(harness, item, "reject")
    sync_list()
    harness.run_lookups()
    item.refresh_from_db()
    assert (item.status, item.missing_since) == ("resolved", None)
    Lookup.objects.filter(kind="unmatched").delete()
    sync_list()
    assert not Lookup.objects.filter(kind="unmatched").exists(), (
        "resolved results are not looked up"
    )


def test_event_schedules_lookup_of_the_result(harness: OutboxHarness) -> None:
    item = mirrored_unmatched_result(harness.sandbox, "match_demo")
    UnmatchedResult.objects.all().delete()
    data = b'{"id": "%s", "status": "pending_customer_review"}' % str(item.pk).encode()
    now = timezone.now()
    review_event = ReceivedEvent(
        1, "msg_1", "labtest.match_review.created", now, None, None, None, data
    )
    assert handle_match_reviews([review_event]) == {review_event.message_id: "looked up"}
    harness.run_lookups()
    assert UnmatchedResult.objects.get().pk == item.pk


def test_disabled_queue_is_no_error(harness: OutboxHarness, disabled_queue: None) -> None:
    sync_list()
    run = SyncRun.objects.filter(resource="unmatched").latest("created_at")
    assert (run.state, run.error) == ("done", "") and not is_enabled()
    page = harness.client("clinician").get(reverse("unmatched:list")).content.decode()
    assert "has not switched this queue on" in page


def test_queue_disabled_later_keeps_its_results(harness: OutboxHarness) -> None:
    item = mirrored_unmatched_result(harness.sandbox, "match_demo")
    sync_list()
    harness.sandbox.control("match_review", {"enabled": False})
    try:
        schedule_lookups("unmatched", [item.pk])
        harness.run_lookups()
        sync_list()
        assert not Lookup.objects.filter(kind="unmatched").exclude(error="").exists()
        item.refresh_from_db()
        assert item.missing_since is None
    finally:
        harness.sandbox.control("match_review", {"enabled": True})
    sync_list()
    assert is_enabled()
