"""Partly or completely unreadable results, from the service to the pages that show them."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import httpx
import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone
from pytest_django import Settings

import patients.sync
from backoffice.accounts.models import User
from backoffice.mirror.models import UnreadRecord
from backoffice.operations import status
from backoffice.sync.lookups import run_due_lookups, schedule_lookups
from backoffice.sync.models import Lookup
from backoffice.sync.runs import request_run, sync_when_due
from orders.models import Order, Result, ResultMarker, Review
from orders.results import unreadable_versions
from orders.sync import CHANGED_ORDERS, LOOKUP_TYPES
from tests.api.rows import staff
from tests.sandbox_service import sandbox_as_service
from tests.sandboxes import Sandbox, SandboxFactory

pytestmark = pytest.mark.django_db(transaction=True)

CASES = Path(__file__).parent.parent / "cases"
HEADERS = {"x-service-api-key": "sk_us_local_sandbox"}
NEWER_VERSION_NOTICE = "A newer version of this result could not be read"


def case(name: str) -> Any:
    return json.loads((CASES / name).read_text())


@pytest.fixture(scope="module")
def service_sandbox(sandbox_factory: SandboxFactory) -> Sandbox:
    return sandbox_factory(users=8, orders=60, seed=4, speed=0)


@pytest.fixture
def service(service_sandbox: Sandbox, settings: Settings) -> Iterator[Sandbox]:
    with sandbox_as_service(service_sandbox, settings):
        yield service_sandbox


@pytest.fixture
def reader(client: Client) -> User:
    user = staff("clinician", "anna")
    client.force_login(user)
    return user


@pytest.fixture
def order_id(service: Sandbox) -> UUID:
    """A mirrored order of the sandbox with a result that is not mirrored yet."""
    read_answer = httpx.get(
        f"{service.url}/v3/orders", headers=HEADERS, params={"size": "60"}, timeout=20
    )
    done = next(one for one in read_answer.json()["orders"] if one["status"] == "completed")
    run_lookup("orders", done["id"])
    run_due_lookups([subject for subject in patients.sync.LOOKUP_TYPES if subject.kind == "users"])
    Lookup.objects.exclude(kind="results").delete()
    return UUID(done["id"])


def run_lookup(kind: str, key: object) -> None:
    schedule_lookups(kind, [key])
    run_due_lookups([subject for subject in LOOKUP_TYPES if subject.kind == kind])


def read_answer(service: Sandbox, order_id: UUID, body: Any) -> None:
    """Let the service answer with this result, and look it up."""
    service.control("answers", method="DELETE")
    service.prepare_answer(f"/v3/order/{order_id}/result$", body=body, times=None)
    run_lookup("results", order_id)


def text_of(page: Any) -> str:
    assert page.status_code == 200
    return " ".join(re.sub(r"<[^>]+>", " ", page.content.decode()).split())


def pages(client: Client, order_id: UUID) -> dict[str, str]:
    order = Order.objects.get(pk=order_id)
    return {
        "report": text_of(client.get(reverse("reviewing:report", args=[order_id]))),
        "queue": text_of(client.get(reverse("reviewing:queue"))),
        "order": text_of(client.get(reverse("orders:detail", args=[order_id]))),
        "patient": text_of(client.get(reverse("of-patient:results", args=[order.user_id]))),
    }


def first_version(service: Sandbox, order_id: UUID) -> Any:
    body = case("B07.json")
    body["metadata"]["interpretation"] = "normal"
    del body["results"][1]
    read_answer(service, order_id, body)
    return body


def test_text_in_a_number_field_affects_only_that_field(
    service: Sandbox, order_id: UUID, client: Client, reader: User
) -> None:
    """Case B07."""
    first_version(service, order_id)
    version = Review.objects.get(pk=order_id).version
    client.post(reverse("reviewing:sign", args=[order_id]), {"version": version})
    read_answer(service, order_id, case("B07.json"))
    potassium, calcium = ResultMarker.objects.filter(result_id=order_id).order_by("position")
    assert (potassium.value, potassium.interpretation) == (4.2, "normal")
    assert (calcium.value, calcium.text, calcium.interpretation) == (None, "<3.5", "critical")
    assert (calcium.min_range_value, calcium.is_below_min_range) == (3.5, True)
    assert calcium.unreadable_fields == "value" and not calcium.is_unreadable
    result = Result.objects.get()
    assert (result.unreadable_lines, result.is_whole) == (1, False)
    assert json.loads(result.record) == case("B07.json")
    review = Review.objects.get()
    assert review.version == version + 1 and review.is_critical and review.in_queue
    for page in ("report", "order"):
        words = pages(client, order_id)[page]
        assert "Part of this result could not be read" in words, page
        assert "Could not be read: value" in words and "<3.5" in words.replace("&lt;", "<"), page
    unread = UnreadRecord.objects.get()
    assert (unread.resource, unread.key) == ("orders_result", str(order_id))
    assert (unread.path, unread.is_stored) == ("$.results[1].value", True)
    api = client.get(f"/api/results/{order_id}/").json()
    assert (api["unreadable_lines"], api["newer_version_unreadable"]) == (1, False)


def test_nul_in_a_comment_is_replaced_and_the_result_stored(
    service: Sandbox, order_id: UUID, client: Client, reader: User
) -> None:
    """Case B08."""
    read_answer(service, order_id, case("B08.json"))
    _, comment = ResultMarker.objects.filter(result_id=order_id).order_by("position")
    assert comment.text == "made-up\ufffdcomment"
    assert Result.objects.get().is_whole and not UnreadRecord.objects.exists()
    assert Lookup.objects.get(kind="results").error == ""
    before = Review.objects.get().version
    run_lookup("results", order_id)
    assert Review.objects.get().version == before
    assert all("\x00" not in words for words in pages(client, order_id).values())
    assert "made-up\ufffdcomment" in pages(client, order_id)["report"]


def test_line_that_cannot_be_read_is_shown_in_its_place(
    service: Sandbox, order_id: UUID, client: Client, reader: User
) -> None:
    body = first_version(service, order_id)
    body["results"] += ["no line at all", {**body["results"][0], "slug": "x", "name": {"a": 1}}]
    body["results"].insert(0, None)
    body["missing_results"] = [7]
    read_answer(service, order_id, body)
    lines = ResultMarker.objects.filter(result_id=order_id).order_by("position")
    assert [line.is_unreadable for line in lines] == [True, False, True, True, True]
    words = [line.interpretation for line in lines]
    assert words[:4] == ["unknown", "normal", "unknown", "unknown"]
    result = Result.objects.get()
    assert (result.unreadable_lines, result.returned, result.missing) == (4, 4, 1)
    assert result.interpretation == "unknown"
    assert "This line could not be read" in pages(client, order_id)["report"]


def test_normal_line_with_a_lost_field_is_no_longer_normal(
    service: Sandbox, order_id: UUID, reader: User
) -> None:
    body = first_version(service, order_id)
    changed = copy.deepcopy(body)
    changed["results"][0] |= {
        "is_above_max_range": "yes",
        "min_range_value": "3.5 mmol",
        "max_range_value": 1e400,
    }
    read_answer(service, order_id, json.dumps(changed))
    (line,) = ResultMarker.objects.filter(result_id=order_id)
    assert line.unreadable_fields == "min_range_value, max_range_value, is_above_max_range"
    assert (line.value, line.interpretation) == (4.2, "unknown")
    assert Result.objects.get().interpretation == "unknown"


def test_unreadable_version_shows_a_notice_until_it_is_read(
    service: Sandbox, order_id: UUID, client: Client, reader: User
) -> None:
    body = first_version(service, order_id)
    assert not any(NEWER_VERSION_NOTICE in words for words in pages(client, order_id).values())
    read_answer(service, order_id, {**body, "results": "lost"})
    lookup = Lookup.objects.get(kind="results")
    assert lookup.error and lookup.attempts == 1
    assert lookup.due_at is not None and lookup.due_at > datetime.now(UTC)
    assert Result.objects.get().returned == 1
    for page, words in pages(client, order_id).items():
        assert NEWER_VERSION_NOTICE in words and "Try again" in words, page
    assert client.get(f"/api/results/{order_id}/").json()["newer_version_unreadable"]
    reasons = [reason.words for reason in status.read().reasons]
    assert any(words.startswith("1 record could not be read or stored") for words in reasons)
    service.control("answers", method="DELETE")
    service.prepare_answer(f"/v3/order/{order_id}/result$", body=body, times=None)
    report = reverse("reviewing:report", args=[order_id])
    response = client.post(reverse("reviewing:read-again", args=[order_id]), {"next": report})
    assert (response.status_code, response.headers["location"]) == (302, report)
    run_due_lookups(LOOKUP_TYPES)
    assert Lookup.objects.get(kind="results").error == ""
    assert not any(NEWER_VERSION_NOTICE in words for words in pages(client, order_id).values())
    assert not UnreadRecord.objects.exists()


def test_unreadable_order_or_patient_shows_a_notice(
    service: Sandbox, order_id: UUID, client: Client, reader: User
) -> None:
    first_version(service, order_id)
    patient = Order.objects.get(pk=order_id).user_id
    sources = {
        "order": (f"^/v3/order/{order_id}$", "orders", order_id),
        "patient’s record": (f"^/v2/user/{patient}/info", "demographics", patient),
    }
    for name, (path, kind, key) in sources.items():
        notice = f"version of this {name} could not be read"
        service.control("answers", method="DELETE")
        service.prepare_answer(path, body={"id": "nobody"}, times=1)
        schedule_lookups(kind, [key])
        run_due_lookups(
            [one for one in (*LOOKUP_TYPES, *patients.sync.LOOKUP_TYPES) if one.kind == kind]
        )
        assert Lookup.objects.get(kind=kind, key=str(key)).error
        shown = pages(client, order_id)
        assert notice in shown["patient"] and (notice in shown["order"]) == (name == "order")
        assert (notice in shown["report"]) == (name == "order")
        subject = "order" if name == "order" else "patient"
        address = reverse("reviewing:read-again", args=[key])
        assert client.post(address, {"what": subject, "next": "/results/"}).status_code == 302
        run_due_lookups(
            [one for one in (*LOOKUP_TYPES, *patients.sync.LOOKUP_TYPES) if one.kind == kind]
        )
        assert notice not in pages(client, order_id)["patient"]
    assert client.post(address, {"what": "anything"}).status_code == 400


@pytest.mark.parametrize(
    ("outage", "is_shown"),
    [
        ({"status": 503}, False),
        ({"status": 429, "headers": {"retry-after": "1"}}, False),
        ({"status": 401}, False),
        ({"status": 403}, True),
    ],
)
def test_outage_shows_no_notice_of_unreadable_results(
    outage: dict[str, Any], is_shown: bool, service: Sandbox, order_id: UUID, reader: User
) -> None:
    schedule_lookups("results", [order_id])
    service.prepare_answer(f"/v3/order/{order_id}/result$", times=None, **outage)
    for attempt in range(unreadable_versions.MAX_FAILED_READS):
        assert unreadable_versions.for_order(order_id) == []
        Lookup.objects.filter(kind="results").update(due_at=timezone.now())
        run_due_lookups(LOOKUP_TYPES)
        assert Lookup.objects.get(kind="results").attempts == attempt + 1
    assert bool(unreadable_versions.for_order(order_id)) == is_shown
    assert unreadable_versions.unreadable_among([order_id]) == ({order_id} if is_shown else set())


def test_result_never_read_shows_a_notice_on_its_pages(
    service: Sandbox, order_id: UUID, client: Client, reader: User
) -> None:
    read_answer(service, order_id, {"metadata": {}, "results": 7})
    notice = "This result could not be read"
    order = Order.objects.get()
    for address in (
        reverse("reviewing:queue"),
        reverse("orders:detail", args=[order_id]),
        reverse("of-patient:results", args=[order.user_id]),
        reverse("patients:detail", args=[order.user_id]),
    ):
        assert notice in text_of(client.get(address)), address


def test_order_unreadable_in_a_list_is_looked_up(service: Sandbox, order_id: UUID) -> None:
    synced_list = CHANGED_ORDERS
    Lookup.objects.all().delete()
    merge = {"orders": {"0": {"user_id": "nobody"}}}
    service.prepare_answer(r"^/v3/orders\?", merge=merge, times=None)
    request_run(synced_list)
    sync_when_due(synced_list, 30)
    unread = UnreadRecord.objects.get(resource="orders")
    due = Lookup.objects.get(kind="orders", key=unread.key)
    assert due.due_at is not None and due.due_at < datetime.now(UTC) + timedelta(seconds=1)
    service.control("answers", method="DELETE")
    run_due_lookups(LOOKUP_TYPES)
    assert not UnreadRecord.objects.exists() and Order.objects.filter(pk=unread.key).exists()


@pytest.mark.parametrize("key", ["-" * 36, f"{'a' * 34}-0", "00000000-0000-4000-8000-00000000000Z"])
def test_unreadable_record_with_any_id_breaks_no_page(
    key: str, service: Sandbox, order_id: UUID
) -> None:
    """The ID of an unreadable order or user may be any text."""
    for resource in ("orders", "users"):
        UnreadRecord.objects.create(resource=resource, key=key, record="{}")
    assert unreadable_versions.for_order(order_id) == []
    assert unreadable_versions.first_results() == []
