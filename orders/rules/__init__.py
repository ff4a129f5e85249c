"""Rules of the clinic about orders, apart from pages, commands and sync, which use them.

appointment_rules.py    when an appointment may be booked, moved, canceled
slots.py                the times that are offered
result_identity.py      whether a result names its patient

Elsewhere: what is critical or abnormal, `backoffice/core/vocabulary/interpretations.py`; the rank
in the review queue and what counts as signed, `orders/sql/reviews.sql`; status groups,
`backoffice/core/vocabulary/data.py` and `orders/decided_statuses.py`; how long a step may take,
`orders/turnaround/limits.py`.
"""
