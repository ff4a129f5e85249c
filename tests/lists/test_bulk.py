"""Work on many rows: chosen by hand or by the filter, in the background, once, and told."""

from __future__ import annotations

import re
import uuid
from typing import Any
from uuid import UUID

import pytest
from django.test import Client
from django.utils import timezone

from backoffice.accounts.models import User
from backoffice.audit.models import AuditEntry
from backoffice.operations import restore
from backoffice.outbox.models import CommandRecord
from backoffice.pages.lists import bulk
from backoffice.pages.models import BulkRow, BulkRun
from backoffice.team.actions import release
from backoffice.team.models import Assignment, Note
from orders.models import Order
from orders.order_list.order_list import ORDER_LIST
from tests.api.rows import order, staff, uid

pytestmark = pytest.mark.django_db

ADDRESS = "/orders/"


@pytest.fixture
def clinician(client: Client) -> User:
    user = staff("clinician")
    client.force_login(user)
    return user


@pytest.fixture
def five() -> None:
    for n in range(1, 6):
        order(n, low_level_status="lost" if n < 4 else "ordered", method="testkit").save()


def ask(client: Client, verb: str, *numbers: int, query: str = "", **more: Any) -> Any:
    data: dict[str, Any] = {"verb": verb, "query": query, "here": query, "form_id": uuid.uuid4()}
    if numbers:
        data["key"] = [str(uid("order", n)) for n in numbers]
    else:
        data["everything"] = "1"
    return client.post(f"{ADDRESS}bulk/", {**data, **more})


def confirm(client: Client, verb: str, *, query: str = "", **more: Any) -> Any:
    """Ask for everything that matches, and say yes to what the page shows."""
    page = ask(client, verb, query=query).content.decode()
    return ask(client, verb, query=query, go="1", **{**shown_on(page), **more})


def shown_on(page: str) -> dict[str, str]:
    """What a confirmation page says of the rows that match."""
    return dict(re.findall(r'name="(total|digest)" value="([^"]*)"', page))


def work() -> None:
    while bulk.process_runs([ORDER_LIST], seconds=5):
        pass


def held() -> set[int]:
    keys = set(Assignment.objects.values_list("subject_id", flat=True))
    return {n for n in range(9) if str(uid("order", n)) in keys}


def test_ticked_orders_are_taken(client: Client, clinician: User, five: None) -> None:
    answer = ask(client, "take", 1, 4, query="status=lost")
    run = BulkRun.objects.get()
    assert answer["Location"] == f"{ADDRESS}?status=lost&run={run.pk}"
    assert (run.total, run.state, held()) == (2, "open", set())
    page = client.get(answer["Location"]).content.decode()
    assert "Assign orders to me" in page and f"/orders/bulk/{run.pk}/strip/" in page
    work()
    run.refresh_from_db()
    assert (run.done, run.failed, run.state) == (2, 0, "done")
    assert held() == {1, 4}
    strip = client.get(f"{ADDRESS}bulk/{run.pk}/strip/").content.decode()
    assert "2 of 2" in strip and "hx-get" not in strip
    assert AuditEntry.objects.filter(object_type="assignment", actor=clinician).count() == 2


def test_everything_means_the_filter_not_the_page(
    client: Client, clinician: User, five: None
) -> None:
    asked = ask(client, "take", query="status=lost&size=1")
    assert (asked.status_code, BulkRun.objects.count()) == (200, 0)
    assert "Assign to me: 3 orders" in " ".join(asked.content.decode().split())
    confirm(client, "take", query="status=lost&size=1")
    work()
    assert held() == {1, 2, 3}


def test_what_is_somebody_elses_is_told_and_tried_again(
    client: Client, clinician: User, five: None
) -> None:
    other = staff("lab admin", "bo")
    other.first_name = "Bo"
    other.save()
    Assignment.objects.create(
        subject_type="order", subject_id=str(uid("order", 2)), user=other, by=other
    )
    ask(client, "take", 1, 2)
    work()
    run = BulkRun.objects.get()
    assert (run.done, run.failed) == (1, 1)
    page = client.get(f"{ADDRESS}bulk/{run.pk}/").content.decode()
    assert "Assigned to Bo since" in page
    release(_request(other), "order", uid("order", 2))
    answer = client.post(f"{ADDRESS}bulk/{run.pk}/again/", {"form_id": uuid.uuid4()})
    work()
    again = BulkRun.objects.exclude(pk=run.pk).get()
    assert answer["Location"] == f"{ADDRESS}bulk/{again.pk}/"
    assert (again.total, again.done, again.again_id) == (1, 1, run.pk)
    assert held() == {1, 2}


