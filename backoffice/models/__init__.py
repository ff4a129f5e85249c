"""Models that every app uses, and the models of the other packages of `backoffice`."""

from __future__ import annotations

from backoffice.models.commands import CommandAttempt, CommandRecord, CommandRecords
from backoffice.models.installation import Change, Installation
from backoffice.models.records import AS_RECEIVED, Mirrored, Read, UnreadRecord
from backoffice.models.staff import User
from backoffice.models.sync import Drift, Lookup, SyncRun
from backoffice.models.values import UnknownValue

# isort: split
# The packages below import the models above.
from backoffice.accounts.models import (
    AccountNews,
    PasswordReset,
    StaffSession,
    Throttle,
)
from backoffice.api.models import ApiToken
from backoffice.audit.models import (
    AuditCheck,
    AuditEntry,
    AuditReview,
    AuditSeal,
)
from backoffice.core.heartbeats import Backup, Heartbeat, Hold
from backoffice.pages.lists.models import BulkRow, BulkRun, ListChoice, SavedView
from backoffice.team.models import (
    Assignment,
    AssignmentChange,
    Contact,
    MailChoice,
    Note,
    Notification,
)

__all__ = [
    "AS_RECEIVED",
    "AccountNews",
    "ApiToken",
    "Assignment",
    "AssignmentChange",
    "AuditCheck",
    "AuditEntry",
    "AuditReview",
    "AuditSeal",
    "Backup",
    "BulkRow",
    "BulkRun",
    "Change",
    "CommandAttempt",
    "CommandRecord",
    "CommandRecords",
    "Contact",
    "Drift",
    "Heartbeat",
    "Hold",
    "Installation",
    "ListChoice",
    "Lookup",
    "MailChoice",
    "Mirrored",
    "Note",
    "Notification",
    "PasswordReset",
    "Read",
    "SavedView",
    "StaffSession",
    "SyncRun",
    "Throttle",
    "UnknownValue",
    "UnreadRecord",
    "User",
]
