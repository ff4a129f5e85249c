"""Webhook deliveries, from the row that `sandbox.event_queue` writes to the receiver's answer.

order_events        events of changed orders and appointments
connection_changes  connections that are made or break, and their events
replay              the latest event of orders once more
sample_events       a valid event of every type
wearable_payloads   made-up wearable payloads
catalogue           the 194 event types
deliverer           leases, retries, gives up
sender              one POST
signing             the three headers
endpoints           secrets, failures, disabling
faults              intended failures
report              figures about what has been sent
"""
