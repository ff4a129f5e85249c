from orders.models.appointment import Appointment, AppointmentEvent
from orders.models.order import Order, OrderEvent, Transaction
from orders.models.result import Result, ResultMarker

__all__ = [
    "Appointment",
    "AppointmentEvent",
    "Order",
    "OrderEvent",
    "Result",
    "ResultMarker",
    "Transaction",
]
