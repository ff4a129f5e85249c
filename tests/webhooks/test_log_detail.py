"""One event: what it shows to whom, what it said anew, what is put on record."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from backoffice.audit.models import AuditEntry
from tests.api.rows import NOW, demographics, order, patient, staff, uid
from tests.webhooks.events import event, event_body, failed
from webhooks import payloads
from webhooks.models import Event

pytestmark = pytest.mark.django_db

DATA: dict[str, Any] = {
    "id": str(uid("order", 1)),
    "sample_id": "Canary-sample",
    "notes": None,
    "priority": True,
    "events": [{"id": n, "created_at": f"2026-11-20T11:5{n}:00Z"} for n in range(5)],
}


def get(client: Client, row: Event) -> str:
    answer = client.get(f"/system/events/{row.pk}/")
    assert answer.status_code == 200
    return answer.content.decode()


def test_it_works(client: Client) -> None:
    client.force_login(staff("lab admin"))
    patient(1).save()
    demographics(1).save()
    order(1, as_of=NOW + timedelta(minutes=2)).save()
    event(1, data={**DATA, "sample_id": "Canary-before", "events": DATA["events"][:4]})
    row = event(2, data=DATA, deliveries=3, key_id="k1")
    page = get(client, row)
    for words in (
        "Order updated",
        "Our copy was updated.",
        "shows data from this event",
        "Compared with the previous event",
        "Canary-before",
        "Canary-sample",
        "4 entries",
        "8 min after the change",
        "2.0 s after receipt",
        "labtest.order.updated",
        "Ada1 Testperson",
        "<code>k1</code>",
        f"/system/events/{row.pk}/replay/",
        f"/orders/{uid('order', 1)}/why/",
    ):
        assert words in page, words


def test_user_without_record_permission_sees_structure(client: Client) -> None:
    client.force_login(staff("lab coordinator"))
    event(1, data={**DATA, "sample_id": "Canary-before"})
    page = get(client, event(2, data=DATA))
    assert "Canary" not in page
    for words in ("sample_id", "•••", "and 3 more", "Your role can see the structure", "lab admin"):
        assert words in page, words


def test_masked_body_keeps_names_and_hides_values() -> None:
    body = {"a": "x", "b": [1, 2, 3, 4], "c": {"d": False, "e": None}, "event_type": "t"}
    assert payloads.mask(body) == {
        "a": "•••",
        "b": ["•••", "•••", "and 2 more"],
        "c": {"d": "•••", "e": None},
        "event_type": "•••",
    }
    row = Event(body=json.dumps(body).encode())
    assert json.loads(payloads.display_body(row, values=False)[0])["event_type"] == "t"


@pytest.mark.parametrize("role", ["lab admin", "lab coordinator"])
def test_view_of_payload_is_audited(client: Client, role: str) -> None:
    client.force_login(staff(role))
    row = event(1)
    get(client, row)
    entry = AuditEntry.objects.get()
    seen = "event payload" if role == "lab admin" else "event"
    assert (entry.action, entry.object_type) == ("view", seen)
    assert (entry.object_ids, entry.patient_ids) == ([str(row.pk)], [uid("patient", 1)])


@pytest.mark.parametrize(
    "body",
    [b"", b"{\xff\xfe", b"[" * 5000, b'"text"', b"[1]", b'{"data": 7}', b"9" * 5000, b"null"],
)
@pytest.mark.parametrize("role", ["lab admin", "lab coordinator"])
def test_detail_page_shows_any_body(client: Client, role: str, body: bytes) -> None:
    client.force_login(staff(role))
    event(1, data={"id": "x"})
    get(client, failed(2, body=body, data={"id": "x"}))


POISON: dict[str, bytes] = {
    "no UTF-8": b'{"data":{"updated_at":"\xff"}}',
    "no UTF-8 in a step": b'{"data":{"events":[{"created_at":"\xff"}]}}',
    "no UTF-8 in a name": b'{"data":{"\xff":1}}',
    "before time in UTC": b'{"data":{"updated_at":"0001-01-01T00:00:00+14:00"}}',
    "before time for some": b'{"data":{"updated_at":"0001-01-01T00:00:00Z"}}',
    "after time in UTC": b'{"data":{"updated_at":"9999-12-31T23:59:59-14:00"}}',
    "after time for some": b'{"data":{"updated_at":"9999-12-31T23:59:59Z"}}',
    "half a pair": b'{"data":{"id":"x","notes":"\\ud800"}}',
    "half a pair in a name": b'{"data":{"id":"x","\\ud800":"x"}}',
    "half a pair as a moment": b'{"data":{"updated_at":"\\ud800"}}',
    "NaN": b'{"data":{"id":NaN,"notes":Infinity,"tags":[1e400]}}',
    "NUL": b'{"data":{"id":"\\u0000","\\u0000":1}}',
    "a large number": b'{"data":{"id":1' + b"0" * 30 + b"}}",
    "a number of 5,000 digits": b'{"data":{"id":' + b"9" * 5000 + b"}}",
    "100,000 brackets": b'{"data":{"id":' + b"[" * 100_000 + b"]" * 100_000 + b"}}",
    "900 brackets": b'{"data":{"id":' + b"[" * 900 + b"]" * 900 + b"}}",
    "a long status": json.dumps({"data": {"status": "s" * 65}}).encode(),
    "names twice": b'{"data":{"id":1,"id":2},"data":{"id":3}}',
    "UTF-16": '{"data":{"updated_at":"2026-11-20T10:00:00Z"}}'.encode("utf-16"),
    "without a zone": b'{"data":{"updated_at":"2022-01-01T00:00:00"}}',
    "31 June": b'{"data":{"updated_at":"2024-06-31T00:00:00Z"}}',
    "a line's end": b'{"data":{"id":"x\\n","notes":"a\\t\\u00a0"}}',
}
"""What has broken readers of such bodies before."""


@pytest.mark.parametrize("poison", POISON)
@pytest.mark.parametrize("role", ["lab admin", "lab coordinator"])
@pytest.mark.parametrize("zone", ["Pacific/Kiritimati", "Pacific/Midway"])
def test_pages_show_events_with_invalid_values(
    client: Client, settings: Any, poison: str, role: str, zone: str
) -> None:
    settings.TIME_ZONE = zone
    client.force_login(staff(role))
    body = POISON[poison]
    event(1, data={"id": "x"}, body=b'{"data":{"id":[],"notes":"y"}}')
    row = failed(2, body=body, data={"id": "x"})
    event(3, data={"id": "x"}, body=body)
    pages = ["/system/events/", "/system/events/?show=failed", f"/system/events/{row.pk}/"]
    pages += [f"/system/events/{Event.objects.get(message_id='msg_3').pk}/"]
    if role == "lab admin":
        pages += [f"/system/events/{row.pk}/replay/", "/system/events/replay/"]
    for page in pages:
        assert client.get(page).status_code == 200, page
    order(1).save()
    Event.objects.update(subject_id=str(uid("order", 1)))
    assert client.get(f"/orders/{uid('order', 1)}/why/").status_code == 200


def test_detail_page_says_that_body_was_deleted(client: Client) -> None:
    client.force_login(staff("lab admin"))
    page = get(client, event(1, body=None))
    assert "The content has been deleted" in page
    assert "Replay" not in page


def test_long_body_is_truncated(client: Client) -> None:
    client.force_login(staff("lab admin"))
    page = get(client, event(1, data={"id": "x", "text": "y" * 150_000}))
    assert "Truncated here" in page
    assert len(page) < 130_000


def test_markup_in_body_is_escaped(client: Client) -> None:
    client.force_login(staff("lab admin"))
    assert "<script>alert" not in get(client, event(1, data={"id": "<script>alert(1)</script>"}))


def test_failed_event_shows_its_reason(client: Client) -> None:
    client.force_login(staff("lab admin"))
    page = get(client, failed(1, body_conflict=True))
    assert "2 attempts so far" in page
    assert "The event stays here until someone replays it." in page
    assert "with different content" in page
    assert "is for another team" in get(client, event(2, state="quarantined"))


@pytest.mark.parametrize(
    ("data", "moment"),
    [
        ({"updated_at": "2026-11-20T10:00:00Z", "created_at": "2026-11-19T10:00:00Z"}, "20T10"),
        ({"created_at": "2026-11-19T10:00:00+00:00"}, "19T10"),
        ({"events": [{"created_at": "2026-11-18T10:00:00Z"}, {"created_at": 7}]}, "18T10"),
        ({"updated_at": 5, "events": "none"}, None),
        ({"updated_at": "2026-11-20T10:00:00"}, None),
        ([1], None),
    ],
)
def test_happened_at_is_read_from_payload(data: object, moment: str | None) -> None:
    found = payloads.happened_at(event_body("labtest.order.updated", data))
    assert (found and found.isoformat()[8:13]) == moment


@pytest.mark.parametrize("number", ["0", "999999999", "9" * 30])
def test_unknown_event_is_not_found(client: Client, number: str) -> None:
    client.force_login(staff("lab admin"))
    assert client.get(f"/system/events/{number}/").status_code == 404


def test_detail_page_has_fixed_number_of_queries(client: Client) -> None:
    client.force_login(staff("lab admin"))
    patient(1).save()
    demographics(1).save()
    order(1).save()
    for n in range(1, 30):
        row = event(n, data=DATA)
    get(client, row)
    with CaptureQueriesContext(connection) as seen:
        get(client, row)
    # Session, user with roles; event, the one before, names, order; the numbers of the frame;
    # audit in its transaction.
    assert len(seen) == 8 + 2, [query["sql"][-90:] for query in seen]
