"""Replay of events, and previews of what a replay would change.

A replay makes an event due again. The event keeps its id and its time of receipt, so it can never
overwrite newer data. A preview runs the handler in a transaction that is rolled back, and compares
the written rows with the stored ones.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import reduce
from operator import or_
from typing import Final, TypeAlias
from uuid import UUID

from django.apps import apps
from django.db import OperationalError, connection, models, transaction
from django.db.models import Count, Q, QuerySet
from django.db.models.functions import Now
from django.utils.translation import gettext

from backoffice.core import vocabulary
from backoffice.core.service_team import mirror_team
from backoffice.mirror.models import MirrorModel
from backoffice.pages.paging.counts import COUNT_CAP
from webhooks import event_envelope, event_log, payloads
from webhooks.models import Event, EventQuerySet
from webhooks.payloads import FieldChange
from webhooks.routes import FOREIGN_TEAM, TEAM_UNKNOWN, UNKNOWN_TYPE, SetAside, find_route

ROWS: Final = 20
"""Most rows of one table that a preview lists; all are counted."""
SECONDS: Final = 5
"""Time limit of a preview in seconds, because a preview holds locks."""
STEP: Final = 5_000
"""Events replayed in one transaction."""
MAX_GROUPS: Final = 50
"""Most groups by type and reason that a page lists."""
UNCOMPARED_COLUMNS: Final = frozenset({"record", "content_hash", "as_of"})
"""Columns that differ in every version and have no meaning for users."""

_ROWS_WRITTEN_SQL: Final = """
SELECT coalesce(pg_partition_root(relid), relid)::regclass::text, sum(n_tup_ins + n_tup_upd)
FROM pg_stat_xact_user_tables WHERE schemaname = 'public' GROUP BY 1
"""
_WRITTEN_HERE_SQL: Final = "xmin::text::bigint >= (pg_current_xact_id()::text::bigint & 4294967295)"
"""Condition on rows written by this transaction. It may also find rows of a transaction that
started later and has been committed.
"""


RowsByKey: TypeAlias = dict[object, dict[str, object]]
"""Values by column, by primary key; a key of several columns is a tuple."""


@dataclass(frozen=True, slots=True)
class RowChange:
    """A row that would be created or changed."""

    table: str
    key: str
    new: bool
    changes: list[FieldChange]


@dataclass(frozen=True, slots=True)
class Preview:
    """The effect of applying an event now. `reason` is why it could not be applied."""

    outcome: vocabulary.Term
    reason: str = ""
    path: str = ""
    rows: list[RowChange] = field(default_factory=list)
    written: dict[str, int] = field(default_factory=dict)
    """Number of written rows by table, including rows without a difference."""

    @property
    def failed(self) -> bool:
        return bool(self.reason)

    @property
    def set_aside(self) -> bool:
        """Whether the event would not be given to a handler."""
        return self.outcome.value in {
            set_aside.outcome for set_aside in (FOREIGN_TEAM, UNKNOWN_TYPE, TEAM_UNKNOWN)
        }


def preview(event: Event) -> Preview:
    """Return what applying `event` now would change, in a transaction that is rolled back."""
    if event.body is None:
        return Preview(
            vocabulary.term("event.outcome", "failed"), gettext("The content has been deleted.")
        )
    with transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute(f"SET LOCAL statement_timeout = '{SECONDS}s'")
            cursor.execute(f"SET LOCAL lock_timeout = '{SECONDS}s'")
            cursor.execute("SELECT pg_current_xact_id()")
        result = _preview_in_transaction(event)
        transaction.set_rollback(True)
    return result


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
        reason = gettext(
            "The preview took too long, or other changes to the same rows are in progress."
        )
        return Preview(vocabulary.term("event.outcome", "failed"), reason)
    except Exception as error:
        transaction.savepoint_rollback(savepoint)
        reason, path = event_envelope.describe_error(error)
        return Preview(vocabulary.term("event.outcome", "failed"), reason, path)
    transaction.savepoint_rollback(savepoint)
    rows = [
        change
        for table, table_rows in after.items()
        for change in _row_changes(table, table_rows, event)
    ]
    rows.sort(key=lambda row: row.key != event.subject_id)  # The event's own record is first.
    return Preview(vocabulary.term("event.outcome", outcome), rows=rows, written=written)


def _handle(event: Event) -> str:
    """Apply the event as a worker would, in the caller's transaction. Return its outcome."""
    envelope = event_envelope.read(bytes(event.body or b""))
    route = find_route(envelope, mirror_team())
    if isinstance(route, SetAside):
        return route.outcome
    received = event_envelope.received_event(
        event.pk, event.message_id, event.received_at, envelope
    )
    outcomes = (route.handler([received]) if route.handler else None) or {}
    return outcomes.get(event.message_id, route.outcome)


