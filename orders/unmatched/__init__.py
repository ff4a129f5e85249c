"""Results that the service could not match to an order: staff decide (orders.md 9).

A closed beta: where the service has not enabled it for the team, there is no queue, and the pages
say so.
"""
