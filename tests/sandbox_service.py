"""Use a sandbox as the service of this process, and read single records from it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from uuid import UUID

from django.utils import timezone
from pytest_django import Settings

from backoffice.core import service_client
from backoffice.sync.lookups import run_due_lookups, schedule_lookups
from backoffice.sync.models import Lookup
from orders import sync as orders_sync
from patients import sync as patients_sync
from tests.sandboxes import Sandbox

LOOKUP_TYPES = (*orders_sync.LOOKUP_TYPES, *patients_sync.LOOKUP_TYPES)


@contextmanager
def sandbox_as_service(sandbox: Sandbox, settings: Settings) -> Iterator[None]:
    """Inside, the back office calls this sandbox. Prepared answers are removed at the end."""
    settings.SERVICE_BASE_URL = settings.MANAGEMENT_BASE_URL = sandbox.url
    service_client.service.cache_clear()
    yield
    sandbox.control("answers", method="DELETE")
    service_client.service.cache_clear()


def look_up(kind: str, key: Any) -> None:
    """Read one record now, with its lookup."""
    schedule_lookups(kind, [UUID(str(key))])
    Lookup.objects.filter(kind=kind).update(due_at=timezone.now())
    run_due_lookups([lookup_type for lookup_type in LOOKUP_TYPES if lookup_type.kind == kind])
