"""Refused deliveries show clock skew and floods, on connections that commit."""

from __future__ import annotations

from datetime import timedelta
from io import BytesIO

import pytest
from django.template.loader import render_to_string
from django.test import Client
from django.utils import timezone

from tests.webhooks.signed import message
from webhooks import receiving, silence
from webhooks.models import Refusal
from webhooks.receiving import RefusalCounter


def refuse(reason: str, times: int, seconds_off: float | None = None) -> None:
    refusals = RefusalCounter(every=0)
    for _ in range(times):
        refusals.count(reason, seconds_off)


@pytest.mark.parametrize(("seconds_off", "words"), [(-600, "ahead of"), (480, "behind")])
def test_stale_refusals_show_clock_skew(
    inbox: None, client: Client, seconds_off: int, words: str
) -> None:
    """Through the door: genuine deliveries, signed by another clock than ours."""
    now = timezone.now()
    delivery = message("labtest.match_review.created", {"id": "x"})
    heads = delivery.headers(at=now.timestamp() + seconds_off)
    for _ in range(3):
        assert receiving.receive(heads, BytesIO(delivery.body).read).status == 401
    receiving._refusal_counter.write()
    found = silence.read(now)
    assert found.clocks_differ
    assert round(found.skew.total_seconds(), -1) == -seconds_off
    assert client.get("/health/inbox").json() == {"status": "attention", "inbox": ["clock"]}
    html = render_to_string("webhooks/_silence.html", {"health": found})
    assert f"min {words}" in " ".join(html.split())
    assert "refused because of this in the last hour" in html
    Refusal.objects.update(last_at=now - timedelta(minutes=61))
    assert not silence.read(now).clocks_differ


@pytest.mark.parametrize("reason", ["bad signature", "unsigned", "misshapen signature"])
def test_flood_of_bad_signatures_is_shown(inbox: None, client: Client, reason: str) -> None:
    refuse(reason, receiving.FLOOD_PER_MINUTE)
    assert client.get("/health/inbox").json()["inbox"] == []
    Refusal.objects.update(minute=timezone.now() - timedelta(minutes=2))
    refuse(reason, 1)  # Of another minute.
    assert client.get("/health/inbox").json()["inbox"] == []
    minute = None
    while minute != Refusal.objects.get().minute:  # Again if a minute ended in between.
        refuse(reason, 1)
        minute = Refusal.objects.get().minute
        Refusal.objects.update(in_minute=receiving.FLOOD_PER_MINUTE)
        refuse(reason, 1)
    assert client.get("/health/inbox").json()["inbox"] == ["bad signatures"]
    Refusal.objects.update(flood_at=timezone.now() - timedelta(minutes=16))
    assert client.get("/health/inbox").json()["inbox"] == []


def test_large_bodies_are_no_flood_of_bad_signatures(inbox: None, client: Client) -> None:
    refuse("too large", receiving.FLOOD_PER_MINUTE + 5)
    assert client.get("/health/inbox").json()["inbox"] == []
