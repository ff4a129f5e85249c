"""The history of a command: each sending and lookup, and how it ended."""

from __future__ import annotations

from datetime import datetime

from django.utils import timezone

from backoffice.outbox.models import CommandAttempt, CommandRecord
from backoffice.service import errors


class AttemptLog:
    """Context manager that writes one history row: time, phase and outcome, no content."""

    def __init__(self, row: CommandRecord, phase: str) -> None:
        self._row = row
        self._phase = phase
        self._outcome = "ended"
        self._error: errors.ServiceError | None = None
        self._began: datetime = timezone.now()

    def record(self, outcome: str, error: errors.ServiceError | None) -> None:
        self._outcome, self._error = outcome, error

    def __enter__(self) -> AttemptLog:
        return self

    def __exit__(self, error_type: type[BaseException] | None, *_: object) -> None:
        if error_type is not None:
            return  # `delivery` records faults where it handles them.
        CommandAttempt.objects.create(
            command=self._row,
            phase=self._phase,
            began_at=self._began,
            outcome=self._outcome,
            status=self._error.status if self._error else None,
            trace_id=(self._error.trace_id if self._error else "")[:64],
        )
