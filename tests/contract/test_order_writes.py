"""Writes about orders against the sandbox: what is sent is taken, and each refusal is told."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime, timedelta
from typing import Any
from uuid import UUID

import msgspec
import pytest

from backoffice.service import Record, Service, errors
from backoffice.service.labs import OrderSet
from backoffice.service.orders import (
    INCORRECT_LAB,
    ImportedOrder,
    NewOrder,
    NewPatient,
    OrderPayload,
    SimulationFlags,
    low_level,
)
from backoffice.service.users import NewUser
from tests.contract.test_orders import NOBODY
from tests.sandbox.ordering import PHYSICIAN, World, open_second_account, open_world


@pytest.fixture(scope="module")
def world(as_specified: bool) -> Iterator[World]:
    with open_world(as_specified=as_specified) as world:
        yield world


@pytest.fixture(scope="module")
def orders(world: World) -> Iterator[Service]:
    with world.sandbox.service() as service:
        yield service


def fresh() -> str:
    return str(uuid.uuid4())


def new(world: World, *tests: str, **more: Any) -> NewOrder:
    return msgspec.convert(world.body(*tests, **more), NewOrder)


def placed(world: World, orders: Service, *tests: str, **more: Any) -> Record[OrderPayload]:
    return orders.orders.create(new(world, *tests, **more), idempotency_key=fresh())


def today(world: World) -> date:
    now: str = world.sandbox.control("status")["now"]
    return datetime.fromisoformat(now).astimezone(UTC).date()


def same_as_read(world: World, orders: Service, written: Record[OrderPayload]) -> None:
    """The record inside the answer is the one that is read, byte for byte but for its link."""
    read = orders.orders.get(written.data.id)
    assert written.digest == read.digest
    assert written.asked_at <= read.asked_at


def test_orders_create(world: World, orders: Service) -> None:
    before = world.count()
    body = new(world, clinical_notes="one\ntwo", passthrough="ours", physician=PHYSICIAN)
    made = orders.orders.create(body, idempotency_key=fresh())
    assert world.count() == before + 1
    order = made.data
    assert (order.user_id, order.passthrough, order.priority) == (body.user_id, "ours", False)
    assert order.patient_details is not None and order.patient_details.first_name == "Nora"
    assert order.clinical_notes is not None and "one\ntwo" in order.clinical_notes
    same_as_read(world, orders, made)


def test_orders_create_once_per_key(world: World, orders: Service) -> None:
    key, body = fresh(), new(world)
    first = orders.orders.create(body, idempotency_key=key)
    before = world.count()
    again = orders.orders.create(body, idempotency_key=key)
    assert again.data.id == first.data.id and world.count() == before


def test_orders_create_with_an_update_reason(world: World, orders: Service) -> None:
    """The new order replaces the canceled one: same transaction, never the same lab account."""
    user = orders.users.create(NewUser(client_user_id=fresh())).data.user_id
    former = placed(world, orders, user_id=str(user))
    orders.orders.cancel(former.data.id)
    body = new(world, user_id=str(user))
    reason = {"update_reason": INCORRECT_LAB}
    with pytest.raises(errors.Refused) as refused:
        orders.orders.create(body, idempotency_key=fresh(), extra=reason)
    assert refused.value.message == "No other lab account of lab-south is active"
    second = open_second_account(world.sandbox)
    try:
        made = orders.orders.create(body, idempotency_key=fresh(), extra=reason)
    finally:
        suspend = "UPDATE sandbox_labaccount SET status = 'suspended' WHERE id = %s RETURNING 1"
        world.sandbox.query(suspend, (second,))
    assert made.data.origin == "recreation"
    group, before = made.data.order_transaction, former.data.order_transaction
    assert group is not None and before is not None and group.id == before.id
    assert [one.id for one in group.orders] == [former.data.id, made.data.id]
    same_as_read(world, orders, made)


def test_a_refused_order_is_refused_again_under_its_key(world: World, orders: Service) -> None:
    """A domain refusal is kept for its key, unless asked not to be."""
    bad = new(world, lab_account_id=str(NOBODY))
    good = new(world)
    for no_cache in (False, True):
        key = fresh()
        with pytest.raises((errors.Refused, errors.Missing)) as first:
            orders.orders.create(bad, idempotency_key=key, no_cache=no_cache)
        if first.value.status == 422:
            pytest.skip("refused as a parameter, which is never kept")
        if no_cache:
            assert orders.orders.create(good, idempotency_key=key).data.id
        else:
            with pytest.raises(type(first.value)) as again:
                orders.orders.create(good, idempotency_key=key)
            assert again.value.message == first.value.message


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"patient_details": {"first_name": ""}}, "patient_details.first_name"),
    ({"patient_details": {"last_name": "x" * 51}}, "patient_details.last_name"),
    ({"patient_details": {"email": "nonsense"}}, "patient_details.email"),
    ({"patient_details": {"gender": "Female"}}, "patient_details.gender"),
    ({"patient_address": {"zip": "8500"}}, "patient_address.zip"),
    ({"patient_address": {"access_notes": "x" * 1001}}, "patient_address.access_notes"),
    ({"collection_method": "by_mail"}, "collection_method"),
    ({"billing_type": "nobody"}, "billing_type"),
]


@pytest.mark.parametrize(("bent", "path"), REFUSED, ids=[path for _, path in REFUSED])
def test_orders_create_names_the_field(
    world: World, orders: Service, bent: dict[str, Any], path: str
) -> None:
    body, before = world.body(), world.count()
    for name, value in bent.items():
        body[name] = {**body[name], **value} if isinstance(value, dict) else value
    with pytest.raises(errors.Refused) as refused:
        orders.orders.create(msgspec.convert(body, NewOrder), idempotency_key=fresh())
    assert refused.value.status == 422
    assert [one.path for one in refused.value.fields] == [path]
    assert all(one.msg for one in refused.value.fields) and world.count() == before


def test_orders_create_refused_in_words(world: World, orders: Service) -> None:
    before = world.count()
    for bent in (
        {"order_set": OrderSet(lab_test_ids=[NOBODY])},
        {"order_set": OrderSet()},
        {"patient_details": {**world.body()["patient_details"], "first_name": "Zoë"}},
    ):
        with pytest.raises((errors.Refused, errors.Missing)) as refused:
            placed(world, orders, **msgspec.to_builtins(bent))
        fields = getattr(refused.value, "fields", ())
        assert refused.value.message or all(one.msg for one in fields)
    assert world.count() == before


def test_orders_import_(world: World, orders: Service) -> None:
    body = msgspec.convert(world.imported(), ImportedOrder)
    made = orders.orders.import_(body)
    assert made.data.sample_id == body.sample_id
    assert low_level(made.data.latest_event.status) == "requisition_bypassed"  # type: ignore[union-attr]
    same_as_read(world, orders, made)
    with pytest.raises(errors.Refused) as clash:
        orders.orders.import_(body)
    assert clash.value.message or clash.value.fields


def test_orders_cancel(world: World, orders: Service) -> None:
    order = placed(world, orders).data
    cancelled = orders.orders.cancel(order.id)
    assert cancelled.data.latest_event is not None
    assert cancelled.data.latest_event.status.startswith("cancelled.")
    same_as_read(world, orders, cancelled)
    with pytest.raises(errors.Refused) as refused:
        orders.orders.cancel(order.id)
    assert refused.value.status == 400 and refused.value.message


def test_orders_change_activation(world: World, orders: Service) -> None:
    day = today(world) + timedelta(days=5)
    order = placed(world, orders, activate_by=day.isoformat()).data
    assert order.activate_by == day
    later = orders.orders.change_activation(order.id, day + timedelta(days=2))
    assert later.data.activate_by == day + timedelta(days=2)
    same_as_read(world, orders, later)
    with pytest.raises(errors.Refused) as refused:
        orders.orders.change_activation(order.id, today(world) - timedelta(days=2))
    assert refused.value.status == 400 and refused.value.message
    at_once = orders.orders.change_activation(order.id, None)
    assert at_once.data.activate_by is None
    never_scheduled = placed(world, orders).data
    with pytest.raises(errors.Refused):
        orders.orders.change_activation(never_scheduled.id, day)


def test_orders_draw_completed(world: World, orders: Service) -> None:
    made = orders.orders.import_(msgspec.convert(world.imported(), ImportedOrder)).data
    drawn = orders.orders.draw_completed(made.id)
    assert low_level(drawn.data.latest_event.status) == "draw_completed"  # type: ignore[union-attr]
    same_as_read(world, orders, drawn)
    with pytest.raises(errors.Refused):
        orders.orders.draw_completed(made.id)


def test_orders_communication_settings(world: World, orders: Service) -> None:
    order = placed(world, orders).data
    settings = orders.orders.communication_settings(order.id).data
    assert (settings.order_id, settings.sms_enabled) == (order.id, True)


def test_orders_change_communication(world: World, orders: Service) -> None:
    order = placed(world, orders).data
    for is_on in (False, False, True):
        changed = orders.orders.change_communication(order.id, is_on).data
        assert (changed.order_id, changed.sms_enabled) == (order.id, is_on)
        assert orders.orders.communication_settings(order.id).data.sms_enabled is is_on


def test_orders_simulate(world: World, orders: Service) -> None:
    order = placed(world, orders).data
    flags = SimulationFlags(interpretation="critical", result_types=["numeric"])
    orders.orders.simulate(order.id, flags=flags)
    orders.orders.simulate(placed(world, orders).data.id, delay=1)
    other = placed(world, orders).data
    assert other.details.type
    orders.orders.simulate(other.id, f"received.{other.details.type}.requisition_created")
    with pytest.raises(errors.ServiceError) as refused:
        orders.orders.simulate(other.id, "no.such.status")
    assert isinstance(refused.value, errors.Refused)


def test_a_name_is_written_as_the_interface_has_it(world: World) -> None:
    details = world.body()["patient_details"]
    assert set(details) <= {one.encode_name for one in msgspec.structs.fields(NewPatient)}


@pytest.mark.parametrize(
    "act",
    [
        lambda s, key: s.orders.cancel(key),
        lambda s, key: s.orders.change_activation(key, None),
        lambda s, key: s.orders.draw_completed(key),
        lambda s, key: s.orders.change_communication(key, True),
        lambda s, key: s.orders.simulate(key),
    ],
    ids=["cancel", "change_activation", "draw_completed", "messages", "simulate"],
)
def test_orders_of_nobody_and_of_others(
    world: World, orders: Service, act: Callable[[Service, UUID], Any]
) -> None:
    with pytest.raises(errors.Missing):
        act(orders, NOBODY)
    foreign = world.value(
        "SELECT id FROM sandbox_order WHERE team_id <> '7ea00000-0000-4000-8000-000000000001'"
        " LIMIT 1"
    )
    with pytest.raises(errors.Denied):
        act(orders, foreign)
