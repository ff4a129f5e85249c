from orders.models.appointment import Appointment, AppointmentEvent
from orders.models.critical import CriticalResult
from orders.models.order import Order, OrderEvent, Transaction
from orders.models.result import Result, ResultMarker

__all__ = [
    "Appointment",
    "AppointmentEvent",
    "CriticalResult",
    "Order",
    "OrderEvent",
    "Result",
    "ResultMarker",
    "Transaction",
]
