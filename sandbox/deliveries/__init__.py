"""Webhooks from the row that `sandbox.event_queue` queued to the receiver's answer.

news        what a move of orders tells        linking    connections that come and break
replay      orders' latest event once more     samples    a valid event of every type
catalogue   the 194 types                      readings   made-up wearable payloads
deliverer   claims, retries, gives up          sender     one POST
signing     the three headers                  endpoints  secrets, failures, switching off
faults      what goes wrong on purpose         report     what has been sent
"""
