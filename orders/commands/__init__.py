"""What staff may ask about orders and draws: one class per write (orders.md, appointments.md)."""

from orders.commands.changing import CancelOrder, ChangeActivation, CompleteDraw, Simulate

COMMANDS = (CancelOrder, ChangeActivation, CompleteDraw, Simulate)
"""Delivered by `orders.tasks.deliver`."""

__all__ = ["COMMANDS", "CancelOrder", "ChangeActivation", "CompleteDraw", "Simulate"]
