"""The audit trail: who viewed and who changed what, recorded, sealed, verified, and shown.

    audit.record_view(request, "order", [order.pk], [order.user_id])    before a page is shown
    audit.record_action(request, kind, ids, patients, reason)           in the same transaction
    audit.record_change(request, kind, ids, before=…, after=…)          the same, with old values

`recording.py` is the only writer of entries. `seals.py` chains digests over them every minute,
`verification.py` recomputes the digests, `retention.py` removes old entries, `chain_head.py`
remembers the end of the chain outside the database. Pages are in `entry_list.py` (the list and its
download), `views.py`, and `patient_viewers.py` (who viewed a patient).
"""

from backoffice.audit.recording import (
    AuditUnavailable,
    record_action,
    record_change,
    record_console_action,
    record_denied,
    record_entry,
    record_failed_sign_in,
    record_follow_up,
    record_list,
    record_sign_in,
    record_view,
)

__all__ = [
    "AuditUnavailable",
    "record_action",
    "record_change",
    "record_console_action",
    "record_denied",
    "record_entry",
    "record_failed_sign_in",
    "record_follow_up",
    "record_list",
    "record_sign_in",
    "record_view",
]
