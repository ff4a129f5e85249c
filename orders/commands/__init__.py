"""What staff may ask about orders and draws: one class per write (orders.md, appointments.md)."""

from orders.commands.changing import CancelOrder, ChangeActivation, CompleteDraw, Simulate
from orders.commands.importing import ImportOrder
from orders.commands.placing import CreateOrder
from orders.commands.visits import (
    BookCenter,
    BookVisit,
    CancelVisit,
    MoveVisit,
    RequestVisit,
)

COMMANDS = (
    CancelOrder,
    ChangeActivation,
    CompleteDraw,
    Simulate,
    CreateOrder,
    ImportOrder,
    RequestVisit,
    BookVisit,
    BookCenter,
    MoveVisit,
    CancelVisit,
)
"""Delivered by `orders.tasks.deliver`."""

__all__ = [
    "COMMANDS",
    "BookCenter",
    "BookVisit",
    "CancelOrder",
    "CancelVisit",
    "ChangeActivation",
    "CompleteDraw",
    "CreateOrder",
    "ImportOrder",
    "MoveVisit",
    "RequestVisit",
    "Simulate",
]
