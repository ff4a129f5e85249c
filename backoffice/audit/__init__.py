"""Who saw and who changed what: recorded before it is seen, sealed, checked, kept, shown.

    audit.viewed(request, "order", [order.pk], [order.user_id])       before a page is shown
    audit.asked(request, kind, ids, patients, reason)                 with a change, or not at all
    audit.changed(request, kind, ids, before=…, after=…, reason=…)    the same, with what it was

`recording.py` is the only writer of entries. `seals.py` chains digests over them every minute,
`checking.py` recomputes those, `retention.py` takes away what has grown old. The faces are
`listing.py` (the list and its download), `pages.py`, and `lookers.py` (who looked at a patient).
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
