"""The audit trail: who viewed and who changed what, recorded, sealed, verified, and shown.

    record_view(request, "order", [order.pk], [order.user_id])    before a page is shown
    record_action(request, kind, ids, patients, reason)           in the same transaction
    record_change(request, kind, ids, before=…, after=…)          the same, with old values

`recording.py` has these functions; it is the only writer of entries. `seals.py` chains digests over
them every minute, `verification.py` recomputes the digests, `retention.py` removes old entries,
`chain_head.py` remembers the end of the chain outside the database. Pages are in `entry_list.py`
(the list and its download), `views.py`, and `patient_viewers.py` (who viewed a patient).
"""
