"""Two users sign at once, over HTTP: one succeeds, the other sees who signed and when."""

from __future__ import annotations

import re
import threading
from typing import Any

import pytest
from django.db import connections
from django.test import Client
from django.urls import reverse

from orders.models import Review, Signature
from tests.api.rows import staff, uid
from tests.reviewing.rows import make_order, receive_result

ROUNDS = 5


@pytest.mark.django_db(transaction=True)
def test_two_signers_at_once_make_one_signature() -> None:
    clients = []
    for name in ("anna", "bruno"):
        client = Client()
        client.force_login(staff("clinician", name))
        clients.append(client)
    for n in range(1, ROUNDS + 1):
        receive_result(make_order(n).pk, ("Sodium", "4.1", "normal"))
        answers: dict[int, Any] = {}
        gate = threading.Barrier(2)

        def sign(who: int, order: int = n, gate: threading.Barrier = gate,
                 answers: dict[int, Any] = answers) -> None:  # fmt: skip
            address = reverse("reviewing:sign", args=[uid("order", order)])
            gate.wait(10)
            try:
                answers[who] = clients[who].post(address, {"version": 1})
            finally:
                connections.close_all()

        threads = [threading.Thread(target=sign, args=(who,)) for who in (0, 1)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
        assert sorted(answer.status_code for answer in answers.values()) == [302, 409]
        (signature,) = Signature.objects.filter(order=uid("order", n))
        [conflict_page] = [
            one.content.decode() for one in answers.values() if one.status_code == 409
        ]
        assert re.search(rf"signed by {signature.by.username} \d+ s ago", conflict_page)
        assert not Review.objects.get(pk=uid("order", n)).in_queue
