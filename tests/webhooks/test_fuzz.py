"""Hostile deliveries: mutated bodies and heads, and every value known to break naive code.

Whatever comes in: an answer of the few that exist, no exception, nothing stored that was not
signed. What is stored is drained: it ends in a state that is visible, and its neighbors are
applied.
"""

from __future__ import annotations

import io
import json
import os
import random
import string
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.apps import apps
from django.db.models.functions import Now
from django.test import Client
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from backoffice.accounts.models import User
from orders.models import Order
from tests.api.rows import staff
from tests.sync.back_office import BackOffice, BackOffices
from tests.webhooks.catalogue import CATALOGUE, Catalogue
from tests.webhooks.records import USER, at, order, order_id
from tests.webhooks.rows import put
from tests.webhooks.sending import Attempt, attempt, receiving, send
from tests.webhooks.signed import Message
from webhooks import apply_events
from webhooks.event_envelope import ATTEMPT_EXHAUSTED
from webhooks.models import Event
from webhooks.receiving import receive

MUTATED = int(os.environ.get("FUZZ_MUTATIONS", "2000"))
ANSWERS = {204, 400, 401, 413, 415}
CLOSED_STATES = {"done", "skipped", "quarantined", "retry", "dead"}

POISON: tuple[bytes, ...] = (
    b"NaN", b"Infinity", b"-Infinity", b"1e400", b"-1e400", b'"\\u0000"', b'"\\ud800"',
    b'"\\udfff\\ud800"', b"1" + b"0" * 30, b"1" * 5_000, b"[" * 100_000 + b"]" * 100_000,
    b'{"a":' * 3_000 + b"1" + b"}" * 3_000, b'"' + b"s" * 65 + b'"', b'"' + b"s" * 300_000 + b'"',
    b'"\xff\xfe"', b'"2022-01-01T00:00:00"', b'"2024-06-31"', b'"2024-06-31T00:00:00Z"',
    b'"0000-00-00"', b'"99999-01-01T00:00:00Z"', b'"0001-01-01T00:00:00+14:00"',
    '"Made Up\u00a0\t\n"'.encode(), '"\u202eMade"'.encode(), b'"{{7*7}}"', b'"${jndi:x}"',
    b'"<script>alert(1)</script>"', b"\"'; DROP TABLE orders_order; --\"", b'"%s %(x)s {0}"',
    b"null", b"true", b"[]", b"{}", b'""', b"0", b"-1", b"9223372036854775808", b'"\\u202e"',
    b'{"id":1,"id":2}', b"01", b"+1", b".5", b"1.", b'"\x00"', b'"\n"', b"\xef\xbb\xbf{}",
)  # fmt: skip
"""JSON values, and what only looks like one."""


NOTICE = json.dumps(
    {
        "type": ATTEMPT_EXHAUSTED,
        "data": {"id": "x", "msgId": "msg_1", "user_id": USER, "lastAttempt": {"at": at(0)}},
    }
).encode()
"""Of a message given up: the one type without the envelope."""


@pytest.fixture(scope="module")
def catalogue() -> Catalogue:
    return Catalogue(11, orders=8)


def with_poison(chance: random.Random, body: bytes) -> bytes:
    """The body with one of its values replaced by poison."""
    whole = json.loads(body)
    spots: list[tuple[Any, Any]] = []

    def walk(value: Any) -> None:
        items: Any = ()
        if isinstance(value, dict):
            items = value.items()
        elif isinstance(value, list):
            items = enumerate(value)
        for key, below in items:
            spots.append((value, key))
            walk(below)

    walk(whole)
    holder, key = chance.choice(spots)
    holder[key] = "@here@"
    apart = chance.choice([(",", ":"), (", ", ": ")])
    return json.dumps(whole, separators=apart).encode().replace(b'"@here@"', chance.choice(POISON))


def with_bytes_changed(chance: random.Random, body: bytes) -> bytes:
    changed = bytearray(body)
    for _ in range(chance.choice((1, 1, 2, 8, 64))):
        at = chance.randrange(len(changed) + 1)
        kind = chance.randrange(4)
        if kind == 0:
            changed[at : at + 1] = bytes([chance.randrange(256)])
        elif kind == 1:
            del changed[at : at + chance.randrange(1, 40)]
        elif kind == 2:
            changed[at:at] = chance.choice(POISON[:8])
        else:
            begin = chance.randrange(len(changed) + 1)
            changed[at:at] = changed[begin : begin + 30]
    return bytes(changed) or b" "


