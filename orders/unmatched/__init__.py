"""Results that the service could not match: whose they are, staff decide (orders.md 9).

A closed beta: where the service has not switched it on for the team, there is no queue and the
pages say so.
"""
