"""What is sound at a glance is what is sound when it is looked through."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from backoffice.service.events import EventEnvelope, Misread
from tests.webhooks.catalogue import CATALOGUE, Catalogue
from tests.webhooks.records import order
from tests.webhooks.signed import message
from tests.webhooks.test_fuzz import NOTICE, POISON, with_bytes_changed, with_poison
from webhooks import event_envelope

UNSOUND = (
    b'{"event_type":"x","data":{"id":"a","id":"b"}}',
    b'{"event_type":"x","data":{},"event_type":"y"}',
    b'{"event_type":"x","data":{"id":"a\\u0000b"}}',
    b'{"event_type":"x","data":{"a\\u0000b":1}}',
    b'{"event_type":"x","data":{"n":9223372036854775808}}',
    b'{"event_type":"x","data":{"n":[-9223372036854775809]}}',
    b'{"event_type":"x","data":' + b"[" * 64 + b"]" * 64 + b"}",
    b'{"event_type":"x","data":"\xff"}',
)


@pytest.fixture(scope="module")
def catalogue() -> list[bytes]:
    made = Catalogue(5, orders=8)
    return [made.message(event_type).body for event_type in CATALOGUE]


def envelope_or_error(read: Callable[[bytes], EventEnvelope], body: bytes) -> object:
    try:
        return read(body)
    except Misread as error:
        return error.args


def test_catalogue_events_are_canonical(catalogue: list[bytes]) -> None:
    assert all(event_envelope._is_canonical(body) for body in catalogue)
    assert event_envelope._is_canonical(message("labtest.order.updated", order(1, 6)).body)


@pytest.mark.parametrize("body", UNSOUND)
def test_harmful_bodies_are_refused(body: bytes) -> None:
    with pytest.raises(Misread):
        event_envelope.read(body)


def test_fast_and_slow_readers_agree(catalogue: list[bytes]) -> None:
    chance = random.Random(3)
    bodies = [*catalogue, *POISON, *UNSOUND, NOTICE]
    bodies += [with_poison(chance, chance.choice(catalogue)) for _ in range(2_000)]
    bodies += [with_bytes_changed(chance, chance.choice(catalogue)) for _ in range(2_000)]
    fast_results = [envelope_or_error(event_envelope.read, body) for body in bodies]
    assert any(isinstance(one, tuple) for one in fast_results)
    slow_results = [envelope_or_error(event_envelope.read_any_format, body) for body in bodies]
    assert slow_results == fast_results
