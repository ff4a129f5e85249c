"""A made-up clinic of any size in our own tables, as a sync would have left it.

`people.py` has names, places, tests and results; `lives.py` how orders have lived; `rows.py` the
statements that multiply them; `building.py` runs those; `checking.py` gives a sample to the mirror
once more; `keeping.py` keeps what was built.
"""
