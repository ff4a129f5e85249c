"""Bulk actions: one action applied to many rows, in the background.

When somebody starts a run, one statement selects its rows with the filter and stores their keys. A
worker leases a run (`lease_until`), applies the action row by row, and records the outcome of each
row. If a worker dies, the other rows stay waiting, and the next worker continues with them. For an
action that sends commands (`BulkAction.sends_command`), the action and its outcome cannot be one
transaction. Then the action must be idempotent: a second call finds the command of the first.
"""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, ClassVar, Final
from uuid import UUID

from celery.exceptions import SoftTimeLimitExceeded
from django.db import IntegrityError, connection, transaction
from django.db.models import F, Field, Q, QuerySet, UUIDField, Value
from django.db.models.functions import Cast, Now
from django.http import HttpRequest
from django.utils import timezone
from django.utils.translation import gettext, gettext_noop

from backoffice.accounts.access import may, staff_user
from backoffice.accounts.models import User
from backoffice.audit.recording import record_action
from backoffice.outbox.forms import CommandForm
from backoffice.pages.lists.definition import ListPage
from backoffice.pages.models import BulkRow, BulkRun

logger = logging.getLogger(__name__)

MAX_RUN_ROWS: Final = 100_000
"""Most rows of one run."""
BATCH: Final = 50
SECONDS: Final = 8.0
"""Seconds that one task works, because the runs of other people wait too."""
LONGEST: Final = 50
LEASE: Final = timedelta(seconds=60)
RUN_LIFETIME: Final = timedelta(days=30)
FAULT: Final = gettext_noop("An error in the back office. It was logged.")
NOT_ALLOWED: Final = gettext_noop("The person who started this no longer has permission.")

State = BulkRun.State


class RowNotDone(Exception):
    """A row was not changed. `words` has the reason, for staff."""

    def __init__(self, words: str) -> None:
        super().__init__(words)
        self.words = words


class TooManyRows(Exception):
    """The filter matches more rows than one run may have."""


class MatchesChanged(Exception):
    """The filter no longer matches the rows that the user confirmed."""


@dataclass(frozen=True, slots=True)
class MatchDigest:
    """The set of rows that match a filter: their number, and a digest of their keys.

    The digest does not depend on the order of the keys.
    """

    total: int
    digest: str

    @classmethod
    def of(cls, rows: QuerySet[Any]) -> MatchDigest:
        """Return the digest of the rows that match now. One query."""
        sql, parameters = rows.order_by().values_list("pk").query.sql_with_params()
        return cls._read(f"SELECT {_DIGEST} FROM ({sql}) AS found (key)", parameters)  # noqa: S608

    @classmethod
    def of_run(cls, run: BulkRun) -> MatchDigest:
        """Return the digest of the rows of a run."""
        return cls._read(
            f"SELECT {_DIGEST} FROM pages_bulkrow WHERE run_id = %s",  # noqa: S608
            [run.pk],
        )

    @classmethod
    def _read(cls, sql: str, parameters: Sequence[Any]) -> MatchDigest:
        with connection.cursor() as cursor:
            cursor.execute(sql, parameters)
            total, digest = cursor.fetchone()
        return cls(total, str(digest or 0))


_DIGEST: Final = "count(*), bit_xor(hashtextextended(key::text, 0))"


class BulkAction:
    """An action that can be applied to many rows."""

    name: ClassVar[str]
    label: ClassVar[str]
    """The text of its button in the list, as a verb."""
    needs: ClassVar[tuple[str, ...]]
    form: ClassVar[type[CommandForm]] = CommandForm
    needs_confirmation: ClassVar[bool] = True
    """Whether a page with its form, or with its consequences, is shown first."""
    sends_command: ClassVar[bool] = False
    """Whether each row becomes a command to the service, in a transaction of its own."""
    max_rows: ClassVar[int] = MAX_RUN_ROWS

    @property
    def button_label(self) -> str:
        """The text of the button that starts the run."""
        return gettext(self.label).removesuffix("…")

    @property
    def heading(self) -> str:
        return gettext(self.title({}))

    def title(self, given: Mapping[str, Any]) -> str:
        """Return the title to store with a run, in English."""
        return self.label.removesuffix("…")

    def parameters(self, form: CommandForm) -> dict[str, Any]:
        """Return the values of the form that a worker needs, as JSON."""
        return {}

    def review(self, rows: QuerySet[Any], user: Any) -> dict[str, Any]:
        """Return the context of the confirmation page.

        That is `words`, or the values that the template of the action needs. `shown` has the rows
        that the page lists one by one.
        """
        return {}

    def apply(self, request: HttpRequest, row: BulkRow, given: Mapping[str, Any]) -> UUID | None:
        """Apply the action to one row, on behalf of `request.user`.

        Returns the id of the command, if the action sends one. Raises RowNotDone.
        """
        raise NotImplementedError


