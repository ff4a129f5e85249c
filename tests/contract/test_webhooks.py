"""Deliveries of the sandbox through the client's own verification and readers, and the calls that
ask for them."""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar
from urllib.request import Request, urlopen
from uuid import UUID

import pytest

from backoffice.service import Reader, Record, Service, errors, events, signing
from backoffice.service.appointments import APPOINTMENT
from backoffice.service.orders import ORDER
from backoffice.service.payload import NEVER
from backoffice.service.reports import JOB
from backoffice.service.wearables import SUMMARIES
from backoffice.service.wearables.timeseries import SAMPLES
from tests.contract.test_orders import NOBODY, TEAM
from tests.sandboxes import Sandbox, SandboxFactory
from tests.waiting import wait_until

SECRET = "whsec_Y2xpbmljLWJhY2stb2ZmaWNlLXRlc3Qta2V5LTAwMDE="
OTHER_TEAM = "7ea00000-0000-4000-8000-000000000002"
ORGANISATION = "0d4f7c1e-0000-4000-8000-00000000c11c"

SAMPLED = [
    "afib_burden", "basal_body_temperature", "blood_oxygen", "blood_pressure",
    "body_mass_index", "body_temperature", "body_temperature_delta", "caffeine",
    "calories_active", "calories_basal", "carbohydrates", "cholesterol", "daylight_exposure",
    "distance", "electrocardiogram_voltage", "fall", "fat", "floors_climbed",
    "forced_expiratory_volume_1", "forced_vital_capacity", "glucose", "handwashing",
    "heart_rate_alert", "heart_rate_recovery_one_minute", "heartrate", "hrv", "ige", "igg",
    "inhaler_usage", "insulin_injection", "lean_body_mass", "mindfulness_minutes", "note",
    "peak_expiratory_flow_rate", "respiratory_rate", "sleep_apnea_alert",
    "sleep_breathing_disturbance", "stand_duration", "stand_hour", "steps", "stress_level",
    "uv_exposure", "vo2_max", "waist_circumference", "water", "weight", "wheelchair_push",
    "workout_distance", "workout_duration", "workout_swimming_stroke",
]  # fmt: skip


DROPPED = {"source_id", "is_final", "sleep_stream", "priority_id", "provider_id"}
"""Deprecated or without a use: the client leaves them in the record as received."""


def catalogue() -> dict[str, Reader[Any] | None]:
    """The documented event types, and how the client reads each."""
    found: dict[str, Reader[Any] | None] = {
        "labtest.order.created": ORDER,
        "labtest.order.updated": ORDER,
        "labtest.appointment.created": APPOINTMENT,
        "labtest.appointment.updated": APPOINTMENT,
        "labtest.result.critical": events.CRITICAL_RESULT,
        "labtest.match_review.created": events.MATCH_REVIEW,
        "labtest.match_review.updated": events.MATCH_REVIEW,
        "lab_report.parsing_job.created": JOB,
        "lab_report.parsing_job.updated": JOB,
        "provider.connection.created": events.CONNECTION_CREATED,
        "provider.connection.error": events.CONNECTION_FAILED,
        "provider.device.created": None,
        "provider.device.updated": None,
        "continuous_query.result_table.changed": None,
    }
    daily: dict[str, Any] = {**SUMMARIES, "workout_stream": events.STREAM_READY}
    daily |= dict.fromkeys(SAMPLED, SAMPLES)
    for resource, reader in daily.items():
        found[f"daily.data.{resource}.created"] = reader
        found[f"daily.data.{resource}.updated"] = reader
        found[f"historical.data.{resource}.created"] = events.BACKFILL_DONE
    return found


class Post(BaseHTTPRequestHandler):
    """Keeps what comes and says thanks."""

    protocol_version = "HTTP/1.1"
    came: ClassVar[list[tuple[dict[str, str], bytes, datetime]]]

    def do_POST(self) -> None:
        raw = self.rfile.read(int(self.headers["content-length"]))
        headers = {name.lower(): value for name, value in self.headers.items()}
        self.came.append((headers, raw, datetime.now(UTC)))
        self.send_response(204)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:
        pass


@contextmanager
def receiving() -> Iterator[tuple[str, list[tuple[dict[str, str], bytes, datetime]]]]:
    kind = type("Here", (Post,), {"came": []})
    server = ThreadingHTTPServer(("127.0.0.1", 0), kind)
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/hooks", kind.came  # type: ignore[attr-defined]
    finally:
        server.shutdown()
        server.server_close()


