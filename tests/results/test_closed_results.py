"""Closed results get the reading of a new release without notifications and stay signed."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest
from django.db import transaction

from backoffice.core import service_client
from backoffice.mirror.applying import apply_batch
from backoffice.mirror.tables import MirrorRecord
from backoffice.team.models import Notification
from orders.models import Order, Result, ResultMarker, ResultVersion, Review
from orders.results import open_criticals, rereading
from orders.sync.result_versions import store_versions
from orders.sync.results import RESULTS
from tests.results.test_over_the_wire import glucose_body, readings, send_result, sign, signed_in
from tests.sandboxes import Sandbox

pytestmark = pytest.mark.django_db(transaction=True)

OLD = b"\1"
LOCAL = "2026-11-13T23:30:00"


def stored_before(world: Sandbox, key: UUID, body: dict[str, Any]) -> None:
    """An earlier release stored this result: normal, its time shifted."""
    world.prepare_answer(f"^/v3/order/{key}/result$", body=body, times=1)
    record = MirrorRecord.from_service(service_client.service().orders.result(str(key)), key)
    with transaction.atomic():
        apply_batch(RESULTS, [record])
        row = Result.objects.filter(pk=key)
        row.update(interpretation="normal", content_hash=bytes(row.get().content_hash)[:15] + OLD)
        ResultMarker.objects.filter(result_id=key).update(
            interpretation="normal",
            side="",
            timestamp=datetime(2026, 11, 13, 23, 30, tzinfo=UTC),
            timestamp_written=None,
        )
        store_versions([key])


def out_of_range(**changes: Any) -> dict[str, Any]:
    return glucose_body(value=410, result="410", timestamp=LOCAL, **changes)


def kinds(key: UUID) -> list[str]:
    versions = ResultVersion.objects.filter(order_id=key).order_by("number")
    return list(versions.values_list("kind", flat=True))


def test_signed_result_of_an_earlier_release_is_read_again(world: Sandbox, key: UUID) -> None:
    stored_before(world, key, out_of_range())
    assert sign(signed_in("clinician"), key) == 302
    assert rereading.reread_open_results() == 0
    assert rereading.reread_closed_results() == 1
    assert rereading.reread_closed_results() == 0
    assert readings(key) == [("abnormal", "high")]
    line = ResultMarker.objects.get(result_id=key)
    assert (line.timestamp, line.timestamp_written) == (None, LOCAL)
    assert Order.objects.get(pk=key).interpretation == "abnormal"
    assert kinds(key) == ["final"] and not Review.objects.get(pk=key).in_queue
    assert not Notification.objects.exists()


def test_reread_closed_result_of_another_person_is_marked(world: Sandbox, key: UUID) -> None:
    body = out_of_range()
    body["metadata"]["dob"] = "1901-02-03"
    stored_before(world, key, body)
    assert sign(signed_in("clinician"), key, is_identity_confirmed="on") == 302
    rereading.reread_closed_results()
    review = Review.objects.get(pk=key)
    assert review.names_somebody_else and not review.in_queue
    send_result(world, key, body)
    assert kinds(key) == ["final"], "the person was confirmed with the signature"


def test_reread_closed_result_stays_signed_if_received_again(world: Sandbox, key: UUID) -> None:
    body = out_of_range(interpretation="critical_high")
    stored_before(world, key, body)
    assert sign(signed_in("clinician"), key) == 302
    rereading.reread_closed_results()
    assert readings(key) == [("critical", "high")]
    send_result(world, key, body)
    assert kinds(key) == ["final"] and not open_criticals().exists()
    body["metadata"]["date_reported"] = "2026-11-20T08:00:00+00:00"
    send_result(world, key, body)
    assert Result.objects.get(pk=key).date_reported == "2026-11-20T08:00:00+00:00"
    assert kinds(key) == ["final"], "a moment of the lab says nothing new"
    send_result(world, key, out_of_range(notes="Measured twice", interpretation="critical_high"))
    assert kinds(key) == ["final", "corrected"], "the lab did change it"


def test_signed_result_stays_signed_if_a_sync_rereads_it(world: Sandbox, key: UUID) -> None:
    stored_before(world, key, out_of_range())
    assert sign(signed_in("clinician"), key) == 302
    send_result(world, key, out_of_range())
    assert readings(key) == [("abnormal", "high")]
    assert kinds(key) == ["final"] and not Review.objects.get(pk=key).in_queue


def test_open_result_reread_by_a_sync_keeps_its_kind(world: Sandbox, key: UUID) -> None:
    body = out_of_range(interpretation="critical_high")
    stored_before(world, key, body)
    send_result(world, key, body)
    assert kinds(key) == ["final", "final"]
    assert [review.pk for review in open_criticals()] == [key]


def test_closed_result_that_cannot_be_reread_is_unchanged(world: Sandbox, key: UUID) -> None:
    stored_before(world, key, out_of_range())
    assert sign(signed_in("clinician"), key) == 302
    Result.objects.filter(pk=key).update(record="[]")
    assert rereading.reread_closed_results() == 1
    assert rereading.reread_closed_results() == 0
    assert readings(key) == [("normal", "")]
