"""Changes in the back office are recorded with their previous values."""

from __future__ import annotations

from datetime import UTC, datetime
from uuid import uuid4

import pytest
from django.db import transaction
from django.test import RequestFactory

from backoffice.audit.models import AuditEntry
from backoffice.audit.recording import record_change
from tests.api.rows import staff

pytestmark = pytest.mark.django_db


def test_only_differences_are_recorded(rf: RequestFactory) -> None:
    request = rf.get("/")
    request.user = staff("lab admin")
    key = uuid4()
    record_change(
        request,
        "setting",
        ["x"],
        before={"same": 1, "at": datetime(2026, 1, 1, tzinfo=UTC), "gone": key},
        after={"same": 1, "at": None, "come": [key]},
        reason="made up",
    )
    entry = AuditEntry.objects.get()
    assert entry.before == {"at": "2026-01-01T00:00:00Z", "gone": str(key)}
    assert entry.after == {"at": None, "come": [str(key)]}
    assert entry.reason == "made up"


def test_too_large_change_is_refused(rf: RequestFactory) -> None:
    request = rf.get("/")
    request.user = staff("lab admin")
    with pytest.raises(ValueError, match="characters"), transaction.atomic():
        record_change(request, "setting", [], before={}, after={"text": "x" * 30_000})
    assert not AuditEntry.objects.exists()
