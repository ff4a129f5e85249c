"""Sync of orders, appointments and results."""

from orders.sync import unmatched
from orders.sync.appointments import APPOINTMENT_LOOKUPS
from orders.sync.orders import ALL_ORDERS, CHANGED_ORDERS, ORDER_LOOKUP, store_orders
from orders.sync.results import RESULT_LOOKUP

SYNCED_LISTS = (CHANGED_ORDERS, ALL_ORDERS, unmatched.SYNCED_LIST)
LOOKUP_TYPES = (ORDER_LOOKUP, *APPOINTMENT_LOOKUPS, RESULT_LOOKUP, unmatched.LOOKUP)

__all__ = ["ALL_ORDERS", "CHANGED_ORDERS", "LOOKUP_TYPES", "SYNCED_LISTS", "store_orders"]
