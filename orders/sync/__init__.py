"""Sync of orders, appointments and results."""

from orders.sync import unmatched
from orders.sync.appointments import APPOINTMENT_LOOKUPS
from orders.sync.orders import CHANGES, ORDER_LOOKUP, SWEEP, store_orders
from orders.sync.results import RESULT_LOOKUP

SYNCED_LISTS = (CHANGES, SWEEP, unmatched.SYNCED_LIST)
LOOKUP_TYPES = (ORDER_LOOKUP, *APPOINTMENT_LOOKUPS, RESULT_LOOKUP, unmatched.LOOKUP)

__all__ = ["CHANGES", "LOOKUP_TYPES", "SWEEP", "SYNCED_LISTS", "store_orders"]
