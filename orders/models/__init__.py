from orders.models.appointment import Appointment, AppointmentEvent
from orders.models.critical import CriticalResult
from orders.models.draft import OrderDraft
from orders.models.order import Order, OrderEvent, Transaction
from orders.models.result import Result, ResultMarker
from orders.unmatched.models import Candidate, UnmatchedResult

__all__ = [
    "Appointment",
    "AppointmentEvent",
    "Candidate",
    "CriticalResult",
    "Order",
    "OrderDraft",
    "OrderEvent",
    "Result",
    "ResultMarker",
    "Transaction",
    "UnmatchedResult",
]
