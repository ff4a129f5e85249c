"""Visits without a usable time zone, fed over the wire (case B22): every page has the zone of the
state, says that it is assumed, and never shows the staff member's time as if it were the draw's."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator
from datetime import UTC, date, datetime, time, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

import msgspec
import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone
from pytest_django import Settings

from backoffice.accounts.models import User
from backoffice.service.appointments import Availability
from orders.models import Appointment
from orders.rules.appointment_rules import format_appointment_time
from orders.rules.slots import OfferedTime, TimeFilters, build_time_list
from tests.api.rows import staff, token_for
from tests.reviewing.test_pages import text_of
from tests.sandbox_service import look_up, sandbox_as_service
from tests.sandboxes import Sandbox, SandboxFactory

pytestmark = pytest.mark.django_db(transaction=True)

CASE = json.loads((Path(__file__).parent.parent / "cases" / "B22.json").read_text())
VIEWERS = ("Pacific/Honolulu", "Pacific/Auckland")
ASSUMED = "time zone assumed from the state"
IN_UTC = "time zone unknown, shown in UTC"


@pytest.fixture(scope="module")
def world(sandbox_factory: SandboxFactory) -> Sandbox:
    return sandbox_factory(users=8, orders=60, seed=22, speed=0)


@pytest.fixture
def key(world: Sandbox, settings: Settings) -> Iterator[UUID]:
    """A mirrored order with a future home visit. The visit is not read yet."""
    with sandbox_as_service(world, settings):
        found = world.query(
            "SELECT o.id FROM sandbox_order o JOIN sandbox_appointment a ON a.order_id = o.number"
            " WHERE a.is_current AND a.type = 'phlebotomy'"
            " AND o.status LIKE '%%.appointment_scheduled' ORDER BY o.seq LIMIT 1"
        )[0][0]
        look_up("orders", found)
        yield UUID(str(found))


def feed(world: Sandbox, key: UUID, **changes: Any) -> Appointment:
    """Let the service answer with the visit of the case and `changes`, and read it."""
    visit = CASE | {"event_status": "scheduled", "can_reschedule": True} | changes
    visit["address"] = CASE["address"] | changes.get("address", {})
    world.prepare_answer(f"^/v3/order/{key}/phlebotomy/appointment$", merge=visit, times=1)
    look_up("appointment-phlebotomy", key)
    return Appointment.objects.get(order_id=key)


def viewers() -> list[Client]:
    clients = []
    for zone in VIEWERS:
        user = staff("clinician", zone)
        User.objects.filter(pk=user.pk).update(time_zone=zone)
        clients.append(Client())
        clients[-1].force_login(User.objects.get(pk=user.pk))
    return clients


def pages(client: Client, visit: Appointment) -> dict[str, str]:
    """Return the text of every page that shows the visit."""
    assert visit.start_at is not None and visit.draw_day is not None
    day = {"start_date": str(visit.draw_day), "end_date": str(visit.draw_day)}
    show = "past" if visit.start_at < timezone.now() else "upcoming"
    addresses = {
        "order": (reverse("orders:detail", args=[visit.order_id]), {}),
        "list": (reverse("appointments:list"), {"show": show, **day}),
        "week": (reverse("appointments:week"), {"from": str(visit.draw_day)}),
        "sites": (reverse("appointments:sites"), {"day": str(visit.draw_day)}),
        "sheet": (reverse("appointments:sheet"), {"day": str(visit.draw_day)}),
        "reschedule": (reverse("orders:move", args=[visit.order_id]), {}),
        "cancel the visit": (reverse("orders:cancel-visit", args=[visit.order_id]), {}),
        "cancel the order": (reverse("orders:cancel", args=[visit.order_id]), {}),
    }
    found = {}
    for name, (address, query) in addresses.items():
        answer = client.get(address, query)
        assert answer.status_code == 200, name
        found[name] = text_of(answer)
    answer = client.post(reverse("find:suggestions"), {"q": str(visit.pk)})
    return found | {"search": text_of(answer)}


@pytest.mark.parametrize("zone", [None, "", "Not/AZone", "CST", "localtime"])
def test_b22_every_page_has_the_zone_of_the_state_marked(
    world: Sandbox, key: UUID, zone: str | None
) -> None:
    visit = feed(world, key, iana_timezone=zone)
    assert visit.draw_day == date(2026, 12, 2)
    look_up("users", visit.user_id)
    for client in viewers():
        for name, page in pages(client, visit).items():
            assert "9:30 PM CST" in page, name
            assert ASSUMED in page, name
            assert IN_UTC not in page


def test_b22_export_and_api_say_that_the_zone_is_assumed(world: Sandbox, key: UUID) -> None:
    visit = feed(world, key)
    assert visit.start_at is not None
    show = "past" if visit.start_at < timezone.now() else "upcoming"
    for client in viewers():
        posted = {"query": f"show={show}", "everything": "1"}
        answer = client.post(reverse("appointments:export"), posted)
        text = b"".join(answer).decode()
        [row] = [one for one in csv.DictReader(io.StringIO(text)) if one["Visit"] == str(visit.pk)]
        assert row["Draw time"] == "2026-12-02T21:30-06:00"
        assert (row["Draw time zone"], row["Draw time zone is"]) == (
            "America/Chicago",
            "assumed from the state",
        )
    headers = token_for(staff("administrator", "api"))
    item = Client().get(f"/api/appointments/{visit.pk}/", headers=headers).json()
    assert item["iana_timezone"] is None
    assert (item["time_zone"], item["time_zone_basis"]) == (
        "America/Chicago",
        "assumed from the state",
    )


@pytest.mark.parametrize("state", ["AE", "", "Nowhere"])
def test_visit_of_an_unknown_state_is_in_utc_and_says_so(
    world: Sandbox, key: UUID, state: str
) -> None:
    visit = feed(world, key, address={"state": state})
    look_up("users", visit.user_id)
    for client in viewers():
        for name, page in pages(client, visit).items():
            assert "3:30 AM UTC" in page, name
            assert IN_UTC in page, name


def test_given_zone_is_used_without_a_mark(world: Sandbox, key: UUID) -> None:
    visit = feed(world, key, iana_timezone="America/Denver")
    look_up("users", visit.user_id)
    for client in viewers():
        for name, page in pages(client, visit).items():
            assert "8:30 PM MST" in page, name
            assert ASSUMED not in page and IN_UTC not in page


def test_today_has_the_zone_of_the_state_marked(world: Sandbox, key: UUID) -> None:
    for client, viewer in zip(viewers(), VIEWERS, strict=True):
        today = timezone.now().astimezone(ZoneInfo(viewer)).date()
        start = datetime.combine(today, time(12, 30), ZoneInfo("America/Chicago"))
        start = start.astimezone(UTC)
        visit = feed(
            world,
            key,
            start_at=start.isoformat(),
            end_at=(start + timedelta(hours=1)).isoformat(),
        )
        assert visit.draw_day == today
        page = text_of(client.get(reverse("today:page")))
        assert "12:30 PM C" in page and ASSUMED in page


@pytest.mark.parametrize("zone", [None, "", "Not/AZone"])
@pytest.mark.parametrize("is_center", [False, True])
def test_times_to_choose_have_the_zone_of_the_state_marked(
    zone: str | None, is_center: bool
) -> None:
    slot = {"start": CASE["start_at"], "end": CASE["end_at"], "booking_key": "key-1"}
    location = {"code": "S1", "address": CASE["address"], "iana_timezone": zone}
    day = {"date": "2026-12-03", "location": location if is_center else None, "slots": [slot]}
    body = json.dumps({"timezone": zone, "slots": [day]})
    found = msgspec.json.decode(body, type=Availability)
    for viewer in VIEWERS:
        with timezone.override(viewer):
            offered = build_time_list(found, TimeFilters(), state="" if is_center else "TX")
            [(shown, [group])] = [(one.date, one.groups) for one in offered.days]
            [chip] = group.chips
            assert (shown, chip.clock) == (date(2026, 12, 2), "9:30 PM")
            assert offered.zone_words() == f"CST (America/Chicago), {ASSUMED}"
            kept = OfferedTime.read(chip.value)
            assert format_appointment_time(kept.start, kept.visit_zone).endswith(
                f", 9:30 PM CST ({ASSUMED})"
            )


def test_times_to_choose_of_an_unknown_state_are_in_utc() -> None:
    slot = {"start": CASE["start_at"], "end": CASE["end_at"], "booking_key": "key-1"}
    body = json.dumps({"timezone": None, "slots": [{"date": "2026-12-03", "slots": [slot]}]})
    found = msgspec.json.decode(body, type=Availability)
    with timezone.override("Pacific/Honolulu"):
        offered = build_time_list(found, TimeFilters(), state="AE")
        assert offered.days[0].groups[0].chips[0].clock == "3:30 AM"
        assert offered.zone_words() == f"UTC, {IN_UTC}"
