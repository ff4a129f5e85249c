"""For every command: how to come by one, and how to count at the service what came of it.

Subjects are made at the sandbox and read into the mirror, so that no test waits for the right one
to turn up. `effects` counts rows of the sandbox's own database.
"""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from uuid import UUID

import msgspec

from backoffice.service.orders import ImportedOrder, NewOrder
from orders.commands import (
    CancelOrder,
    ChangeActivation,
    CompleteDraw,
    CreateOrder,
    ImportOrder,
    ResendEvents,
    Simulate,
    SwitchMessages,
)
from tests.outbox import (
    cases_labs,
    cases_people,
    cases_unmatched,
    cases_visits,
    cases_webhooks,
)
from tests.outbox.scene import Case, Scene

DRAWN = "Clinic Draw Basic"


def _soon(days: int) -> date:
    return (datetime.now(UTC) + timedelta(days=days)).date()


def _cancel(scene: Scene) -> CancelOrder:
    order = scene.order(DRAWN)
    return CancelOrder(order_id=order.pk, user_id=order.user_id)


def _cancelled(scene: Scene, command: CancelOrder, _: UUID) -> int:
    return scene.events(command.order_id, "cancelled")


def _activation(scene: Scene) -> ChangeActivation:
    order = scene.order(DRAWN, activate_by=str(_soon(20)))
    return ChangeActivation(order_id=order.pk, user_id=order.user_id, activate_by=_soon(25))


def _activated(scene: Scene, command: ChangeActivation, _: UUID) -> int:
    return scene.count(
        "SELECT count(*) FROM sandbox_order WHERE id = %s AND activate_by = %s",
        command.order_id,
        command.activate_by,
    )


def _draw(scene: Scene) -> CompleteDraw:
    order = scene.order(DRAWN, "received.on_site_collection.requisition_created")
    return CompleteDraw(order_id=order.pk, user_id=order.user_id)


def _drawn(scene: Scene, command: CompleteDraw, _: UUID) -> int:
    return scene.events(command.order_id, "draw_completed")


def _resend(scene: Scene) -> ResendEvents:
    scene.somebody_listens()
    order = scene.order(DRAWN)
    return ResendEvents(order_id=order.pk, user_id=order.user_id)


def _resent(scene: Scene, command: ResendEvents, _: UUID) -> int:
    """Once or more is the same; the first message told that the order was made."""
    told = "SELECT count(*) FROM sandbox_message WHERE body LIKE %s"
    return min(2, scene.count(told, f"%{command.order_id}%"))


def _messages(scene: Scene) -> SwitchMessages:
    order = scene.order(DRAWN)
    return SwitchMessages(order_id=order.pk, user_id=order.user_id, sms_enabled=False, seen=True)


def _switched(scene: Scene, command: SwitchMessages, _: UUID) -> int:
    return scene.count(
        "SELECT count(*) FROM sandbox_order WHERE id = %s AND sms_enabled = %s",
        command.order_id,
        command.sms_enabled,
    )


def _simulate(scene: Scene) -> Simulate:
    order = scene.order(DRAWN)
    return Simulate(
        order_id=order.pk,
        user_id=order.user_id,
        final_status="completed.on_site_collection.completed",
        before=order.last_event_id,
    )


def _simulated(scene: Scene, command: Simulate, _: UUID) -> int:
    return scene.events(command.order_id, "completed")


def _create(scene: Scene) -> CreateOrder:
    body = scene.world.body(user_id=str(cases_people.new_user()))
    return CreateOrder(words="Made up", body=msgspec.convert(body, NewOrder))


def _created(scene: Scene, _: CreateOrder, row_id: UUID) -> int:
    """By the command's own id, which goes along."""
    return scene.count("SELECT count(*) FROM sandbox_order WHERE fixed_part LIKE %s", f"%{row_id}%")


def _import(scene: Scene) -> ImportOrder:
    body = msgspec.convert(scene.world.imported(), ImportedOrder)
    return ImportOrder(words="Made up", body=body)


def _imported(scene: Scene, command: ImportOrder, _: UUID) -> int:
    return scene.count(
        "SELECT count(*) FROM sandbox_order WHERE sample_id = %s", command.body.sample_id
    )


CASES: tuple[Case, ...] = (
    Case(CancelOrder, _cancel, _cancelled, "/cancel$"),
    Case(ChangeActivation, _activation, _activated, "/v3/order/[0-9a-f-]+$"),
    Case(CompleteDraw, _draw, _drawn, "/draw_completed$"),
    Case(ResendEvents, _resend, _resent, "/resend_events$"),
    Case(SwitchMessages, _messages, _switched, "/communication_settings$"),
    Case(Simulate, _simulate, _simulated, "/test$"),
    Case(CreateOrder, _create, _created, "/order/create$"),
    Case(ImportOrder, _import, _imported, "/order/import$"),
    *cases_people.CASES,
    *cases_labs.CASES,
    *cases_unmatched.CASES,
    *cases_visits.CASES,
    *cases_webhooks.CASES,
)
