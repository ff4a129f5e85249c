"""Have events applied again: what that would change, and doing it.

A replay only makes an event due again. It keeps its number and its moment of receipt, so it can
never beat anything newer that we learned meanwhile. A preview runs the very handler inside a
transaction that is rolled back, and compares the rows it wrote with what stands there without it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final
from uuid import UUID

from django.apps import apps
from django.db import OperationalError, connection, models, transaction
from django.db.models import Q, QuerySet
from django.db.models.functions import Now

from backoffice.core import vocabulary
from backoffice.core.service_team import mirror_team
from backoffice.models import Mirrored
from webhooks import apply_events, event_envelope, payloads
from webhooks.models import Event
from webhooks.payloads import FieldChange
from webhooks.routes import FOREIGN_TEAM, TEAM_UNKNOWN, UNKNOWN_TYPE, SetAside, find_route

ROWS: Final = 20
"""Rows of one table whose differences a preview lists; all are counted."""
SECONDS: Final = 5
"""A preview must not hold what it locks for longer."""
STEP: Final = 5_000
"""Events replayed in one transaction."""
UNCOMPARED_COLUMNS: Final = frozenset({"record", "content_hash", "as_of"})
"""Columns that differ with every version and tell a reader nothing."""

_ROWS_WRITTEN_SQL: Final = """
SELECT coalesce(pg_partition_root(relid), relid)::regclass::text, sum(n_tup_ins + n_tup_upd)
FROM pg_stat_xact_user_tables WHERE schemaname = 'public' GROUP BY 1
"""
_WRITTEN_HERE_SQL: Final = "xmin::text::bigint >= (pg_current_xact_id()::text::bigint & 4294967295)"
"""Rows written by this transaction; one that committed since it began may be among them."""


@dataclass(frozen=True, slots=True)
class RowChange:
    """One row that would be new or other."""

    table: str
    key: str
    new: bool
    changes: list[FieldChange]


@dataclass(frozen=True, slots=True)
class Preview:
    """What applying an event now would do. `reason` says why it could not be applied."""

    outcome: vocabulary.Term
    reason: str = ""
    path: str = ""
    rows: list[RowChange] = field(default_factory=list)
    written: dict[str, int] = field(default_factory=dict)
    """Rows written by table, those without a difference included."""

    @property
    def failed(self) -> bool:
        return bool(self.reason)

    @property
    def set_aside(self) -> bool:
        """Whether no handler would get it."""
        return self.outcome.value in {
            way.outcome for way in (FOREIGN_TEAM, UNKNOWN_TYPE, TEAM_UNKNOWN)
        }


def preview(event: Event) -> Preview:
    """What applying `event` now would change. Changes nothing. Opens a transaction of its own."""
    if event.body is None:
        return Preview(vocabulary.term("event.outcome", "failed"), "its body has been forgotten")
    with transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute(f"SET LOCAL statement_timeout = '{SECONDS}s'")
            cursor.execute(f"SET LOCAL lock_timeout = '{SECONDS}s'")
            cursor.execute("SELECT pg_current_xact_id()")
        found = _preview_in_transaction(event)
        transaction.set_rollback(True)
    return found


def _preview_in_transaction(event: Event) -> Preview:
    before = _rows_written()
    savepoint = transaction.savepoint()
    try:
        with transaction.atomic():
            outcome = _handle(event)
        written = {
            table: count - before.get(table, 0)
            for table, count in _rows_written().items()
            if count > before.get(table, 0)
        }
        after = {table: _written_rows(table, event) for table in written}
    except OperationalError:
        transaction.savepoint_rollback(savepoint)
        words = "it takes too long to try now, or others are writing the same rows"
        return Preview(vocabulary.term("event.outcome", "failed"), words)
    except Exception as error:
        transaction.savepoint_rollback(savepoint)
        reason, path = event_envelope.describe_error(error)
        return Preview(vocabulary.term("event.outcome", "failed"), reason, path)
    transaction.savepoint_rollback(savepoint)
    rows = [
        change for table, found in after.items() for change in _row_changes(table, found, event)
    ]
    rows.sort(key=lambda row: row.key != event.subject_id)  # The record it is about comes first.
    return Preview(vocabulary.term("event.outcome", outcome), rows=rows, written=written)


def _handle(event: Event) -> str:
    """Apply the event as a drain would, inside the caller's transaction. Returns its outcome."""
    envelope = event_envelope.read(bytes(event.body or b""))
    route = find_route(envelope, mirror_team())
    if isinstance(route, SetAside):
        return route.outcome
    heard = event_envelope.received_event(event.pk, event.message_id, event.received_at, envelope)
    return apply_events.apply_route(route, [heard])[event.message_id]