def _rows_written() -> dict[str, int]:
    """Return the number of rows written so far in this transaction, by table.

    Partitions count as their table.
    """
    with connection.cursor() as cursor:
        cursor.execute(_ROWS_WRITTEN_SQL)
        return {table: int(count) for table, count in cursor.fetchall() if count}


def _models() -> dict[str, type[models.Model]]:
    return {model._meta.db_table: model for model in apps.get_models()}


def _written_rows(table: str, event: Event) -> RowsByKey:
    """Return by key the rows of a table that belong to the event and this transaction wrote."""
    model = _models().get(table)
    if model is None:
        return {}
    belongs = _event_condition(model, event)
    if belongs is None:
        return {}
    written_here = f'"{table}".{_WRITTEN_HERE_SQL}'
    rows = model._default_manager.filter(belongs).extra(where=[written_here])  # noqa: S610 - our own names
    return _values(model, rows.order_by("pk")[:ROWS])


def _event_condition(model: type[models.Model], event: Event) -> Q | None:
    """Return the condition that a row of `model` belongs to the event, or None.

    An index finds the rows of the condition.
    """
    names = {item.attname for item in model._meta.concrete_fields}
    conditions: list[Q] = []
    try:
        subject = UUID(event.subject_id)
    except ValueError:
        pass
    else:
        if isinstance(model._meta.pk, models.UUIDField):
            conditions.append(Q(pk=subject))
        if "order_id" in names:
            conditions.append(Q(order_id=subject))
    # Other tables with a patient are tables of samples, with millions of rows.
    if "user_id" in names and event.user_id is not None and issubclass(model, MirrorModel):
        conditions.append(Q(user_id=event.user_id))
    return reduce(or_, conditions) if conditions else None


def _values(model: type[models.Model], rows: QuerySet[models.Model]) -> RowsByKey:
    """Return rows by key, with the columns that have a meaning for users."""
    key = [item.attname for item in model._meta.pk_fields]
    names = [
        item.attname for item in model._meta.concrete_fields if item.name not in UNCOMPARED_COLUMNS
    ]
    rows_by_key: RowsByKey = {}
    for row in rows.values(*names):
        parts = tuple(row.pop(name) for name in key)
        rows_by_key[parts if len(parts) > 1 else parts[0]] = row
    return rows_by_key


def _row_changes(table: str, after: RowsByKey, event: Event) -> list[RowChange]:
    model = _models()[table] if after else None
    if model is None:
        return []
    before = _values(model, model._default_manager.filter(pk__in=list(after)))
    row_changes = []
    for key, row in after.items():
        stored = before.get(key)
        changes = payloads.field_changes(stored or {}, row)
        if stored is None:
            changes = [change for change in changes if change.after]
        if changes:
            parts = [str(part) for part in (key if isinstance(key, tuple) else (key,))]
            name = ", ".join(part for part in parts if part != event.subject_id) or parts[0]
            row_changes.append(
                RowChange(str(model._meta.verbose_name), name, stored is None, changes)
            )
    return row_changes


# Replaying


def count_by_reason(events: EventQuerySet) -> list[dict[str, object]]:
    """Return groups by type and reason, of at most as many events as are counted."""
    first = Event.objects.filter(pk__in=events.order_by("pk").values("pk")[:COUNT_CAP])
    counts = first.values("event_type", "reason").annotate(count=Count("pk"))
    return [
        {**group, "words": event_log.type_label(group["event_type"])}
        for group in counts.order_by("-count", "event_type", "reason")[:MAX_GROUPS]
    ]


def replay(events: EventQuerySet) -> int:
    """Make these events due again, as if they had just been received. Return how many.

    They keep their ids.
    """
    return events.with_body().update(
        state=Event.State.PENDING,
        outcome="",
        reason="",
        path="",
        attempts=0,
        due_at=Now(),
        applied_at=None,
    )


def replay_in_steps(
    events: EventQuerySet, before: Callable[[int], None], seconds: float
) -> tuple[int, bool]:
    """Replay many events, some thousands per transaction, for about `seconds`.

    `before` is called with the number of events of the next transaction. Return how many events
    were replayed, and whether any are left.
    """
    ends = time.monotonic() + seconds
    replayed = last_number = 0
    while numbers := list(
        events.filter(pk__gt=last_number).order_by("pk").values_list("pk", flat=True)[:STEP]
    ):
        if last_number and time.monotonic() >= ends:
            return replayed, True
        before(len(numbers))
        replayed += replay(events.filter(pk__in=numbers))
        last_number = numbers[-1]
    return replayed, False


@dataclass(frozen=True, slots=True)
class EventPreview:
    """An event and the preview of its replay."""

    event: Event
    preview: Preview


def preview_all(events: Sequence[Event]) -> list[EventPreview]:
    """Preview several events, each in its own transaction."""
    return [EventPreview(event, preview(event)) for event in events]
