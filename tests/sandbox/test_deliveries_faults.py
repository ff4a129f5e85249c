"""Deliveries that go wrong on purpose: copies, disorder, forgeries, silence, unknown words."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from tests.sandbox.receiver import Receiver, receiving, settled, strict
from tests.sandboxes import Sandbox, SandboxFactory


@pytest.fixture(scope="module")
def world(sandbox_factory: SandboxFactory) -> Sandbox:
    return sandbox_factory(users=30, orders=120, seed=19, speed=0)


@pytest.fixture
def receiver(world: Sandbox) -> Iterator[Receiver]:
    """A strict receiver that `world` delivers to, for one test."""
    with receiving(strict) as found:
        world.control("webhooks", {"url": found.url})
        yield found
        world.control("webhooks", {"url": None})
        world.control("delivery-faults", method="DELETE")


def _announce(world: Sandbox, count: int, **more: Any) -> list[str]:
    answer = world.control("announce", {"all": True, "count": count, **more})
    found: list[str] = answer["message_ids"]
    assert len(found) == count
    return found


def test_copies_have_the_same_id_and_body(world: Sandbox, receiver: Receiver) -> None:
    world.control("delivery-faults", {"duplicate_rate": 0.2, "spread_seconds": 1})
    told = _announce(world, 400)
    sent = settled(world)
    counts = Counter(post.id for post in receiver.got)
    assert set(counts) == set(told)
    assert set(counts.values()) == {1, 2}
    doubled = [key for key, count in counts.items() if count == 2]
    assert 50 < len(doubled) < 115
    assert len(doubled) == sent["copies"]
    assert sent["attempts"] == sent["delivered"] == 400
    for key in doubled:
        first, second = (post for post in receiver.got if post.id == key)
        assert first.raw == second.raw
        assert second.is_true
    assert any(
        second.at - first.at > 0.3
        for key in doubled
        for first, second in [[post for post in receiver.got if post.id == key]]
    )


def test_disorder_delays_some(world: Sandbox, receiver: Receiver) -> None:
    world.control("delivery-faults", {"disorder_rate": 0.2, "spread_seconds": 6})
    told = _announce(world, 400)
    sent = settled(world)
    order = {post.id: place for place, post in enumerate(receiver.got)}
    assert len(order) == sent["attempts"] == 400
    late = [place for place, key in enumerate(told) if order[key] > place + 60]
    assert 30 < len(late) < 120


def test_forgeries_and_stale_posts_come_besides_the_true_ones(
    world: Sandbox, receiver: Receiver
) -> None:
    world.control("delivery-faults", {"bad_signature_rate": 0.2, "old_timestamp_rate": 0.1})
    told = _announce(world, 400)
    sent = settled(world)
    false = [post for post in receiver.got if not post.is_true]
    forged = [post for post in false if not post.signed_with()]
    stale = [post for post in false if post.signed_with()]
    assert len(forged) == sent["forged"]
    assert len(stale) == sent["stale"]
    assert 50 < len(forged) < 115
    assert 20 < len(stale) < 65
    assert all(abs(post.off_by) > 300 for post in stale)
    assert sent["swallowed"] == 0
    # Forgeries of every kind, and nothing true is missing or doubled by them.
    assert any("webhook-signature" not in post.headers for post in forged)
    assert any(b'"forged":true' in post.raw for post in forged)
    assert any("v9," in post.headers.get("webhook-signature", "") for post in forged)
    assert Counter(post.id for post in receiver.got if post.is_true) == Counter(told)


def test_a_receiver_that_swallows_forgeries_is_found_out(
    world: Sandbox, receiver: Receiver
) -> None:
    receiver.answer = lambda post: (200, {})
    world.control("delivery-faults", {"bad_signature_rate": 1, "old_timestamp_rate": 1})
    _announce(world, 20)
    assert settled(world)["swallowed"] == 40


def test_unknown_types_and_values_are_truly_signed(world: Sandbox, receiver: Receiver) -> None:
    world.control("delivery-faults", {"unknown_type_rate": 0.1, "unknown_value_rate": 0.2})
    told = _announce(world, 400)
    sent = settled(world)
    assert all(post.is_true for post in receiver.got)
    besides = [post for post in receiver.got if post.id not in set(told)]
    assert all(post.body["event_type"].startswith("labtest.unheard_of.") for post in besides)
    assert 15 < len(besides) < 70
    altered = [post for post in receiver.got if post.id in set(told) and b"unheard_of_" in post.raw]
    assert len(altered) == sent["altered"]
    assert 40 < len(altered) < 120
    assert sent["delivered"] == len(receiver.got) == 400 + len(besides)
    # What is on record is what was sent.
    bodies = dict(world.query("SELECT message_id, body FROM sandbox_message"))
    assert {post.id: post.raw.decode() for post in receiver.got} == bodies


def test_silence_holds_everything_back_until_it_ends(world: Sandbox, receiver: Receiver) -> None:
    world.control("delivery-faults", {"silence": True})
    time.sleep(0.5)  # the turn under way ends
    told = _announce(world, 30)
    time.sleep(1.5)
    assert receiver.got == []
    assert world.control("delivery-faults")["sent"]["pending"] == 30
    world.control("delivery-faults", method="DELETE")
    assert {post.id for post in receiver.wait(30)} == set(told)


def test_the_same_faults_hit_the_same_messages(sandbox_factory: SandboxFactory) -> None:
    wanted = {
        "duplicate_rate": 0.2,
        "bad_signature_rate": 0.2,
        "unknown_value_rate": 0.2,
        "unknown_type_rate": 0.0,
        "spread_seconds": 0.1,
        "seed": 3,
    }

    def run() -> list[tuple[Any, ...]]:
        fresh = sandbox_factory(
            users=20, orders=60, seed=8, speed=0, epoch="2026-02-01T00:00:00+00:00"
        )
        with receiving(strict) as receiver:
            fresh.control("webhooks", {"url": receiver.url})
            fresh.control("delivery-faults", wanted)
            _announce(fresh, 150)
            settled(fresh)
        return fresh.query(
            "SELECT number, event_type, copies, forged, altered FROM sandbox_message ORDER BY 1"
        )

    assert run() == run()


@pytest.mark.parametrize(
    "body",
    [
        {"duplicate_rate": 1.1},
        {"disorder_rate": "half"},
        {"spread_seconds": -1},
        {"retry_speed": 0},
        {"silence": 1},
        {"no_such_fault": 1},
    ],
)
def test_nonsense_is_refused_and_changes_nothing(world: Sandbox, body: dict[str, Any]) -> None:
    before = world.control("delivery-faults")["faults"]
    with pytest.raises(OSError, match="400"):
        world.control("delivery-faults", body)
    assert world.control("delivery-faults")["faults"] == before


def test_thousands_are_delivered_quickly(world: Sandbox, receiver: Receiver) -> None:
    receiver.answer = lambda post: (200, {})
    world.control("delivery-faults", {"silence": True})
    time.sleep(0.5)
    told = _announce(world, 5000)
    world.control("delivery-faults", method="DELETE")
    # Some 1,400 a second on two free cores, receiver included.
    receiver.wait(5000, 180)
    assert {post.id for post in receiver.got} == set(told)