def _request(user: User) -> Any:
    return bulk._request_of_user(user, BulkRun(pk=uuid.uuid4()))


def test_giving_to_somebody_asks_whom_first(client: Client, clinician: User, five: None) -> None:
    other = staff("front desk", "frida")
    page = ask(client, "assign", 1, 2)
    assert page.status_code == 200 and not BulkRun.objects.exists()
    assert "frida" in page.content.decode() and "Assign 2 orders" in page.content.decode()
    for role in ("viewer", "auditor"):
        blind = ask(client, "assign", 1, 2, go="1", to=staff(role).pk)
        assert blind.status_code == 422, "who may not work on orders is given none"
    again = ask(client, "assign", 1, 2, go="1", to="")
    assert again.status_code == 422 and not BulkRun.objects.exists()
    ask(client, "assign", 1, 2, go="1", to=other.pk)
    work()
    assert set(Assignment.objects.values_list("user", "by")) == {(other.pk, clinician.pk)}


def test_a_note_is_written_once_on_each(client: Client, clinician: User, five: None) -> None:
    confirm(client, "note", text="The courier is late.")
    work()
    assert Note.objects.count() == 5
    assert set(Note.objects.values_list("text", "author")) == {
        ("The courier is late.", clinician.pk)
    }


def test_a_second_click_is_the_same_run(client: Client, clinician: User, five: None) -> None:
    form_id = uuid.uuid4()
    for _ in range(2):
        ask(client, "note", 1, go="1", text="Once.", form_id=form_id)
    work()
    assert (BulkRun.objects.count(), Note.objects.count()) == (1, 1)


def test_a_worker_that_dies_leaves_the_rest_to_the_next(
    client: Client, clinician: User, five: None
) -> None:
    """It dies in the middle of a row: that row, and those after it, are done by the next, once."""
    confirm(client, "note", text="Once each.")
    run = BulkRun.objects.get()
    done: list[str] = []

    class Dying(type(ORDER_LIST.bulk_actions[2])):  # type: ignore[misc]
        def apply(self, request: Any, row: BulkRow, given: Any) -> None:
            super().apply(request, row, given)
            done.append(row.key)
            if len(done) == 3:
                raise KeyboardInterrupt

    class Listed(type(ORDER_LIST)):  # type: ignore[misc]
        bulk_actions = (Dying("order", "orders"),)

    with pytest.raises(KeyboardInterrupt):
        bulk.process_runs([Listed()])
    run.refresh_from_db()
    assert (run.done, run.state, Note.objects.count()) == (2, "open", 2)
    work()
    run.refresh_from_db()
    assert (run.done, run.failed, run.state) == (5, 0, "done")
    assert Note.objects.count() == 5


def test_a_run_that_is_held_is_left_to_its_holder(
    client: Client, clinician: User, five: None
) -> None:
    confirm(client, "take")
    BulkRun.objects.update(lease_token=uuid.uuid4(), lease_until="2999-01-01T00:00Z")
    assert bulk.process_runs([ORDER_LIST]) == 0
    BulkRun.objects.update(lease_until="2020-01-01T00:00Z")
    work()
    assert len(held()) == 5


def test_it_can_be_stopped(client: Client, clinician: User, five: None) -> None:
    confirm(client, "take")
    run = BulkRun.objects.get()
    client.post(f"{ADDRESS}bulk/{run.pk}/stop/")
    work()
    run.refresh_from_db()
    assert (run.state, run.done, held()) == ("stopped", 0, set())
    assert "Do the remaining 5" in client.get(f"{ADDRESS}bulk/{run.pk}/").content.decode()


def test_who_lost_the_role_does_nothing_more(client: Client, clinician: User, five: None) -> None:
    confirm(client, "take")
    clinician.groups.clear()
    work()
    run = BulkRun.objects.get()
    assert (run.done, run.failed, run.state, held()) == (0, 5, "done", set())


def test_cancelling_shows_what_will_and_will_not_happen(
    client: Client, clinician: User, five: None
) -> None:
    page = ask(client, "cancel")
    words = page.content.decode()
    assert "2 orders will be canceled" in words and "3 orders cannot be canceled" in words
    assert "A canceled order cannot be reopened" in words
    assert "Cancel 2 orders" in words
    entry = AuditEntry.objects.get(action="list")
    assert entry.row_count == 5 and uid("patient", 1) in entry.patient_ids
    assert not CommandRecord.objects.exists()
    refused = ask(client, "cancel", go="1", why="", **shown_on(words))
    assert refused.status_code == 422
    assert "Choose a reason for canceling." in refused.content.decode()


