"""Results that the service could not match to an order: staff decide (orders.md 9).

This is a closed beta. If the service has not enabled it for the team, there is no queue, and the
pages say so.
"""
