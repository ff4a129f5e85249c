"""For every command: how to create one, and how to count its effects at the service.

Records are created at the sandbox and read into the mirror, so that no test depends on existing
ones. `count_effects` counts rows of the sandbox's own database.
"""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from typing import Final
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
from tests.outbox.records import CommandCase, SandboxRecords

CLINIC_DRAW_TEST = "Clinic Draw Basic"


def _date_in(days: int) -> date:
    return (datetime.now(UTC) + timedelta(days=days)).date()


def _create_cancellation(records: SandboxRecords) -> CancelOrder:
    order = records.place_order(CLINIC_DRAW_TEST)
    return CancelOrder(order_id=order.pk, user_id=order.user_id)


def _count_cancellations(records: SandboxRecords, command: CancelOrder, _: UUID) -> int:
    return records.count_events(command.order_id, "cancelled")


def _create_activation_change(records: SandboxRecords) -> ChangeActivation:
    order = records.place_order(CLINIC_DRAW_TEST, activate_by=str(_date_in(20)))
    return ChangeActivation(order_id=order.pk, user_id=order.user_id, activate_by=_date_in(25))


def _count_activation_changes(records: SandboxRecords, command: ChangeActivation, _: UUID) -> int:
    return records.count(
        "SELECT count(*) FROM sandbox_order WHERE id = %s AND activate_by = %s",
        command.order_id,
        command.activate_by,
    )


def _create_draw(records: SandboxRecords) -> CompleteDraw:
    order = records.place_order(CLINIC_DRAW_TEST, "received.on_site_collection.requisition_created")
    return CompleteDraw(order_id=order.pk, user_id=order.user_id)


def _count_draws(records: SandboxRecords, command: CompleteDraw, _: UUID) -> int:
    return records.count_events(command.order_id, "draw_completed")


RESENDS_URL: Final = "http://127.0.0.1:9/resends/"
"""The endpoint whose messages are counted. Nothing listens there, and no other case changes it."""


def _create_resend(records: SandboxRecords) -> ResendEvents:
    records.ensure_endpoint(RESENDS_URL)
    order = records.place_order(CLINIC_DRAW_TEST)
    return ResendEvents(order_id=order.pk, user_id=order.user_id)


def _count_resends(records: SandboxRecords, command: ResendEvents, _: UUID) -> int:
    """Count up to 2: the first message announced the order, all later ones count as one."""
    statement = (
        "SELECT count(*) FROM sandbox_message JOIN sandbox_webhookendpoint AS endpoint"
        " ON endpoint.id = endpoint_id WHERE url = %s AND body LIKE %s"
    )
    return min(2, records.count(statement, RESENDS_URL, f"%{command.order_id}%"))


def _create_message_switch(records: SandboxRecords) -> SwitchMessages:
    order = records.place_order(CLINIC_DRAW_TEST)
    return SwitchMessages(order_id=order.pk, user_id=order.user_id, sms_enabled=False, seen=True)


def _count_message_switches(records: SandboxRecords, command: SwitchMessages, _: UUID) -> int:
    return records.count(
        "SELECT count(*) FROM sandbox_order WHERE id = %s AND sms_enabled = %s",
        command.order_id,
        command.sms_enabled,
    )


def _create_simulation(records: SandboxRecords) -> Simulate:
    order = records.place_order(CLINIC_DRAW_TEST)
    return Simulate(
        order_id=order.pk,
        user_id=order.user_id,
        final_status="completed.on_site_collection.completed",
        before=order.last_event_id,
    )


def _count_simulations(records: SandboxRecords, command: Simulate, _: UUID) -> int:
    return records.count_events(command.order_id, "completed")


def _create_new_order(records: SandboxRecords) -> CreateOrder:
    body = records.world.body(user_id=str(cases_people.new_user()))
    return CreateOrder(words="Made up", body=msgspec.convert(body, NewOrder))


def _count_new_orders(records: SandboxRecords, _: CreateOrder, row_id: UUID) -> int:
    """Count by the id of the command, which is sent along."""
    return records.count(
        "SELECT count(*) FROM sandbox_order WHERE fixed_part LIKE %s", f"%{row_id}%"
    )


def _create_import(records: SandboxRecords) -> ImportOrder:
    body = msgspec.convert(records.world.imported(), ImportedOrder)
    return ImportOrder(words="Made up", body=body)


def _count_imports(records: SandboxRecords, command: ImportOrder, _: UUID) -> int:
    return records.count(
        "SELECT count(*) FROM sandbox_order WHERE sample_id = %s", command.body.sample_id
    )


CASES: tuple[CommandCase, ...] = (
    CommandCase(CancelOrder, _create_cancellation, _count_cancellations, "/cancel$"),
    CommandCase(
        ChangeActivation,
        _create_activation_change,
        _count_activation_changes,
        "/v3/order/[0-9a-f-]+$",
    ),
    CommandCase(CompleteDraw, _create_draw, _count_draws, "/draw_completed$"),
    CommandCase(ResendEvents, _create_resend, _count_resends, "/resend_events$"),
    CommandCase(
        SwitchMessages, _create_message_switch, _count_message_switches, "/communication_settings$"
    ),
    CommandCase(Simulate, _create_simulation, _count_simulations, "/test$"),
    CommandCase(CreateOrder, _create_new_order, _count_new_orders, "/order/create$"),
    CommandCase(ImportOrder, _create_import, _count_imports, "/order/import$"),
    *cases_people.CASES,
    *cases_labs.CASES,
    *cases_unmatched.CASES,
    *cases_visits.CASES,
    *cases_webhooks.CASES,
)
