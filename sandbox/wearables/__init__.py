"""Wearable data as a function of the seed, the wearer and the time: no sample is ever stored.

`wearers` has the persons, `measurements` and `summaries` what is measured, `links` the connections
and the time spans of their data, `samples` and `streams` the served forms, and `feeds` and
`data_events` the events.
"""