def _rows_written() -> dict[str, int]:
    """Rows written so far in this transaction, by table; partitions count as their table."""
    with connection.cursor() as cursor:
        cursor.execute(_ROWS_WRITTEN_SQL)
        return {table: int(count) for table, count in cursor.fetchall() if count}


def _models() -> dict[str, type[models.Model]]:
    return {model._meta.db_table: model for model in apps.get_models()}


def _written_rows(table: str, event: Event) -> dict[Any, dict[str, Any]]:
    """Rows of a table that belong to the event and were written just now, by key."""
    model = _models().get(table)
    if model is None:
        return {}
    belongs = _event_condition(model, event)
    if belongs is None:
        return {}
    ours = f'"{table}".{_WRITTEN_HERE_SQL}'
    rows = model._default_manager.filter(belongs).extra(where=[ours])  # noqa: S610 - our own names
    return _values(model, rows.order_by("pk")[:ROWS])


def _event_condition(model: type[models.Model], event: Event) -> Q | None:
    """The condition, answered by an index, that a row of `model` belongs to the event."""
    names = {item.attname for item in model._meta.concrete_fields}
    found: list[Q] = []
    try:
        subject = UUID(event.subject_id)
    except ValueError:
        pass
    else:
        if isinstance(model._meta.pk, models.UUIDField):
            found.append(Q(pk=subject))
        if "order_id" in names:
            found.append(Q(order_id=subject))
    # Other tables by patient are samples, by the million.
    if "user_id" in names and event.user_id is not None and issubclass(model, Mirrored):
        found.append(Q(user_id=event.user_id))
    condition = None
    for each in found:
        condition = each if condition is None else condition | each
    return condition


def _values(model: type[models.Model], rows: QuerySet[Any]) -> dict[Any, dict[str, Any]]:
    """Rows by key, with the columns that tell a reader something."""
    key = [item.attname for item in model._meta.pk_fields]
    names = [
        item.attname for item in model._meta.concrete_fields if item.name not in UNCOMPARED_COLUMNS
    ]
    found = {}
    for row in rows.values(*names):
        parts = tuple(row.pop(name) for name in key)
        found[parts if len(parts) > 1 else parts[0]] = row
    return found


def _row_changes(table: str, after: dict[Any, dict[str, Any]], event: Event) -> list[RowChange]:
    model = _models()[table] if after else None
    if model is None:
        return []
    before = _values(model, model._default_manager.filter(pk__in=list(after)))
    found = []
    for key, row in after.items():
        known = before.get(key)
        changes = payloads.field_changes(known or {}, row)
        if known is None:
            changes = [change for change in changes if change.after]
        if changes:
            parts = [str(part) for part in (key if isinstance(key, tuple) else (key,))]
            name = ", ".join(part for part in parts if part != event.subject_id) or parts[0]
            found.append(RowChange(str(model._meta.verbose_name), name, known is None, changes))
    return found


# Doing it


def replayable() -> QuerySet[Event]:
    """Events that can be applied again: their body is still here."""
    return Event.objects.filter(body__isnull=False)


def replay(events: QuerySet[Event]) -> int:
    """Make these events due again, as if they had just been received for the first time; they keep
    their numbers. Returns how many."""
    return events.filter(body__isnull=False).update(
        state=Event.State.PENDING,
        outcome="",
        reason="",
        path="",
        attempts=0,
        due_at=Now(),
        applied_at=None,
    )


def replay_in_steps(
    events: QuerySet[Event], before: Callable[[int], None], seconds: float
) -> tuple[int, bool]:
    """Replay many, some thousands in a transaction, for about `seconds`. `before` is told how many
    the next step takes. Returns how many were replayed, and whether any are left."""
    ends = time.monotonic() + seconds
    done = last = 0
    while numbers := list(
        events.filter(pk__gt=last).order_by("pk").values_list("pk", flat=True)[:STEP]
    ):
        if last and time.monotonic() >= ends:
            return done, True
        before(len(numbers))
        done += replay(events.filter(pk__in=numbers))
        last = numbers[-1]
    return done, False


@dataclass(frozen=True, slots=True)
class EventPreview:
    """How an event of many would fare."""

    event: Event
    preview: Preview


def preview_all(events: Sequence[Event]) -> list[EventPreview]:
    """Preview several events, each by itself."""
    return [EventPreview(event, preview(event)) for event in events]
