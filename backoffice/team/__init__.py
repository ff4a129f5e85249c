"""Team work on any record: notes, assignments, calls to patients, and notifications.

Functions of `actions.py`: `add_note`, `assign`, `release`, and `record_contact` write one row each
with its audit entry; `notify` creates notifications. For pages: `template_functions.py`.
"""
