"""What is genuine is stored, once, before it is answered; nothing else is."""

from __future__ import annotations

import io
import json
import time
from collections.abc import Callable
from typing import Any

import pytest
from django.db import connections, transaction
from django.db.models import Sum
from django.test import Client
from pytest_django import Settings

from orders.models import Order
from tests.waiting import wait_until
from tests.webhooks.records import order
from tests.webhooks.signed import Message, headers, message
from webhooks import apply_events, endpoint, replay
from webhooks.models import Event, Refusal
from webhooks.receiving import DeliveryResponse, RefusalCounter, receive

pytestmark = pytest.mark.usefixtures("inbox")

NOTICE = message("labtest.order.updated", {"id": "5ad1f000-0000-4000-8000-000000000001"})


def deliver(sent: Message, **how: str) -> DeliveryResponse:
    given = {"content-length": str(len(sent.body)), **sent.headers(), **how}
    return receive(given, io.BytesIO(sent.body).read)


def test_it_works() -> None:
    assert deliver(NOTICE) == DeliveryResponse(204)
    event = Event.objects.get()
    assert event.message_id == NOTICE.id
    assert bytes(event.body or b"") == NOTICE.body
    assert event.state == "pending" and event.event_type == "labtest.order.updated"
    assert event.subject_id == "5ad1f000-0000-4000-8000-000000000001"
    assert event.deliveries == 1 and not event.body_conflict and event.key_id
    assert abs(event.sent_at.timestamp() - time.time()) < 5


def test_repeat_is_accepted_and_only_counted() -> None:
    for _ in range(3):
        assert deliver(NOTICE).status == 204
    assert Event.objects.get().deliveries == 3


def test_repeat_after_hours_is_same_message() -> None:
    deliver(NOTICE)
    Event.objects.update(state="done", sent_at="2020-01-01T00:00Z", received_at="2020-01-01T00:00Z")
    assert deliver(NOTICE).status == 204
    event = Event.objects.get()
    assert event.state == "done" and event.sent_at.year == 2020 and event.received_at.year == 2020
    assert event.last_received_at.year > 2020


def test_repeat_with_other_body_is_flagged() -> None:
    deliver(NOTICE)
    assert deliver(Message(NOTICE.body + b" ", NOTICE.id)).status == 204
    event = Event.objects.get()
    assert bytes(event.body or b"") == NOTICE.body and event.body_conflict
    deliver(NOTICE)
    assert Event.objects.get().body_conflict, "the flag stays"


def test_both_header_prefixes_are_accepted() -> None:
    for prefix in ("webhook", "svix"):
        sent = Message(NOTICE.body)
        assert receive(sent.headers(prefix=prefix), io.BytesIO(sent.body).read).status == 204
    assert Event.objects.count() == 2


@pytest.mark.parametrize(
    ("status", "changed"),
    [
        (401, {"webhook-signature": "v1,AAAA"}),
        (401, {"webhook-signature": ""}),
        (401, {"webhook-signature": "v0,AAAA v2,AAAA"}),
        (401, {"webhook-signature": "v1," + "é" * 8}),
        (401, {"webhook-signature": " ".join(["v1,AAAA"] * 1000)}),
        (401, {"webhook-timestamp": str(int(time.time()) - 100)}),
        (400, {"webhook-timestamp": "١٢"}),
        (400, {"webhook-timestamp": "-5"}),
        (400, {"webhook-timestamp": "1e9"}),
        (400, {"webhook-timestamp": "9" * 20}),
        (400, {"webhook-id": "a.b"}),
        (400, {"webhook-id": "a\x00b"}),
        (400, {"webhook-id": "x" * 10_000}),
        (400, {"webhook-id": ""}),
        (400, {"content-length": "many"}),
        (400, {"content-length": "100000"}),
        (413, {"content-length": str(64 * 1024 * 1024)}),
        (415, {"content-encoding": "gzip"}),
    ],
)
def test_refused_deliveries_store_nothing(status: int, changed: dict[str, str]) -> None:
    answer = deliver(NOTICE, **changed)
    assert answer.status == status and answer.reason
    assert not Event.objects.exists()


def test_missing_header_is_refused() -> None:
    for name in ("webhook-id", "webhook-timestamp", "webhook-signature"):
        sent = NOTICE.headers()
        del sent[name]
        assert receive(sent, io.BytesIO(NOTICE.body).read).status == 401
    assert not Event.objects.exists()


@pytest.mark.parametrize("off", [-301, 310, -3600 * 10])
def test_old_or_early_timestamp_is_refused(off: int) -> None:
    sent = headers(NOTICE.body, NOTICE.id, at=time.time() + off)
    assert receive(sent, io.BytesIO(NOTICE.body).read).status == 401
    assert not Event.objects.exists()


