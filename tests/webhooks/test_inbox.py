"""The whole inbox: every type over HTTP, repeated, out of order, forged, unknown and poisonous,
while workers are killed. What remains must be what SQL makes of the accepted bodies."""

from __future__ import annotations

import os
import random
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.sync.back_office import BackOffice, BackOffices, end
from tests.waiting import wait_until
from tests.webhooks import oracle
from tests.webhooks.catalogue import CATALOGUE, Catalogue
from tests.webhooks.records import OUR_TEAM
from tests.webhooks.sending import Attempt, Sent, attempt, receiving, send
from tests.webhooks.signed import Message, signature

KILLS = 20
ROUNDS = 12
"""How often every type of the catalogue is sent."""
WORKERS = 2
WAITING = "SELECT count(*) FROM webhooks_event WHERE state = 'pending'"


@pytest.fixture(scope="module")
def back_office(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BackOffice]:
    """A back office whose service does not answer: nothing but events can bring it anything."""
    back_offices = BackOffices(os.environ["DATABASE_URL"], tmp_path_factory.mktemp("back_offices"))
    try:
        made = back_offices.build("http://127.0.0.1:9")
        made.query(oracle.ONCE)
        made.query(OUR_TEAM)
        yield made
    finally:
        back_offices.close()


def forged(message: Message, chance: random.Random) -> Attempt:
    """Something nobody signed with our secret."""
    other = "whsec_" + "Zm9yZ2Vk" * 4
    kind = chance.randrange(4)
    given = message.headers()
    if kind == 0:
        given = message.headers(secret=other)
    elif kind == 1:
        given["webhook-id"] += "x"
    elif kind == 2:
        given["webhook-signature"] = signature(other, message.id, "1", b"") + " v1,AAAA"
    else:
        message = Message(message.body.replace(b"made-up", b"made-in"), message.id)
    return attempt(message, **given)


def deliveries(seed: int) -> tuple[list[Attempt], set[str]]:
    """All attempts in the order they are made, and the ids of the genuine messages."""
    chance = random.Random(seed)
    catalogue = Catalogue(seed)
    messages = [catalogue.message(event_type) for event_type in CATALOGUE for _ in range(ROUNDS)]
    messages += [catalogue.message("labtest.order.updated") for _ in range(600)]
    chance.shuffle(messages)
    messages += [catalogue.of_unknown_type() for _ in range(len(messages) // 20)]
    messages += [catalogue.poison() for _ in range(len(messages) // 100)]
    messages += [catalogue.with_odd_field() for _ in range(len(messages) // 100)]
    plan: list[tuple[float, Attempt]] = []
    for place, message in enumerate(messages):
        at = float(place) if chance.random() > 0.2 else place + chance.uniform(-300, 300)
        plan.append((at, attempt(message)))
        if chance.random() < 0.2:
            plan.append((at + chance.choice((0.5, 10, 1_000)), attempt(message)))
        if chance.random() < 0.05:
            fake = catalogue.message(chance.choice(CATALOGUE))
            plan.append((at, forged(Message(fake.body, f"forged_{place}"), chance)))
    chance.shuffle(plan[-60:])
    return [one for _, one in sorted(plan, key=lambda pair: pair[0])], {m.id for m in messages}


def test_full_catalogue_survives_killed_workers(back_office: BackOffice, tmp_path: Path) -> None:
    attempts, genuine = deliveries(seed=3)
    chance = random.Random(5)
    results: list[Sent] = []
    with receiving(back_office) as url:
        sender = threading.Thread(
            target=lambda: results.extend(send(url, attempts, connections=8, rate=150))
        )
        workers = [back_office.start("-m", "tests.webhooks.drainer") for _ in range(WORKERS)]
        try:
            sender.start()
            for kill in range(KILLS):
                time.sleep(chance.uniform(0.5, 1.8))
                end(workers[kill % WORKERS])
                workers[kill % WORKERS] = back_office.start("-m", "tests.webhooks.drainer")
            sender.join(120)
            assert not sender.is_alive()
            wait_until(lambda: not back_office.value(WAITING), 60, "the last event", every=0.2)
        finally:
            for worker in workers:
                end(worker)
    answered = {one.message_id: one.status for one in results if one.status == 204}
    assert {one.status for one in results} <= {204, 400, 401}, "no answer but these"
    assert answered.keys() == genuine, "every genuine message was taken, and no other"
    stored = {row[0] for row in back_office.query("SELECT message_id FROM webhooks_event")}
    assert stored == genuine, "nothing accepted is lost, nothing forged is stored"
    types = {row[0] for row in back_office.query("SELECT DISTINCT event_type FROM webhooks_event")}
    assert types >= set(CATALOGUE)
    repeats = sum(1 for one in results if one.status == 204) - len(genuine)
    counted = back_office.value("SELECT sum(deliveries - 1) FROM webhooks_event")
    assert 0.9 * repeats <= counted <= repeats and repeats > len(genuine) / 7
    assert back_office.query(oracle.TWICE) == [] == back_office.query(oracle.NEVER)
    assert oracle.wrong(back_office) == {}


def test_oracle_detects_wrong_rows(back_office: BackOffice) -> None:
    """A judge that never finds anything is no judge: each check must see its kind of damage."""
    damage = {
        "orders": "UPDATE orders_order SET record = '{}' WHERE id ="
        " (SELECT id FROM orders_order LIMIT 1)",
        "history": "DELETE FROM orders_orderevent WHERE (order_id, event_id) ="
        " (SELECT order_id, event_id FROM orders_orderevent LIMIT 1)",
        "critical results": "DELETE FROM orders_criticalannouncement WHERE order_id ="
        " (SELECT order_id FROM orders_criticalannouncement LIMIT 1)",
        "summaries": "UPDATE wearables_summary SET number = 0 WHERE id ="
        " (SELECT id FROM wearables_summary LIMIT 1)",
        "samples": "DELETE FROM wearables_chunk WHERE (series_id, day) ="
        " (SELECT series_id, day FROM wearables_chunk LIMIT 1)",
        "look-ups": "DELETE FROM sync_lookup WHERE kind = 'connections'",
        "states of events": "UPDATE webhooks_event SET state = 'pending' WHERE id ="
        " (SELECT id FROM webhooks_event WHERE state = 'done' LIMIT 1)",
    }
    assert damage.keys() == oracle.CHECKS.keys()
    for statement in damage.values():
        back_office.query(statement)
    assert oracle.wrong(back_office).keys() == damage.keys()