def managed(sandbox: Sandbox, method: str, suffix: str = "", body: Any = None) -> Any:
    """A documented call of the management interface that the client does not make."""
    base = f"{sandbox.url}/v1/org/{ORGANISATION}/team/{TEAM}/sandbox/webhook"
    request = Request(  # noqa: S310 - our own loopback address
        base + suffix,
        data=None if body is None else json.dumps(body).encode(),
        headers={"X-Management-Key": "mg_local_sandbox", "content-type": "application/json"},
        method=method,
    )
    with urlopen(request, timeout=30) as answer:  # noqa: S310
        return json.loads(answer.read() or b"null")


@pytest.fixture(scope="module")
def told_sandbox(sandbox_factory: SandboxFactory, as_specified: bool) -> Sandbox:
    """One of its own: what is announced here must not be seen by other tests."""
    return sandbox_factory(as_specified=as_specified, users=60, orders=120, seed=17, speed=0)


@pytest.fixture(scope="module")
def told(told_sandbox: Sandbox) -> Iterator[Service]:
    with told_sandbox.service() as service:
        yield service


def test_every_type_of_event_is_verified_and_read(told_sandbox: Sandbox) -> None:
    types = catalogue()
    assert len(types) == 194
    secrets = signing.read_secrets([SECRET])
    with receiving() as (url, came):
        told_sandbox.control("webhooks", {"url": url, "secret": SECRET})
        told_sandbox.control("announce", {"all": True, "samples": 24})
        wait_until(lambda: len(came) >= 194, 60, "the deliveries")
        told_sandbox.control("webhooks", {"url": None})
    seen: Counter[str] = Counter()
    ids = set()
    for headers, raw, at in came:
        signed = signing.verify(raw, headers, secrets, ("webhook",), at)
        assert signed.key == secrets[0].name
        ids.add(signed.message_id)
        event = events.read(raw)
        seen[event.event_type] += 1
        assert event.team_id == UUID(TEAM)
        reader = types[event.event_type]
        if reader is not None:
            data = bytes(event.data)
            read = reader.read(data, NEVER)
            assert isinstance(read, Record), (event.event_type, read)
            sent = json.loads(data)
            assert json.loads(raw)["data"] == sent
            assert sent.keys() - set(read.data.__struct_encode_fields__) <= DROPPED
        with pytest.raises(signing.Forged):
            signing.verify(raw + b" ", headers, secrets, ("webhook",), at)
        with pytest.raises(signing.Stale):
            signing.verify(raw, headers, secrets, ("webhook",), at + timedelta(minutes=10))
    assert seen == dict.fromkeys(types, 1) and len(ids) == 194


def test_management_webhooks(told_sandbox: Sandbox, told: Service) -> None:
    """Addresses made by the documented calls are the ones the client reads."""
    url = "https://clinic.invalid/hooks"
    made = [
        managed(told_sandbox, "POST", body=body)
        for body in (
            {"url": f"{url}/0", "secret": SECRET, "filter_types": ["labtest.order.updated"]},
            {"url": f"{url}/1", "description": "second", "disabled": True},
            {"url": f"{url}/2", "rate_limit": 5},
        )
    ]
    try:
        everything = told.management.webhooks(TEAM)
        assert everything.unreadable == []
        ids = [record.data.id for record in everything.records]
        assert {one["id"] for one in made} <= set(ids)
        walked: list[str] = []
        cursor: str | None = None
        while True:
            page = told.management.webhooks(TEAM, 1, cursor)
            walked += [record.data.id for record in page.records]
            cursor = page.next_cursor
            if cursor is None:
                break
        assert walked == ids
        assert [one.data.id for one in told.management.every_webhook(TEAM)] == ids
        first = told.management.webhook(TEAM, made[0]["id"]).data
        assert (first.url, first.filter_types, first.disabled) == (
            f"{url}/0",
            ["labtest.order.updated"],
            False,
        )
        assert told.management.webhook(TEAM, made[1]["id"]).data.disabled is True
        assert told.management.webhook(TEAM, made[2]["id"]).data.rate_limit == 5
        assert told.management.webhook_secret(TEAM, made[0]["id"]).data.key == SECRET
        fresh = told.management.webhook_secret(TEAM, made[1]["id"]).data.key
        assert signing.Secret.read(fresh).key != signing.Secret.read(SECRET).key
        managed(told_sandbox, "POST", f"/{made[1]['id']}/secret/rotate", {"key": None})
        rotated = told.management.webhook_secret(TEAM, made[1]["id"]).data.key
        assert rotated != fresh and signing.Secret.read(rotated)
    finally:
        for one in made:
            managed(told_sandbox, "DELETE", f"/{one['id']}")
    with pytest.raises(errors.Missing):
        told.management.webhook(TEAM, made[0]["id"])
    with pytest.raises(errors.Missing):
        told.management.webhook_secret(TEAM, made[0]["id"])


