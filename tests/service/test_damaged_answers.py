"""Answers that are no UTF-8: damaged on their way, or sent like that."""

from __future__ import annotations

import json

from backoffice.service import Service

from .faulty import Faulty, answer, says
from .test_transport import USERS


def test_an_answer_damaged_on_its_way_is_asked_for_again(service: Service, remote: Faulty) -> None:
    damaged = answer(json.dumps(USERS).encode().replace(b"patient-1", b"pati\xe9nt-1"))
    remote.then(damaged, says(USERS))
    assert service.users.list().records[0].data.client_user_id == "patient-1"
    assert len(remote.requests) == 2


def test_characters_that_are_damaged_twice_are_replaced(service: Service, remote: Faulty) -> None:
    damaged = answer(json.dumps(USERS).encode().replace(b"patient-1", b"pati\xe9nt-1"))
    remote.then(damaged, damaged)
    assert service.users.list().records[0].data.client_user_id == "pati\ufffdnt-1"
    assert len(remote.requests) == 2