def test_a_kit_that_nobody_registered_is_named_so(client: Client, clinician: User) -> None:
    for n, low in enumerate(("ordered", "lost"), 1):
        nobody = {"patient_first_name": "", "patient_last_name": "", "patient_dob": None}
        order(n, low_level_status=low, method="testkit", **nobody).save()
    words = ask(client, "cancel").content.decode()
    assert "1 order will be canceled" in words and "1 order cannot be canceled" in words
    assert words.count("Kit without patient") == 2


def test_cancelling_asks_the_service_once_for_each(
    client: Client, clinician: User, five: None
) -> None:
    confirm(client, "cancel", why="patient", reason="moved away")
    run = BulkRun.objects.get()
    work()
    BulkRow.objects.filter(run=run).update(state="waiting")  # As if a worker died before it noted.
    BulkRun.objects.update(state="open", done=0, failed=0)
    work()
    run.refresh_from_db()
    assert (run.done, run.failed) == (2, 3)
    commands = CommandRecord.objects.all()
    assert {UUID(one.subject_id) for one in commands} == {uid("order", 4), uid("order", 5)}
    assert {(one.kind, one.requested_by, one.reason) for one in commands} == {
        ("order.cancel", clinician, "Patient request: moved away")
    }
    page = client.get(f"{ADDRESS}bulk/{run.pk}/").content.decode()
    assert "Waiting to be sent" in page
    assert "does not allow canceling an order in this status" in page


VERBS = {
    "take": {},
    "assign": {"to": ""},
    "note": {"text": "Made up."},
    "resend": {},
    "cancel": {"why": "patient"},
}


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_asks_again_when_the_number_changed(
    client: Client, clinician: User, five: None, verb: str
) -> None:
    assert set(VERBS) == {one.name for one in ORDER_LIST.bulk_actions}
    form = {**VERBS[verb], **({"to": clinician.pk} if verb == "assign" else {})}
    shown = shown_on(ask(client, "take", query="status=lost").content.decode())
    assert shown["total"] == "3"
    order(6, low_level_status="lost", method="testkit").save()
    answer = ask(client, verb, query="status=lost", go="1", **form, **shown)
    assert answer.status_code == 422
    page = answer.content.decode()
    assert "The filter now matches 4 orders. It was 3 before." in page
    assert not BulkRun.objects.exists()
    if verb != "cancel":  # It names each order, and goes on with those.
        again = ask(client, verb, query="status=lost", go="1", **form, **shown_on(page))
        assert again.status_code == 302 and BulkRun.objects.get().total == 4


@pytest.mark.parametrize("verb", [name for name in VERBS if name != "cancel"])
def test_every_verb_asks_again_when_other_rows_match(
    client: Client, clinician: User, five: None, verb: str
) -> None:
    """One leaves the filter and another comes: the number is the same."""
    form = {**VERBS[verb], **({"to": clinician.pk} if verb == "assign" else {})}
    shown = shown_on(ask(client, verb, query="status=lost").content.decode())
    Order.objects.filter(pk=uid("order", 1)).update(low_level_status="ordered", bucket="preparing")
    Order.objects.filter(pk=uid("order", 4)).update(low_level_status="lost", bucket="closed")
    answer = ask(client, verb, query="status=lost", go="1", **form, **shown)
    assert answer.status_code == 422 and not BulkRun.objects.exists()
    assert "The filter now matches different orders." in answer.content.decode()


@pytest.mark.parametrize("seen", [{}, {"total": "many"}, {"total": "5"}, {"total": "٥"}])
def test_everything_is_never_done_unconfirmed(
    client: Client, clinician: User, five: None, seen: dict[str, str]
) -> None:
    assert ask(client, "take", go="1", **seen).status_code == 422
    assert not BulkRun.objects.exists()


def test_what_was_confirmed_is_asked_for_once(client: Client, clinician: User, five: None) -> None:
    """A second click, after the number changed, is still the run of the first one."""
    form_id = uuid.uuid4()
    shown = shown_on(ask(client, "take").content.decode())
    for number in (6, 7):
        answer = ask(client, "take", go="1", form_id=form_id, **shown)
        assert answer.status_code == 302
        order(number, low_level_status="lost", method="testkit").save()
    assert BulkRun.objects.get().total == 5