def test_management_create_webhook(told: Service, told_sandbox: Sandbox) -> None:
    url = "https://clinic.invalid/webhooks/"
    made = told.management.create_webhook(TEAM, url, "of the back office").data
    try:
        listed = {one.data.id: one.data for one in told.management.webhooks(TEAM).records}
        found = listed[made.id]
        assert (found.url, found.description) == (url, "of the back office")
        assert (found.disabled, found.filter_types) == (False, None)
        before = told.management.webhook_secret(TEAM, made.id).data.key
        told.management.rotate_webhook_secret(TEAM, made.id)
        after = told.management.webhook_secret(TEAM, made.id).data.key
        assert signing.Secret.read(before).name != signing.Secret.read(after).name
        for disabled in (True, False):
            told.management.switch_webhook(TEAM, made.id, disabled=disabled)
            assert told.management.webhook(TEAM, made.id).data.disabled is disabled
    finally:
        told.management.delete_webhook(TEAM, made.id)
    for gone in (told.management.webhook, told.management.delete_webhook):
        with pytest.raises(errors.Missing):
            gone(TEAM, made.id)
    with pytest.raises(errors.Missing):
        told.management.rotate_webhook_secret(TEAM, made.id)
    with pytest.raises(errors.Refused):
        told.management.create_webhook(TEAM, "nowhere", "")


def test_a_rotated_secret_signs_beside_the_old_one(told_sandbox: Sandbox, told: Service) -> None:
    with receiving() as (url, came):
        made = managed(told_sandbox, "POST", body={"url": url})
        before = told.management.webhook_secret(TEAM, made["id"]).data.key
        managed(told_sandbox, "POST", f"/{made['id']}/secret/rotate", {"key": None})
        after = told.management.webhook_secret(TEAM, made["id"]).data.key
        told_sandbox.control("announce", {"event_type": "daily.data.steps.created"})
        wait_until(lambda: len(came) >= 1, 60, "the deliveries")
        managed(told_sandbox, "DELETE", f"/{made['id']}")
    headers, raw, at = came[0]
    old, new = signing.read_secrets([before, after])
    for secrets in ([old], [new], [old, new]):
        signed = signing.verify(raw, headers, secrets, ("webhook",), at)
        assert signed.key == secrets[0].name


def test_orders_resend_events(told_sandbox: Sandbox, told: Service) -> None:
    """The latest event of each order comes again; another team's order does not."""
    mine = told_sandbox.query(
        "SELECT id FROM sandbox_order WHERE team_id = %s ORDER BY number LIMIT 3", [TEAM]
    )
    (foreign,) = told_sandbox.query(
        "SELECT id FROM sandbox_order WHERE team_id = %s LIMIT 1", [OTHER_TEAM]
    )
    wanted = {row[0] for row in mine}
    secrets = signing.read_secrets([SECRET])
    with receiving() as (url, came):
        told_sandbox.control("webhooks", {"url": url, "secret": SECRET})
        again = told.orders.resend_events([*wanted])
        assert set(again.data.order_ids) == wanted
        wait_until(lambda: len(came) >= 3, 60, "the deliveries")
        told_sandbox.control("webhooks", {"url": None})
    found = set()
    for headers, raw, at in came:
        signing.verify(raw, headers, secrets, ("webhook",), at)
        order = ORDER.value(bytes(events.read(raw).data))
        read = told.orders.get(order.id).data
        assert (order.latest_event and order.latest_event.id) == (
            read.latest_event and read.latest_event.id
        )
        found.add(order.id)
    assert found == wanted
    for unknown in (foreign[0], NOBODY):
        try:
            answer = told.orders.resend_events([unknown])
        except (errors.Missing, errors.Denied):
            continue
        assert answer.data.order_ids == []


def test_orders_resend_events_of_a_window(told_sandbox: Sandbox, told: Service) -> None:
    """Two halves of a window are the whole of it; more than 60 days are refused."""
    now = datetime.fromisoformat(told_sandbox.control("status")["now"])
    start, middle = now - timedelta(days=59), now - timedelta(days=20)

    def resent(first: datetime, last: datetime | None) -> set[UUID]:
        return set(told.orders.resend_events(start_at=first, end_at=last).data.order_ids)

    with receiving() as (url, came):
        told_sandbox.control("webhooks", {"url": url, "secret": SECRET})
        whole, halves = resent(start, None), (resent(start, middle), resent(middle, now))
        count = len(whole) + len(halves[0]) + len(halves[1])
        wait_until(lambda: len(came) >= count, 60, "the deliveries")
        told_sandbox.control("webhooks", {"url": None})
        with pytest.raises(errors.Refused):
            told.orders.resend_events(start_at=now - timedelta(days=61), end_at=now)
    assert halves[0] | halves[1] == whole and all(halves)
    assert {ORDER.value(bytes(events.read(raw).data)).id for _, raw, _ in came} == whole
