"""Functions of the audit trail for templates."""

from __future__ import annotations

from typing import Any

from backoffice.audit.entry_list import AuditRowContext


def audit_row_context(user: Any) -> AuditRowContext:
    """Return what `audit/_entries.html` needs to know of the reader."""
    return AuditRowContext(user)