def with_head_changed(chance: random.Random, given: dict[str, str]) -> dict[str, str]:
    changed = dict(given)
    name = chance.choice(list(changed))
    value = changed[name]
    letters = string.printable + "é\x00\u0661\udcff"
    change: Callable[[], str] = chance.choice(
        [
            lambda: "",
            lambda: value * chance.choice((2, 500)),
            lambda: value[: chance.randrange(len(value) + 1)],
            lambda: "".join(chance.choices(letters, k=chance.randrange(1, 60))),
            lambda: f" {value}",
            lambda: value.swapcase(),
            lambda: value.replace("v1", "v0"),
        ]
    )
    changed[name] = change()
    if chance.random() < 0.1:
        del changed[name]
    return changed


def deliver(body: bytes, headers: dict[str, str]) -> int:
    return receive(headers, io.BytesIO(body).read).status


def settle() -> None:
    """Drain until nothing will be tried again; every event ends where a person can see it, and
    what was stored can be read."""
    for _ in range(3):
        apply_events.drain()
        Event.objects.filter(state="retry").update(due_at=Now())
    # An error of a kind we did not expect would be tried again for hours.
    unexpected = Event.objects.filter(state="retry").values_list("event_type", "reason", "path")
    assert not list(unexpected.distinct())
    assert set(Event.objects.values_list("state", flat=True).distinct()) <= CLOSED_STATES
    assert not Event.objects.filter(state="dead", reason="").exists()
    read_back()


def read_back() -> None:
    """Every row there is, and the pages and the API that show them, for one who may see all."""
    for model in (model for model in apps.get_models() if model._meta.managed):
        for _ in model._default_manager.iterator():
            pass
    user = User.objects.filter(username="lab-admin").first() or staff("lab admin")
    client = Client()
    client.force_login(user)
    chance = random.Random(4)
    by_end = Event.objects.order_by("state", "reason", "-id").distinct("state", "reason")
    numbers = list(by_end.values_list("pk", flat=True))
    numbers += chance.sample(list(Event.objects.values_list("pk", flat=True)), 40)
    addresses = ["/system/events/", "/api/events/?limit=1000", "/system/events/replay/"]
    addresses += ["/orders/", "/api/orders/?limit=1000"]
    for number in numbers:
        addresses += [f"/system/events/{number}/", f"/system/events/{number}/replay/"]
    orders = list(Order.objects.values_list("pk", flat=True))
    for key in chance.sample(orders, min(len(orders), 40)):
        addresses += [f"/orders/{key}/", f"/orders/{key}/why/", f"/api/orders/{key}/"]
    assert orders
    answers = {address: client.get(address).status_code for address in addresses}
    assert {a: status for a, status in answers.items() if status != 200} == {}


@pytest.mark.usefixtures("inbox")
def test_mutations_never_break_the_drain(catalogue: Catalogue) -> None:
    """Bodies mutated before signing are stored and drained; anything changed after is refused."""
    chance = random.Random(1)
    bodies = [catalogue.message(event_type).body for event_type in CATALOGUE]
    bodies += [NOTICE] * 10
    genuine: set[str] = set()
    answers: dict[int, int] = {}
    for turn in range(MUTATED):
        body = chance.choice(bodies)
        kind = turn % 4
        if kind == 0:
            body = with_poison(chance, body)
        elif kind == 1:
            body = with_bytes_changed(chance, body)
        message = Message(body, f"msg_fuzz_{turn}")
        given = message.headers()
        if kind == 2:
            given = with_head_changed(chance, given)
            unchanged = all(
                given.get(f"webhook-{part}") == message.headers()[f"webhook-{part}"]
                for part in ("id", "timestamp", "signature")
            )
        elif kind == 3:
            body = with_bytes_changed(chance, body)
            unchanged = body == message.body
        else:
            unchanged = True
        status = deliver(body, given)
        answers[status] = answers.get(status, 0) + 1
        assert status in ANSWERS
        if status == 204:
            assert unchanged or kind == 2, "stored although it was changed"
            genuine.add(given["webhook-id"].lower())
        else:
            assert not unchanged, "genuine, and refused"
    assert answers[204] >= MUTATED // 2 and answers[401] + answers[400] >= MUTATED // 4
    stored = {one.lower() for one in Event.objects.values_list("message_id", flat=True)}
    assert stored == genuine
    settle()
    states = set(Event.objects.values_list("state", flat=True))
    assert {"done", "dead", "skipped"} <= states