def start_run(
    request: HttpRequest,
    list_page: ListPage,
    action: BulkAction,
    rows: QuerySet[Any],
    form: CommandForm,
    query: Mapping[str, list[str]],
    again: BulkRun | None = None,
    confirmed: MatchDigest | None = None,
) -> BulkRun | None:
    """Create a run and its rows. A form that is sent twice makes one run.

    Returns None if no row matches. `confirmed` is the digest that the user saw. Raises TooManyRows,
    or MatchesChanged if other rows match now; then nothing is written.
    """
    user = staff_user(request)
    form_id: UUID = form.cleaned_data["form_id"]
    known = BulkRun.objects.filter(form_id=form_id, asked_by=user).first()
    if known is not None:
        return known
    visible = list_page.visible_rows(user)
    if rows.model is not visible.model:  # A group of exceptions has other rows.
        rows = visible.filter(pk__in=rows.order_by().values("pk"))
    given = action.parameters(form) if again is None else again.given
    run = BulkRun(
        listing=list_page.name,
        verb=action.name,
        title=action.title(given)[:200],
        given=given,
        query=dict(query),
        asked_by=user,
        form_id=form_id,
        again=again,
        total=0,
    )
    try:
        with transaction.atomic(durable=True):
            # Of two simultaneous clicks, the second waits here and then violates the constraint.
            run.save(force_insert=True)
            run.total = _gather(run, list_page, rows, action.max_rows)
            if not run.total:
                transaction.set_rollback(True)
                return None
            # Compare after the rows are written: what the filter matches may change at any moment.
            if confirmed is not None and MatchDigest.of_run(run) != confirmed:
                raise MatchesChanged
            run.save(update_fields=["total"])
            record_action(request, f"bulk {action.name}", [run.pk], [])
    except IntegrityError:
        return BulkRun.objects.get(form_id=form_id, asked_by=user)
    return run


def _gather(run: BulkRun, list_page: ListPage, rows: QuerySet[Any], most: int) -> int:
    """Store the keys of `rows` with one statement. Return their number."""
    column = list_page.patient_column
    patient = F(column) if column else Value(None, UUIDField())
    matching = rows.order_by().annotate(bulk_patient=patient).values_list("pk", "bulk_patient")
    sql, parameters = matching.query.sql_with_params()
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO pages_bulkrow (run_id, key, patient_id)"
            " SELECT %s, found.key::text, found.patient::uuid"
            f" FROM ({sql}) AS found (key, patient) LIMIT %s",
            [run.pk, *parameters, most + 1],
        )
        count = cursor.rowcount
    if count > most:
        raise TooManyRows
    return int(count)


def key_field(rows: QuerySet[Any]) -> Field[Any, Any]:
    """Return the field with the type of the primary key of `rows`."""
    key: Any = rows.model._meta.pk
    field: Field[Any, Any] = getattr(key, "target_field", key)
    return field


def rows_with_keys(rows: QuerySet[Any], bulk_rows: QuerySet[BulkRow]) -> QuerySet[Any]:
    """Return those of `rows` that `bulk_rows` name."""
    keys = bulk_rows.annotate(row=Cast("key", key_field(rows))).values("row")
    return rows.filter(pk__in=keys)


def stop_run(run: BulkRun) -> bool:
    """Stop a run: no further row is started. Return False if it had ended already."""
    return bool(stop_open_runs(BulkRun.objects.filter(pk=run.pk)))


def stop_open_runs(runs: QuerySet[BulkRun]) -> int:
    """Stop those of the runs that are open. Return their number."""
    return runs.filter(state=State.OPEN).update(
        state=State.STOPPED, finished_at=Now(), lease_token=None, lease_until=None
    )


def process_runs(lists: Sequence[ListPage], seconds: float = SECONDS) -> int:
    """Work on open runs for about this time. Return the number of rows processed."""
    ends = time.monotonic() + seconds
    done = 0
    while time.monotonic() < ends:
        token = uuid.uuid4()
        run = _claim_run(lists, token)
        if run is None:
            break
        try:
            done += _work(run, token, lists, ends)
        finally:
            # Other runs come first now: the next one is the run whose lease ended first.
            BulkRun.objects.filter(pk=run.pk, lease_token=token).update(
                lease_token=None, lease_until=Now()
            )
    return done


def delete_old_runs() -> int:
    """Delete runs that ended long ago. The audit trail has the outcomes of their rows."""
    old = BulkRun.objects.exclude(state=State.OPEN).filter(
        finished_at__lt=timezone.now() - RUN_LIFETIME
    )
    return old.delete()[0]


