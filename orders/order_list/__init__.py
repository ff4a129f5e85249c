"""The list of orders: its columns, its rows, and what can be done to many of them.

`columns.py` and `rows.py` are the list, `verbs.py` the work on many rows, `views.py` its page.
"""