@pytest.mark.usefixtures("inbox")
def test_every_bad_value_in_every_order_field() -> None:
    """Each alone is dead or done; the good orders around it are there."""
    fields = list(order(1, 2))
    number = 0
    for field in fields:
        for value in POISON:
            record = json.dumps({**order(1_000 + number, 2), field: "@here@"}).encode()
            body = b'{"event_type":"labtest.order.updated","data":' + record + b"}"
            body = body.replace(b'"@here@"', value)
            assert deliver(body, Message(body, f"msg_{number}").headers()) == 204
            number += 1
    for value in (*POISON, b'"9999-12-31T23:59:59-14:00"'):
        good_one = order(1_000 + number, 2)
        step = {**good_one["events"][0], "created_at": "@here@"}
        for changed in ({"events": [step, good_one["events"][1]]}, {"last_event": step}):
            record_told = {**order(1_000 + number, 2), **changed}
            whole = json.dumps({"event_type": "labtest.order.updated", "data": record_told})
            body = whole.encode().replace(b'"@here@"', value)
            assert deliver(body, Message(body, f"msg_{number}").headers()) == 204
            number += 1
    for good in range(50):
        put("labtest.order.created", order(good, 3))
    settle()
    assert Order.objects.filter(pk__in=[order_id(good) for good in range(50)]).count() == 50
    reasons = " ".join(Event.objects.values_list("reason", flat=True).distinct())
    for word in ("alert", "DROP", "jndi", "Made", "7*7"):
        assert word not in reasons


@pytest.mark.usefixtures("inbox")
@given(
    raw=st.one_of(
        st.binary(max_size=300),
        st.recursive(
            st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=20),
            lambda inner: (
                st.lists(inner, max_size=4)
                | st.dictionaries(
                    st.sampled_from(
                        ["event_type", "data", "id", "user_id", "team_id", "events", "x"]
                    )
                    | st.text(max_size=5),
                    inner,
                    max_size=5,
                )
            ),
            max_leaves=20,
        ).map(lambda value: json.dumps(value).encode()),
    ),
    event_type=st.sampled_from((*CATALOGUE, ATTEMPT_EXHAUSTED)),
    wrapped=st.booleans(),
)
@settings(
    max_examples=500,
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
def test_any_bytes_are_received_and_closed(raw: bytes, event_type: str, wrapped: bool) -> None:
    name = b"type" if event_type == ATTEMPT_EXHAUSTED else b"event_type"
    whole = b'{"%b":"%b","data":%b}' % (name, event_type.encode(), raw)
    body = whole if wrapped else raw
    assert deliver(body, Message(body).headers()) == 204
    assert apply_events.drain() <= 1
    event = Event.objects.latest("id")
    assert event.state in CLOSED_STATES and (event.outcome or event.reason)


@pytest.fixture
def back_office(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BackOffice]:
    back_offices = BackOffices(os.environ["DATABASE_URL"], tmp_path_factory.mktemp("back_offices"))
    try:
        yield back_offices.build("http://127.0.0.1:9")
    finally:
        back_offices.close()


def test_mutations_over_http_are_answered(back_office: BackOffice, catalogue: Catalogue) -> None:
    """The same through the real server: heads that lie included."""
    chance = random.Random(2)
    attempts = []
    genuine = set()
    for turn in range(1_000):
        message = catalogue.message(chance.choice(CATALOGUE))
        message = Message(message.body, f"msg_wire_{turn}")
        kind = turn % 4
        if kind == 0:
            message = Message(with_poison(chance, message.body), message.id)
        if kind == 1:
            letters = with_head_changed(chance, message.headers())
            head = {n: v.encode("ascii", "ignore").decode() for n, v in letters.items()}
            head = {n: "".join(c for c in v if c.isprintable()) for n, v in head.items()}
            attempts.append(attempt(message, **{**dict.fromkeys(message.headers(), "x"), **head}))
            continue
        if kind == 2:
            other = with_bytes_changed(chance, message.body)
            given = message.headers()
            attempts.append(attempt(Message(other, message.id), **given))
            if other == message.body:
                genuine.add(message.id)
            continue
        genuine.add(message.id)
        attempts.append(attempt(message))
    raw = b"POST /webhooks/ HTTP/1.1\r\nhost: x\r\ncontent-length: %s\r\n\r\n"
    attempts += [Attempt("raw", raw % value) for value in (b"-1", b"1e3", b"x", b"99999999999")]
    with receiving(back_office) as url:
        results = send(url, attempts, connections=8)
        again = send(url, [attempt(catalogue.message(CATALOGUE[0]))], connections=1)
    assert {one.status for one in results} <= ANSWERS | {0}
    assert all(one.status for one in results if one.message_id in genuine)
    assert again[0].status == 204, "the server is as before"
    stored = {row[0] for row in back_office.query("SELECT message_id FROM webhooks_event")}
    assert genuine <= stored
    head_changed = {f"msg_wire_{turn}" for turn in range(1, 1_000, 4)}
    assert stored - genuine - {again[0].message_id} <= head_changed
    assert "Traceback" not in back_office.said() and "frames" not in back_office.said()