def test_body_over_limit_is_not_read_whole(settings: Settings) -> None:
    settings.WEBHOOK_MAX_BYTES = 1000
    endless = io.BytesIO(b"x" * 1_000_000)
    assert receive(NOTICE.headers(), endless.read).status == 413
    assert endless.tell() <= 1001
    body = b'{"event_type":"t","data":"' + b"x" * 972 + b'"}'
    assert len(body) == 1000
    assert deliver(Message(body)).status == 204


def test_both_secrets_are_accepted_during_rotation(settings: Settings) -> None:
    old, new = "whsec_" + "b2xk" * 8, "whsec_" + "bmV3" * 8
    for secrets, good in (([old], [old]), ([old, new], [old, new]), ([new], [new])):
        settings.WEBHOOK_SECRETS = secrets
        for secret in (old, new):
            sent = Message(NOTICE.body)
            status = receive(sent.headers(secret=secret), io.BytesIO(sent.body).read).status
            assert status == (204 if secret in good else 401)


def test_without_secret_every_delivery_is_503(settings: Settings) -> None:
    settings.WEBHOOK_SECRETS = []
    answer = deliver(NOTICE)
    assert answer.status == 503 and answer.retry_after
    assert not Event.objects.exists()


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"null",
        b"[]",
        b'"x"',
        b"<html></html>",
        b'{"event_type":"t"',
        b'{"event_type":"t","data":NaN}',
        b'{"event_type":"t","data":"\\ud800"}',
        b'{"event_type":"t","data":"\\u0000"}',
        b'{"event_type":"t\\u0000","data":1}',
        b'{"event_type":"t","data":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
        b'{"event_type":"t","data":1' + b"0" * 5000 + b"}",
        b'{"event_type":"t","data":"\xff"}',
        b'{"event_type":[7],"data":{}}',
        '{"event_type":"t","data":1}'.encode("utf-16"),
    ],
)
def test_signed_invalid_body_is_stored_as_dead(body: bytes) -> None:
    assert deliver(Message(body)).status == 204
    event = Event.objects.get()
    assert event.state == "dead" and event.reason and event.outcome == "failed"
    assert bytes(event.body or b"") == body


def test_notice_of_exhausted_message_is_stored() -> None:
    body = b'{"type":"message.attempt.exhausted","data":{"msgId":"msg_1"}}'
    assert deliver(Message(body)).status == 204
    event = Event.objects.get()
    assert (event.state, event.event_type) == ("pending", "message.attempt.exhausted")


@pytest.mark.parametrize(
    "record",
    [
        json.dumps(order(1, 2))[:-1] + ',"sample_id":"other"}',
        json.dumps(order(1, 2, notes="a\x00b")),
        json.dumps(order(1, 2))[:-1] + ',"zz":' + "[" * 70 + "]" * 70 + "}",
        json.dumps(order(1, 2))[:-1] + ',"zz":1' + "0" * 30 + "}",
    ],
)
def test_invalid_body_is_refused_on_replay_too(record: str) -> None:
    body = b'{"event_type":"labtest.order.updated","data":' + record.encode() + b"}"
    assert deliver(Message(body)).status == 204
    event = Event.objects.get()
    reason = event.reason
    assert event.state == "dead" and reason
    assert replay.preview(event).reason == reason
    assert replay.replay(Event.objects.all()) == 1
    assert apply_events.drain() == 1
    event.refresh_from_db()
    assert (event.state, event.reason) == ("dead", reason)
    assert not Order.objects.exists()


@pytest.mark.parametrize(
    "body",
    [
        b'{"type":"message.attempt.exhausted","data":{"id":"a\\u0000b"}}',
        b'{"type":"message.attempt.exhausted","data":{"a":1,"a":2}}',
        b'{"type":"message.attempt.exhausted","x":"\xff","data":{}}',
        b'{"type":"message.attempt.exhausted","data":[' + b"[" * 2_000 + b"]" * 2_001 + b"}",
    ],
)
def test_exhausted_notice_is_validated_like_any_body(body: bytes) -> None:
    assert deliver(Message(body)).status == 204
    event = Event.objects.get()
    assert (event.state, event.outcome) == ("dead", "failed") and event.reason


def test_refusals_are_counted_by_reason() -> None:
    refusals = RefusalCounter(every=0)
    for reason in ("bad signature", "too large", "bad signature"):
        refusals.count(reason)
    counted = dict(Refusal.objects.values_list("reason", "times"))
    assert counted == {"bad signature": 2, "too large": 1}


