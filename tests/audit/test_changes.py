"""What is changed in the back office itself is kept with what it was."""

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


def test_only_what_differs_is_kept(rf: RequestFactory) -> None:
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
    made = AuditEntry.objects.get()
    assert made.before == {"at": "2026-01-01T00:00:00Z", "gone": str(key)}
    assert made.after == {"at": None, "come": [str(key)]}
    assert made.reason == "made up"


def test_a_change_of_a_book_is_none(rf: RequestFactory) -> None:
    request = rf.get("/")
    request.user = staff("lab admin")
    with pytest.raises(ValueError, match="characters"), transaction.atomic():
        record_change(request, "setting", [], before={}, after={"text": "x" * 30_000})
    assert not AuditEntry.objects.exists()
