"""Slots and appointments against the sandbox: booked, moved and cancelled as the page will."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import msgspec
import pytest

from backoffice.service import Service, errors
from backoffice.service.appointments import AppointmentPayload, Slot, VisitAddress
from tests.contract.test_orders import NOBODY
from tests.sandbox.test_api_psc_booking import NEAR_SITES, WALK_IN
from tests.sandbox.visiting import READY, REQUEST, World, visiting

AT_HOME = "at_home_phlebotomy"
LAB = "lab-north"


@pytest.fixture(scope="module")
def world(as_specified: bool) -> Iterator[World]:
    with visiting(as_specified=as_specified) as world:
        yield world


@pytest.fixture(scope="module")
def draws(world: World) -> Iterator[Service]:
    with world.sandbox.service() as service:
        yield service


def address_of(world: World, order: str) -> VisitAddress:
    return msgspec.convert(world.address(order), VisitAddress)


def home_slots(world: World, draws: Service, order: str) -> list[Slot]:
    found = draws.appointments.phlebotomy_availability(address_of(world, order)).data
    return [slot for day in found.slots for slot in day.slots if slot.booking_key]


def psc_order(world: World, draws: Service) -> tuple[str, list[Slot]]:
    """An order of the bookable lab, and the free slots around its patient."""
    while True:  # some have no center that works near them
        order = world.order(WALK_IN, zips=NEAR_SITES, lab=LAB)
        zip_code = world.record(order)["patient_address"]["zip"]
        try:
            found = draws.appointments.psc_availability(LAB, zip_code=zip_code, radius="50").data
        except errors.Missing:
            continue
        return order, [slot for day in found.slots for slot in day.slots if slot.booking_key]


def now(world: World) -> datetime:
    return datetime.fromisoformat(world.sandbox.control("status")["now"])


def count(world: World, order: str) -> int:
    rows = world.sandbox.query(
        "SELECT count(*) FROM sandbox_appointment a JOIN sandbox_order o ON o.number = a.order_id"
        " WHERE o.id = %s",
        [order],
    )
    return int(rows[0][0])


def shown(one: AppointmentPayload) -> tuple[Any, ...]:
    return one.id, one.status, one.event_status, one.start_at, one.end_at, len(one.events)


def test_appointments_phlebotomy_availability(world: World, draws: Service) -> None:
    order = world.order(AT_HOME, zips=READY)
    start = now(world).date() + timedelta(days=3)
    found = draws.appointments.phlebotomy_availability(address_of(world, order), start).data
    assert found.timezone and found.slots
    days = [one.date for one in found.slots]
    assert all(day is not None and start <= day < start + timedelta(days=14) for day in days)
    for day in found.slots:
        assert found.zone_of(day) == found.timezone
        for slot in day.slots:
            assert slot.start < slot.end and slot.booking_key and slot.places is not None
            assert slot.expires_at is None or slot.expires_at > now(world)
    bad = VisitAddress(first_line="1", city="P", state="AZ", zip_code="8500")
    with pytest.raises(errors.Refused) as refused:
        draws.appointments.phlebotomy_availability(bad)
    assert [one.path for one in refused.value.fields] == ["zip_code"]


def test_appointments_psc_availability(world: World, draws: Service) -> None:
    order, slots = psc_order(world, draws)
    assert slots
    zip_code = world.record(order)["patient_address"]["zip"]
    near = draws.appointments.psc_availability(LAB, zip_code=zip_code, radius="50").data
    codes = {day.location.code for day in near.slots if day.location}
    assert codes and all(near.zone_of(day) for day in near.slots)
    one = sorted(codes)[0]
    there = draws.appointments.psc_availability(LAB, site_codes=[one], allow_stale=True).data
    assert {day.location.code for day in there.slots if day.location} == {one}
    for wrong in ({}, {"site_codes": ["a", "b", "c", "d"]}, {"site_codes": ["no-such-site"]}):
        with pytest.raises((errors.Refused, errors.Missing)) as refused:
            draws.appointments.psc_availability(LAB, **wrong)  # type: ignore[arg-type]
        assert refused.value.message


def test_appointments_book_phlebotomy(world: World, draws: Service) -> None:
    order = world.order(AT_HOME, zips=READY)
    slots = home_slots(world, draws, order)
    calls = draws.appointments
    booked = calls.book_phlebotomy(order, slots[-1].booking_key or "", "ring twice").data
    assert (booked.order_id, booked.start_at) == (UUID(order), slots[-1].start)
    assert booked.appointment_notes == "ring twice"
    assert shown(booked) == shown(calls.phlebotomy(order).data)
    with pytest.raises((errors.Refused, errors.Missing)) as twice:
        calls.book_phlebotomy(order, slots[0].booking_key or "")
    assert twice.value.message and count(world, order) == 1

    moved = calls.reschedule_phlebotomy(order, slots[-2].booking_key or "", "knock").data
    assert (moved.start_at, moved.appointment_notes) == (slots[-2].start, "knock")
    assert shown(moved) == shown(calls.phlebotomy(order).data)

    reason = calls.phlebotomy_cancellation_reasons().records[0].data
    cancelled = calls.cancel_phlebotomy(order, reason.id, "not wanted").data
    assert (cancelled.id, cancelled.event_status) == (moved.id, "cancelled")
    with pytest.raises((errors.Refused, errors.Missing)):
        calls.cancel_phlebotomy(order, reason.id)


def test_appointments_request_phlebotomy(world: World, draws: Service) -> None:
    order = world.order(AT_HOME, zips=REQUEST)
    address = address_of(world, order)
    offered = draws.appointments.area_info(address.zip_code[:5]).data.phlebotomy.providers
    provider = next(one.name for one in offered if "appointment-request" in one.service_types)
    asked = draws.appointments.request_phlebotomy(order, address, provider, "any morning").data
    assert (asked.provider, asked.start_at, asked.event_status) == (provider, None, "pending")
    assert asked.appointment_notes == "any morning"
    with pytest.raises((errors.Refused, errors.Missing)) as refused:
        draws.appointments.request_phlebotomy(order, address, provider)
    assert refused.value.message and count(world, order) == 1


def test_appointments_book_psc(world: World, draws: Service) -> None:
    order, slots = psc_order(world, draws)
    calls = draws.appointments
    key = str(uuid.uuid4())
    for _ in range(2):  # once per key
        booked = calls.book_psc(
            order, slots[-1].booking_key or "", "left arm", idempotency_key=key
        ).data
        assert booked.start_at == slots[-1].start and booked.type == "patient_service_center"
    assert count(world, order) == 1
    assert calls.psc(order).data.id == booked.id
    moved = calls.reschedule_psc(order, slots[-2].booking_key or "").data
    assert moved.start_at == slots[-2].start
    reason = calls.psc_cancellation_reasons().records[0].data
    cancelled = calls.cancel_psc(order, reason.id, "not wanted").data
    assert (cancelled.id, cancelled.event_status) == (moved.id, "cancelled")


def test_appointments_book_psc_later_confirmed(world: World, draws: Service) -> None:
    order, slots = psc_order(world, draws)
    booked = draws.appointments.book_psc(
        order,
        slots[-1].booking_key or "",
        async_confirmation=True,
        sync_timeout_ms=1000,
        async_timeout_ms=60_000,
    ).data
    assert booked.event_status in ("pending", "scheduled") and count(world, order) == 1
    with pytest.raises(errors.Refused) as refused:
        draws.appointments.book_psc(order, "x", async_confirmation=True, sync_timeout_ms=1)
    assert [one.path for one in refused.value.fields] == ["sync_confirmation_timeout_millisecond"]


def test_what_cannot_be_booked_is_said(world: World, draws: Service) -> None:
    order = world.order(AT_HOME, zips=READY)
    calls = draws.appointments
    impossible: list[Callable[[], Any]] = [
        lambda: calls.book_phlebotomy(order, "nonsense"),
        lambda: calls.reschedule_phlebotomy(order, "nonsense"),
        lambda: calls.cancel_phlebotomy(order, NOBODY),
        lambda: calls.book_psc(order, "nonsense"),
        lambda: calls.book_phlebotomy(order, "x", "n" * 1001),
    ]
    for act in impossible:
        with pytest.raises((errors.Refused, errors.Missing)) as refused:
            act()
        where = {one.path for one in getattr(refused.value, "fields", ())}
        named = where and where <= {"appointment_notes", "cancellation_reason_id"}
        assert refused.value.message or named
    assert count(world, order) == 0


@pytest.mark.parametrize("kind", ["phlebotomy", "psc"])
def test_appointments_cancellation_reasons(draws: Service, kind: str) -> None:
    page = getattr(draws.appointments, f"{kind}_cancellation_reasons")()
    assert page.records and page.unreadable == []
    assert len({one.data.id for one in page.records}) == len(page.records)
    assert all(one.data.name for one in page.records)