def test_flood_of_refusals_is_written_rarely() -> None:
    refusals = RefusalCounter(every=5)
    for _ in range(500):
        refusals.count("bad signature")
    assert Refusal.objects.get().times == 1, "the first at once"

    def times() -> int:
        """Those of an hour have a row: there are two where it ends meanwhile."""
        bad = Refusal.objects.filter(reason="bad signature")
        return int(bad.aggregate(times=Sum("times"))["times"])

    wait_until(lambda: times() == 500, 60, "the others", every=0.1)
    refusals.count("bad signature")
    refusals.count("too large")
    large = Refusal.objects.filter(reason="too large")
    wait_until(large.exists, 60, "the next ones", every=0.1)
    assert times() == 501


def test_failed_refusal_count_is_written_later() -> None:
    refusals = RefusalCounter(every=0)
    with connections["hooks"].cursor() as cursor:
        cursor.execute("ALTER TABLE webhooks_refusal RENAME TO webhooks_refusal_away")
        try:
            refusals.count("bad signature")
        finally:
            cursor.execute("ALTER TABLE webhooks_refusal_away RENAME TO webhooks_refusal")
    refusals.count("bad signature")
    assert Refusal.objects.get().times == 2


def test_body_is_not_read_after_invalid_headers() -> None:
    good = NOTICE.headers()
    for name, value in (
        *((name, None) for name in good if name.startswith("webhook-")),
        ("webhook-id", "a.b"),
        ("webhook-timestamp", "now"),
        ("webhook-signature", "\x00"),
    ):
        head = {**good, name: value}
        sent = {name: value for name, value in head.items() if value is not None}
        body = io.BytesIO(NOTICE.body)
        assert receive(sent, body.read).status in (400, 401)
        assert body.tell() == 0


def test_other_body_of_locked_event_is_not_acknowledged() -> None:
    """It could not be flagged now; the sender brings it again."""
    deliver(NOTICE)
    other = Message(NOTICE.body + b" ", NOTICE.id)
    with transaction.atomic():
        Event.objects.select_for_update().get()
        assert deliver(NOTICE).status == 204
        refused = deliver(other)
    assert (refused.status, bool(refused.retry_after)) == (503, True)
    assert not Event.objects.get().body_conflict
    assert deliver(other).status == 204
    assert Event.objects.get().body_conflict


@pytest.mark.parametrize(
    ("https_only", "behind_proxy", "scheme", "forwarded", "status"),
    [
        (False, False, "http", None, 204),
        (True, False, "http", None, 403),
        (True, False, "https", None, 204),
        (True, False, "http", "https", 403),
        (True, True, "http", "https", 204),
        (True, True, "https", "http", 403),
        (True, True, "http", "https, http", 204),
    ],
)
def test_plain_http_is_refused_if_https_only(
    settings: Settings,
    https_only: bool,
    behind_proxy: bool,
    scheme: str,
    forwarded: str | None,
    status: int,
) -> None:
    settings.HTTPS_ONLY = https_only
    settings.SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https") if behind_proxy else None
    environ = {
        "REQUEST_METHOD": "POST",
        "wsgi.url_scheme": scheme,
        "wsgi.input": io.BytesIO(NOTICE.body),
        "CONTENT_LENGTH": str(len(NOTICE.body)),
        **{
            "HTTP_" + name.upper().replace("-", "_"): value
            for name, value in NOTICE.headers().items()
        },
    }
    if forwarded:
        environ["HTTP_X_FORWARDED_PROTO"] = forwarded
    response: list[Any] = []

    def start_response(*arguments: Any) -> Callable[[bytes], object]:
        response.extend(arguments)
        return response.append

    list(endpoint.webhook_application(environ, start_response))
    assert response[0].startswith(str(status))
    assert (endpoint.STRICT_TRANSPORT_SECURITY in response[1]) is https_only
    assert Event.objects.exists() == (status == 204)


@pytest.mark.parametrize("path", ["/webhooks", "/webhooks/"])
def test_endpoint_works_with_and_without_slash(path: str) -> None:
    sent = Message(NOTICE.body)
    answer = Client(enforce_csrf_checks=True).post(
        path, sent.body, content_type="application/json", headers=sent.headers()
    )
    assert answer.status_code == 204 and not answer.content
    assert Event.objects.get().message_id == sent.id


@pytest.mark.parametrize("path", ["/webhooks//", "/webhooks/x", "/Webhooks/"])
def test_other_paths_are_no_endpoint_and_do_not_redirect(path: str) -> None:
    """The sender takes a redirect for a failure, and would not show us why."""
    sent = Message(NOTICE.body)
    answer = Client().post(
        path, sent.body, content_type="application/json", headers=sent.headers(), secure=True
    )
    assert answer.status_code == 404
    assert not Event.objects.exists()


def test_endpoint_accepts_only_post() -> None:
    for method in ("get", "put", "patch", "delete", "options", "head"):
        answer = getattr(Client(), method)("/webhooks/")
        assert answer.status_code == 405 and answer["Allow"] == "POST"