def test_only_orders_that_were_shown_are_cancelled(
    client: Client, clinician: User, five: None
) -> None:
    page = ask(client, "cancel", query="status=ordered").content.decode()
    assert 'name="everything"' not in page
    keys = re.findall(r'name="key" value="([^"]+)"', page)
    # One leaves the filter and another comes: the number is the same.
    Order.objects.filter(pk=uid("order", 1)).update(low_level_status="ordered", bucket="preparing")
    Order.objects.filter(pk=uid("order", 4)).update(low_level_status="cancelled", bucket="closed")
    ask(client, "cancel", 4, 5, query="status=ordered", go="1", total="2", why="patient")
    work()
    assert set(keys) == {str(uid("order", n)) for n in (4, 5)}
    assert {one.subject_id for one in CommandRecord.objects.all()} == {str(uid("order", 5))}


def test_at_most_a_hundred_are_cancelled_at_once(client: Client, clinician: User) -> None:
    Order.objects.bulk_create(order(n, low_level_status="ordered") for n in range(101))
    page = ask(client, "cancel")
    assert "At most 100 orders at a time" in page.content.decode()
    assert ask(client, "cancel", go="1", total="101", why="patient").status_code == 422
    assert not BulkRun.objects.exists()


@pytest.mark.parametrize(
    ("role", "verbs"),
    [
        ("viewer", set()),
        ("front desk", {"take", "assign", "note"}),
        ("clinician", {"take", "assign", "note", "resend", "cancel"}),
    ],
)
def test_verbs_are_those_of_the_role(
    client: Client, five: None, role: str, verbs: set[str]
) -> None:
    client.force_login(staff(role))
    page = client.get(ADDRESS)
    assert {verb.name for verb in page.context["list"].bulk_actions} == verbs
    assert (b"data-bulk" in page.content) is bool(verbs)
    for verb in {"take", "cancel", "note"} - verbs:
        assert ask(client, verb, 1, go="1").status_code == 403
    assert not BulkRun.objects.exists()


def test_enter_presses_nothing_and_the_search_is_another_form(
    client: Client, clinician: User, five: None
) -> None:
    page = client.get(ADDRESS).content.decode()
    form = page[page.index('<form class="bulk"') :]
    first = form[form.index("<button") :]
    assert first.startswith('<button type="submit" name="verb" value="" hidden>')
    answer = ask(client, "", 1)
    assert answer["Location"] == f"{ADDRESS}?" and not BulkRun.objects.exists()
    assert page.index('aria-label="Filter orders"') < page.index('<form class="bulk"')
    assert "search_input" not in form[: form.index("</form>")]


def test_nothing_ticked_or_nothing_there_is_told(client: Client, clinician: User) -> None:
    answer = client.post(f"{ADDRESS}bulk/", {"verb": "take", "query": ""}, follow=True)
    assert "Select the orders first." in answer.content.decode()
    answer = client.post(f"{ADDRESS}bulk/", {"verb": "take", "everything": "1"}, follow=True)
    assert "Nothing was done" in answer.content.decode()
    assert not BulkRun.objects.exists()


@pytest.mark.parametrize("data", [{"verb": "explode"}, {"verb": "take", "key": "42"}])
def test_nonsense_is_refused(client: Client, clinician: User, data: dict[str, str]) -> None:
    assert client.post(f"{ADDRESS}bulk/", data).status_code == 400


def test_a_run_is_seen_by_who_asked(client: Client, clinician: User, five: None) -> None:
    ask(client, "take", 1)
    run = BulkRun.objects.get()
    client.force_login(staff("lab admin"))
    for path in ("", "strip/"):
        assert client.get(f"{ADDRESS}bulk/{run.pk}/{path}").status_code == 404
    assert client.post(f"{ADDRESS}bulk/{run.pk}/stop/").status_code == 404


@pytest.mark.django_db(transaction=True)
def test_what_was_stopped_after_the_backup_does_not_go_on(
    client: Client, clinician: User, five: None
) -> None:
    given = {"go": "1", "why": "duplicate", "reason": "Made up"}
    ask(client, "cancel", 1, 2, 3, 4, 5, **given)
    restore.hold(timezone.now())
    work()
    run = BulkRun.objects.get()
    assert (run.state, run.done) == ("stopped", 0) and run.finished_at
    assert not CommandRecord.objects.exists()
