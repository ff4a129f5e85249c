"""Sync of orders, appointments and results."""

from orders.sync.appointments import APPOINTMENT_SUBJECTS
from orders.sync.orders import CHANGES, ORDER_SUBJECT, SWEEP, store_orders
from orders.sync.results import RESULT_SUBJECT
from orders.unmatched import sync as unmatched

LISTINGS = (CHANGES, SWEEP, unmatched.LISTING)
SUBJECTS = (ORDER_SUBJECT, *APPOINTMENT_SUBJECTS, RESULT_SUBJECT, unmatched.SUBJECT)

__all__ = ["CHANGES", "LISTINGS", "SUBJECTS", "SWEEP", "store_orders"]
