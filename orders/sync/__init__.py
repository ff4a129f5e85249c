"""Facts about orders: the orders themselves, their appointments, their results."""

from orders.sync.appointments import APPOINTMENT_SUBJECTS
from orders.sync.orders import CHANGES, ORDER_SUBJECT, SWEEP, store_orders
from orders.sync.results import RESULT_SUBJECT

LISTINGS = (CHANGES, SWEEP)
SUBJECTS = (ORDER_SUBJECT, *APPOINTMENT_SUBJECTS, RESULT_SUBJECT)

__all__ = ["CHANGES", "LISTINGS", "SUBJECTS", "SWEEP", "store_orders"]
