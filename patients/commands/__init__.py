"""Commands about patients: one class per write to the service (users.md 2 to 5, 7 and 8)."""

from backoffice.outbox.command import Command
from patients.commands.insurance import (
    AddInsurance,
    CreatePayor,
    InsuranceRequest,
    follow_resolved_payors,
)
from patients.commands.links import MakeConnectLink
from patients.commands.patients import CreateUser, SetUserInfo
from patients.commands.sources import Deregister

COMMANDS: tuple[type[Command], ...] = (
    CreateUser,
    SetUserInfo,
    CreatePayor,
    AddInsurance,
    Deregister,
    MakeConnectLink,
)
"""Delivered by `patients.tasks.deliver`."""

__all__ = [
    "COMMANDS",
    "AddInsurance",
    "CreatePayor",
    "CreateUser",
    "Deregister",
    "InsuranceRequest",
    "MakeConnectLink",
    "SetUserInfo",
    "follow_resolved_payors",
]
