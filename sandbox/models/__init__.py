"""Tables of the sandbox, one module per noun."""

from sandbox.models.appointments import Appointment, AppointmentEvent
from sandbox.models.catalogue import (
    ExpectedResult,
    Lab,
    LabAccount,
    LabTest,
    LabTestMarker,
    Loinc,
    Marker,
    Physician,
    PscSite,
    ServiceArea,
)
from sandbox.models.deliveries import DeliverySettings, Message, WebhookEndpoint
from sandbox.models.insurance import DiagnosisCode, Insurance, Payor
from sandbox.models.orders import Order, OrderEvent, OrderTransaction, Shipment
from sandbox.models.people import Connection, HistoricalPull, Provider, User, UserInfo
from sandbox.models.reports import ReportJob, ReportSettings
from sandbox.models.wearables import Feed, PullStep
from sandbox.models.world import Team, World
from sandbox.models.writes import IdempotentOutcome, Placement, UnmatchedResult, UnmatchedRun

__all__ = [
    "Appointment",
    "AppointmentEvent",
    "Connection",
    "DeliverySettings",
    "DiagnosisCode",
    "ExpectedResult",
    "Feed",
    "HistoricalPull",
    "IdempotentOutcome",
    "Insurance",
    "Lab",
    "LabAccount",
    "LabTest",
    "LabTestMarker",
    "Loinc",
    "Marker",
    "Message",
    "Order",
    "OrderEvent",
    "OrderTransaction",
    "Payor",
    "Physician",
    "Placement",
    "Provider",
    "PscSite",
    "PullStep",
    "ReportJob",
    "ReportSettings",
    "ServiceArea",
    "Shipment",
    "Team",
    "UnmatchedResult",
    "UnmatchedRun",
    "User",
    "UserInfo",
    "WebhookEndpoint",
    "World",
]