def _claim_run(lists: Sequence[ListPage], token: UUID) -> BulkRun | None:
    with transaction.atomic(durable=True):
        free = Q(lease_until=None) | Q(lease_until__lt=Now())
        claimable = BulkRun.objects.filter(
            free, state=State.OPEN, listing__in=[one.name for one in lists]
        )
        # The partial index has the open runs only, so only a few rows are sorted.
        run = (
            claimable.order_by(F("lease_until").asc(nulls_first=True), "asked_at")
            .select_for_update(skip_locked=True)
            .first()
        )
        if run is None:
            return None
        BulkRun.objects.filter(pk=run.pk).update(lease_token=token, lease_until=Now() + LEASE)
    return run


def _work(run: BulkRun, token: UUID, lists: Sequence[ListPage], ends: float) -> int:
    list_page = next(one for one in lists if one.name == run.listing)
    action = next((one for one in list_page.bulk_actions if one.name == run.verb), None)
    user = User.objects.get(pk=run.asked_by_id)
    waiting = BulkRow.objects.filter(run=run.pk, state=BulkRow.State.WAITING).order_by("key")
    if action is None or not (user.is_active and may(user, *list_page.needs, *action.needs)):
        _give_up(run, token)
        return 0
    request = _request_of_user(user, run)
    done = 0
    while time.monotonic() < ends:
        batch = list(waiting[:BATCH])
        if not batch:
            BulkRun.objects.filter(pk=run.pk, lease_token=token).update(
                state=State.DONE, finished_at=Now()
            )
            break
        for row in batch:
            if not _one(action, run, row, request, token):
                return done
            done += 1
            if time.monotonic() > ends:
                break
    return done


def _one(action: BulkAction, run: BulkRun, row: BulkRow, request: HttpRequest, token: UUID) -> bool:
    """Process one row and record its outcome.

    Returns False if another worker has the lease of the run, or if the run was stopped.
    """
    if action.sends_command:
        if not _extend_lease(run, token):
            return False
        outcome = _tried(action, run, row, request)
        with transaction.atomic(durable=True):
            return _record_outcome(run, row, token, *outcome)
    with transaction.atomic(durable=True):
        # This locks the row of the run, so a request to stop the run waits for this row.
        if not _extend_lease(run, token):
            return False
        outcome = _tried(action, run, row, request)
        return _record_outcome(run, row, token, *outcome)


def _tried(
    action: BulkAction, run: BulkRun, row: BulkRow, request: HttpRequest
) -> tuple[str, UUID | None]:
    """Return the reason why the row was not done, empty if it was, and the command's id."""
    try:
        if action.sends_command:
            return "", action.apply(request, row, run.given)
        with transaction.atomic():
            return "", action.apply(request, row, run.given)
    except RowNotDone as error:
        return error.words, None
    except SoftTimeLimitExceeded:
        raise
    except Exception as error:
        logger.exception("a row of %s failed: %s", run.pk, type(error).__name__)
        return FAULT, None


def _extend_lease(run: BulkRun, token: UUID) -> bool:
    return bool(
        BulkRun.objects.filter(pk=run.pk, lease_token=token, state=State.OPEN).update(
            lease_until=Now() + LEASE
        )
    )


def _record_outcome(
    run: BulkRun, row: BulkRow, token: UUID, words: str, command: UUID | None
) -> bool:
    state = BulkRow.State.FAILED if words else BulkRow.State.DONE
    noted = BulkRow.objects.filter(run=run.pk, key=row.key, state=BulkRow.State.WAITING).update(
        state=state, words=words, command_id=command
    )
    if noted:
        counter = "failed" if words else "done"
        BulkRun.objects.filter(pk=run.pk).update(**{counter: F(counter) + 1})
    return BulkRun.objects.filter(pk=run.pk, lease_token=token, state=State.OPEN).exists()


def _give_up(run: BulkRun, token: UUID) -> None:
    with transaction.atomic(durable=True):
        if not _extend_lease(run, token):
            return
        left = BulkRow.objects.filter(run=run.pk, state=BulkRow.State.WAITING).update(
            state=BulkRow.State.FAILED, words=NOT_ALLOWED
        )
        BulkRun.objects.filter(pk=run.pk).update(
            state=State.DONE, finished_at=Now(), failed=F("failed") + left
        )


def _request_of_user(user: User, run: BulkRun) -> HttpRequest:
    """Return a request for functions that record who asks: the user, and the run's id as its id."""
    request = HttpRequest()
    request.user = user
    request.request_id = run.pk.hex  # type: ignore[attr-defined]
    return request
