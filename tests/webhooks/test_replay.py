"""Replay: what it would change, what it does, what is put on record."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from pytest_django import Settings

from backoffice.audit.models import AuditEntry
from backoffice.service import Service
from backoffice.sync.models import Lookup
from orders.models import Order, OrderEvent
from tests.api.rows import NOW, demographics, patient, staff, uid
from tests.webhooks.catalogue import CATALOGUE, Catalogue
from tests.webhooks.events import event, failed
from tests.webhooks.records import TEAM
from tests.webhooks.rows import know_our_team
from webhooks import apply_events, event_envelope, replay
from webhooks.models import Event

pytestmark = pytest.mark.django_db


@pytest.fixture
def order_payload(service: Service) -> dict[str, Any]:
    """One order of the service, as an event would carry it."""
    page = service.orders.list(page=1, size=5)
    record = next(record for record in page.records if len(record.data.events) > 1)
    data: dict[str, Any] = json.loads(record.raw)
    know_our_team()
    return {**data, "team_id": TEAM}


def newer(data: dict[str, Any], **values: Any) -> dict[str, Any]:
    later = (datetime.now(UTC) - timedelta(minutes=1)).isoformat()
    return {**data, "updated_at": later, **values}


def state_of_everything() -> list[Any]:
    tables = ("orders_order", "orders_orderevent", "sync_lookup", "webhooks_event")
    found = []
    with connection.cursor() as cursor:
        for table in tables:
            cursor.execute(f"SELECT md5(string_agg(t::text, ',' ORDER BY t::text)) FROM {table} t")
            found.append(cursor.fetchone()[0])
    return found


def test_preview_shows_differences_and_changes_nothing(order_payload: dict[str, Any]) -> None:
    known = event(1, data=order_payload, state="pending")
    apply_events.drain()
    assert Order.objects.get(pk=order_payload["id"])
    row = failed(2, data=newer(order_payload, sample_id="NEW-SAMPLE"))
    before = state_of_everything()
    found = replay.preview(row)
    assert state_of_everything() == before
    assert (found.failed, found.outcome.value) == (False, "applied")
    changed = {change.table: change for change in found.rows}["order"]
    assert (changed.key, changed.new) == (order_payload["id"], False)
    changed_values = {change.name: (change.before, change.after) for change in changed.changes}
    assert changed_values["sample_id"] == (str(order_payload.get("sample_id") or ""), "NEW-SAMPLE")
    assert set(changed_values) >= {"updated_at", "sample_id"}
    assert "status" not in changed_values
    assert found.written["orders_order"] == 1
    assert known.pk < row.pk


def test_preview_shows_new_rows(order_payload: dict[str, Any]) -> None:
    found = replay.preview(failed(1, data=order_payload))
    tables = [change.table for change in found.rows]
    assert tables.count("order") == 1
    assert tables.count("order event") == len(order_payload["events"])
    assert all(change.new for change in found.rows)
    assert not Order.objects.exists()
    assert not OrderEvent.objects.exists()
    assert not Lookup.objects.exists()


def test_preview_of_failing_event_shows_reason(order_payload: dict[str, Any]) -> None:
    found = replay.preview(failed(1, data={**order_payload, "created_at": "yesterday"}))
    assert found.failed
    assert "yesterday" not in found.reason
    assert replay.preview(failed(2, body=b"{")).failed
    assert replay.preview(failed(3, body=None)).reason == "The content has been deleted."


def test_preview_of_unknown_type_is_set_aside(order_payload: dict[str, Any]) -> None:
    row = event(1, "teleport.done", data={"id": "x"}, state="skipped", outcome="unknown type")
    assert replay.preview(row).outcome.value == "unknown type"
    kept = event(2, "continuous_query.result_table.changed", data={"id": "x"})
    assert replay.preview(kept).outcome.value == "kept"


def test_replay_is_applied_and_never_beats_newer_data(
    order_payload: dict[str, Any], client: Client
) -> None:
    old = failed(1, data=newer(order_payload, sample_id="OLD"))
    event(
        2,
        data={**newer(order_payload, sample_id="NEW"), "updated_at": datetime.now(UTC).isoformat()},
    )
    Event.objects.filter(message_id="msg_2").update(state="pending")
    apply_events.drain()
    client.force_login(staff("lab admin"))
    answer = client.post(f"/system/events/{old.pk}/replay/", follow=True)
    assert "will be replayed within seconds" in answer.content.decode()
    again = Event.objects.get(pk=old.pk)
    assert (again.state, again.attempts, again.reason) == ("pending", 0, "")
    Event.objects.filter(pk=old.pk).update(due_at=NOW)  # Time stands still in this transaction.
    assert apply_events.drain() == 1
    again.refresh_from_db()
    assert (again.state, again.outcome) == ("done", "stale")
    assert Order.objects.get(pk=order_payload["id"]).sample_id == "NEW"


def test_replay_page_of_one_event(order_payload: dict[str, Any], client: Client) -> None:
    client.force_login(staff("lab admin"))
    row = failed(1, data=newer(order_payload, sample_id="NEW-SAMPLE"))
    page = client.get(f"/system/events/{row.pk}/replay/").content.decode()
    for words in ("Preview of the replay", "NEW-SAMPLE", "sample_id", "Replay this event"):
        assert words in page, words
    entry = AuditEntry.objects.get()
    assert (entry.action, entry.object_type) == ("view", "event payload")
    assert Event.objects.get(pk=row.pk).state == "dead"


def test_replay_is_audited_first(client: Client) -> None:
    user = staff("lab admin")
    client.force_login(user)
    row = failed(1)
    client.post(f"/system/events/{row.pk}/replay/")
    entry = AuditEntry.objects.get(action="change")
    assert (entry.actor, entry.object_type, entry.object_ids) == (user, "event", [str(row.pk)])
    assert entry.reason == "replay"


def test_event_with_deleted_body_cannot_be_replayed(client: Client) -> None:
    client.force_login(staff("lab admin"))
    row = failed(1, body=None)
    answer = client.post(f"/system/events/{row.pk}/replay/", follow=True)
    assert "cannot be replayed" in answer.content.decode()
    assert Event.objects.get(pk=row.pk).state == "dead"


@pytest.fixture
def many() -> None:
    know_our_team()
    for n in range(1, 8):
        failed(n, user=n, data={"id": "no id"})
    failed(8, event_type="provider.device.created", reason="Object missing required field `id`")
    event(9)
    event(10, state="retry", outcome="failed")


def chosen(client: Client, **query: str) -> int:
    answer = client.get("/system/events/replay/", query)
    assert answer.status_code == 200
    count: int = answer.context["count"].value
    return count


def test_replay_page_lists_failed_events(client: Client, many: None) -> None:
    client.force_login(staff("lab admin"))
    assert chosen(client) == 8
    assert chosen(client, type="provider.device") == 1
    assert chosen(client, since="2026-11-20T12:06:00Z") == 3
    assert chosen(client, reason="Object missing required field `id`") == 1
    assert chosen(client, since="2026-11-21") == 0
    page = client.get("/system/events/replay/").content.decode()
    for words in (
        "Replay 8 events",
        "Device created",
        "Expected `int`, got `str`",
        "Would fail again",
    ):
        assert words in page, words


def test_only_chosen_events_are_replayed(client: Client, many: None) -> None:
    client.force_login(staff("lab admin"))
    context = client.get("/system/events/replay/", {"type": "labtest.order"}).context
    later = failed(11)
    answer = client.post(
        "/system/events/replay/",
        {
            "type": "labtest.order",
            "through": str(context["through"]),
            "shown_at": context["shown_at"],
        },
        follow=True,
    )
    assert "7 events will be replayed" in answer.content.decode()
    pending = set(Event.objects.filter(state="pending").values_list("message_id", flat=True))
    assert pending == {f"msg_{n}" for n in range(1, 8)}
    assert Event.objects.get(pk=later.pk).state == "dead"
    entry = AuditEntry.objects.get(action="change")
    assert (entry.row_count, entry.object_ids) == (7, [])
    assert entry.reason == (
        f"replay of failed events up to number {context['through']}, type labtest.order"
    )


def shown(client: Client, **query: str) -> dict[str, str]:
    """What the form of the page posts."""
    context = client.get("/system/events/replay/", query).context
    return {**query, "through": str(context["through"]), "shown_at": context["shown_at"]}


def pending() -> set[str]:
    return set(Event.objects.filter(state="pending").values_list("message_id", flat=True))


def test_event_failing_after_page_load_is_not_replayed(client: Client) -> None:
    client.force_login(staff("lab admin"))
    retried = event(1, state="retry", outcome="", applied_at=None)
    failed(2)
    form = shown(client)
    # Died after it was shown, though it was received before the others.
    Event.objects.filter(pk=retried.pk).update(state="dead", applied_at=timezone.now())
    failed(3)
    client.post("/system/events/replay/", form)
    assert pending() == {"msg_2"}


def copy_event(copied: Event, count: int) -> None:
    names = [field.attname for field in Event._meta.concrete_fields]
    columns = ", ".join(name for name in names if name not in ("id", "message_id"))
    with connection.cursor() as cursor:
        cursor.execute(
            f"INSERT INTO webhooks_event (message_id, {columns})"
            f" SELECT 'copy_' || n, {columns} FROM webhooks_event, generate_series(1, %s) AS n"
            " WHERE id = %s ORDER BY n",
            [count, copied.pk],
        )


def test_many_events_are_replayed_in_several_requests(client: Client, settings: Settings) -> None:
    settings.EVENT_REPLAY_SECONDS = 0
    client.force_login(staff("lab admin"))
    copy_event(failed(1), 2 * replay.STEP + 1)
    form = shown(client, type="labtest.order")
    answer = client.post("/system/events/replay/", form)
    page = client.get(answer["Location"])
    words = page.content.decode()
    assert "5,000 events will be replayed within seconds. More events are left" in words
    assert pending() == {"msg_1", *(f"copy_{n}" for n in range(1, 5_000))}
    assert str(page.context["count"]) == "500+"
    # One of the first turn fails again: it is none of the next turn's.
    Event.objects.filter(message_id="msg_1").update(state="dead", applied_at=timezone.now())
    again = {name: str(page.context[name]) for name in ("through", "shown_at")}
    assert again["shown_at"] == form["shown_at"]
    settings.EVENT_REPLAY_SECONDS = 10
    answer = client.post("/system/events/replay/", {**again, "type": "labtest.order"}, follow=True)
    assert "5,002 events will be replayed" in answer.content.decode()
    assert Event.objects.get(message_id="msg_1").state == "dead"
    counts = AuditEntry.objects.filter(action="change").order_by("pk")
    assert list(counts.values_list("row_count", flat=True)) == [5_000, 5_000, 2]


def test_replay_count_stops_at_cap(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    client.force_login(staff("lab admin"))
    first = failed(1, body=b"{")
    columns = [field.attname for field in Event._meta.concrete_fields if field.name != "id"]
    rows = [{name: getattr(first, name) for name in columns} for _ in range(1_200)]
    Event.objects.bulk_create(
        Event(**{**row, "message_id": f"more_{n}"}) for n, row in enumerate(rows)
    )
    page = client.get("/system/events/replay/").content.decode()
    assert "Replay 500+ events" in page
    assert "first 500 by type and reason" in page
    answer = client.post("/system/events/replay/", shown(client), follow=True)
    assert "1,201 events will be replayed" in answer.content.decode()


@pytest.mark.parametrize(
    ("state", "outcome", "words"),
    [("skipped", "unknown type", "skipped"), ("quarantined", "foreign team", "quarantined")],
)
def test_skipped_and_quarantined_events_can_be_replayed(
    client: Client, state: str, outcome: str, words: str
) -> None:
    client.force_login(staff("lab admin"))
    rows = [event(n, "teleport.done", state=state, outcome=outcome) for n in (1, 2)]
    failed(3)
    form = shown(client, state=state)
    page = client.get("/system/events/replay/", {"state": state}).content.decode()
    heading = "Replay events of other teams" if state == "quarantined" else "Replay skipped events"
    assert heading in page
    assert "would be set aside again" in page
    answer = client.post("/system/events/replay/", form, follow=True)
    assert "2 events will be replayed" in answer.content.decode()
    assert pending() == {row.message_id for row in rows}
    entry = AuditEntry.objects.get(action="change")
    assert entry.reason.startswith(f"replay of {words} events up to number")
    listing = client.get("/system/events/", {"show": "skipped"}).content.decode()
    assert "/system/events/replay/?state=skipped" in listing


def test_bulk_replay_rejects_other_states(client: Client) -> None:
    client.force_login(staff("lab admin"))
    event(1)
    assert client.get("/system/events/replay/", {"state": "done"}).status_code == 400
    client.post("/system/events/replay/", {"state": "done", "through": "999999999"})
    assert not pending()


def test_values_in_bulk_preview_are_audited(client: Client, order_payload: dict[str, Any]) -> None:
    client.force_login(staff("lab admin"))
    row = failed(1, data=newer(order_payload, sample_id="NEW-SAMPLE"))
    assert "NEW-SAMPLE" in client.get("/system/events/replay/").content.decode()
    entry = AuditEntry.objects.get(object_type="event payload")
    assert (entry.action, entry.object_ids) == ("view", [str(row.pk)])
    assert entry.patient_ids == [uid("patient", 1)]


@pytest.mark.parametrize("data", [{}, {"through": "0"}, {"through": "x"}, {"since": "soon"}])
def test_invalid_form_replays_nothing(client: Client, many: None, data: dict[str, str]) -> None:
    client.force_login(staff("lab admin"))
    answer = client.post("/system/events/replay/", data)
    assert answer.status_code in (302, 400)
    assert not Event.objects.filter(state="pending").exists()
    assert not AuditEntry.objects.filter(action="change").exists()


@pytest.mark.parametrize("role", ["lab coordinator", "clinician", "auditor"])
def test_roles_without_permission_cannot_replay(client: Client, many: None, role: str) -> None:
    client.force_login(staff(role))
    row = Event.objects.filter(state="dead").first()
    assert row is not None
    for address in (f"/system/events/{row.pk}/replay/", "/system/events/replay/"):
        assert client.get(address).status_code == 403
        assert client.post(address, {"through": "99999999"}).status_code == 403
    assert not Event.objects.filter(state="pending").exists()


def test_replay_page_has_fixed_number_of_queries(client: Client) -> None:
    client.force_login(staff("lab admin"))

    def queries() -> int:
        with CaptureQueriesContext(connection) as seen:
            client.get("/system/events/replay/")
        return len(seen)

    for n in range(1, 15):
        patient(n).save()
        demographics(n).save()
        failed(n, body=b"{")
    queries()
    one = queries()
    for n in range(15, 120):
        failed(n, body=b"{", user=n % 5)
    assert queries() == one


def test_every_catalogue_type_can_be_previewed() -> None:
    """Device data, too, whose tables are written by other ways than the mirror's."""
    know_our_team()
    catalogue = Catalogue(5)
    for n, event_type in enumerate(CATALOGUE, 1):
        body = catalogue.message(event_type).body
        envelope = event_envelope.read(body)
        subject, user = event_envelope.subject(envelope)
        failed(n, event_type=event_type, body=body, subject_id=subject, user_id=user)
    before = rows_everywhere()
    trials = replay.preview_all(list(Event.objects.order_by("pk")))
    assert rows_everywhere() == before
    failing = {t.event.event_type: t.preview.reason for t in trials if t.preview.failed}
    assert failing == {}
    order_payload = {t.event.event_type: t.preview for t in trials}
    assert order_payload["daily.data.heartrate.created"].written
    assert any(change.new for change in order_payload["daily.data.sleep.created"].rows)


def rows_everywhere() -> dict[str, int]:
    found = {}
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT tablename FROM pg_tables WHERE schemaname = 'public'"
            " AND tablename ~ '^(orders|patients|wearables|labs|backoffice|webhooks)_'"
        )
        for (table,) in cursor.fetchall():
            cursor.execute(f'SELECT count(*) FROM "{table}"')
            found[table] = cursor.fetchone()[0]
    return found
