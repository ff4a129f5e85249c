"""A generated clinic of any size in our own tables, as a sync would have left it.

`people.py` has names, places, tests and results. `order_histories.py` has the ways an order can go.
`rows.py` has the statements that multiply them, and `building.py` runs those. `checking.py` gives a
sample to the mirror again. `database_cache.py` stores what was built.
"""
