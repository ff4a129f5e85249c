"""Commands about orders and draws: one class per write (orders.md, appointments.md)."""

from orders.commands.appointment_changes import CancelAppointment, RescheduleAppointment
from orders.commands.appointments import BookCenter, BookHomeAppointment, RequestAppointment
from orders.commands.importing import ImportOrder
from orders.commands.messages import SwitchMessages
from orders.commands.order_changes import (
    CancelOrder,
    ChangeActivation,
    CompleteDraw,
    ResendEvents,
    Simulate,
)
from orders.commands.placing import CreateOrder
from orders.commands.unmatched import AcceptResult, ResolveResult

COMMANDS = (
    CancelOrder,
    ChangeActivation,
    CompleteDraw,
    ResendEvents,
    SwitchMessages,
    Simulate,
    CreateOrder,
    ImportOrder,
    RequestAppointment,
    BookHomeAppointment,
    BookCenter,
    RescheduleAppointment,
    CancelAppointment,
    AcceptResult,
    ResolveResult,
)
"""Commands that `orders.tasks.deliver` delivers."""

__all__ = [
    "COMMANDS",
    "AcceptResult",
    "BookCenter",
    "BookHomeAppointment",
    "CancelAppointment",
    "CancelOrder",
    "ChangeActivation",
    "CompleteDraw",
    "CreateOrder",
    "ImportOrder",
    "RequestAppointment",
    "RescheduleAppointment",
    "ResendEvents",
    "ResolveResult",
    "Simulate",
    "SwitchMessages",
]
