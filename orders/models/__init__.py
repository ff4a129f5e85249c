from orders.models.appointment import Appointment, AppointmentEvent
from orders.models.critical import CriticalResult
from orders.models.draft import OrderDraft
from orders.models.order import Order, OrderEvent, Transaction
from orders.models.result import Result, ResultMarker

__all__ = [
    "Appointment",
    "AppointmentEvent",
    "CriticalResult",
    "Order",
    "OrderDraft",
    "OrderEvent",
    "Result",
    "ResultMarker",
    "Transaction",
]
