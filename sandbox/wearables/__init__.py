"""Wearable data as a function of the seed, the wearer and the time: no sample is ever stored.

`bodies` is the person, `measures` and `summaries` what is measured, `links` whose it is and from
when to when it is held, `samples` and `streams` how it is served, `feeds` how it is told.
"""
