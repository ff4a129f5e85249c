"""Lookups: scheduled reads of single records, each by its own call.

A reason for a lookup (an order that changed, a record that a full sync run did not find) makes the
row due and increments its generation. A row also becomes due at its scheduled time. Workers claim
due rows, ask the service with no lock held, store the answers and set the next time. An answer that
was requested before the latest reason does not clear that reason.
"""

from __future__ import annotations

import contextlib
import logging
import time
import uuid
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db import DatabaseError, InterfaceError, OperationalError, connection, transaction

from backoffice.core import prepared_queries, service_team, shutdown
from backoffice.mirror.applying import RecordNotStored, require_storage
from backoffice.mirror.unreadable_records import clear_unreadable, save_unreadable
from backoffice.service import Service, errors
from backoffice.sync.models import Lookup

logger = logging.getLogger(__name__)

CLAIM_SIZE = 100
THREADS = 4
STORE_ATTEMPTS = 5
"""How often storing answers is tried when the database rolls it back."""
STORE_RETRY_SECONDS = 0.05
"""Seconds before the next try, times the number of the try."""
MAX_RETRY_DELAY = timedelta(hours=1)


@dataclass(frozen=True)
class LookupType:
    """A type of record that the service returns by a call of its own.

    `fetch(service, key)` asks the service, outside any transaction. `store(answers)` writes rows
    from the answers by key, inside one, and returns by key when to look again (no entry or None:
    only after a new reason). `on_missing(keys, asked_at)` handles the keys that the service
    does not have, and `retry_missing_after(key)` returns when to ask for them again.
    `team_of(answer)` returns the team that the record names; a record of another team is not
    stored. `batch_size`: how many answers are held in memory before they are stored.
    """

    kind: str
    fetch: Callable[[Service, str], Any]
    store: Callable[[Mapping[str, Any]], Mapping[str, timedelta | None]]
    on_missing: Callable[[Sequence[str], datetime], None] = lambda keys, asked_at: None
    retry_missing_after: Callable[[str], timedelta | None] = lambda key: None
    team_of: Callable[[Any], UUID] | None = None
    batch_size: int = CLAIM_SIZE


@dataclass(frozen=True)
class LookupClaim:
    kind: str
    key: str
    generation: int
    attempts: int


def schedule_lookups(kind: str, keys: Iterable[object]) -> None:
    """Schedule a lookup of each of these records, due now."""
    schedule_lookups_by_kind({kind: keys})


def schedule_lookups_by_kind(keys: Mapping[str, Iterable[object]]) -> None:
    """Schedule lookups of records of several kinds, in one statement."""
    pairs = sorted({(kind, str(key)) for kind, kind_keys in keys.items() for key in kind_keys})
    if not pairs:
        return
    kinds, texts = zip(*pairs, strict=True)
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO sync_lookup (kind, key, due_at)"
            " SELECT kind, key, now() FROM unnest(%s::text[], %s::text[]) AS reason (kind, key)"
            " ON CONFLICT (kind, key) DO UPDATE SET generation = sync_lookup.generation + 1,"
            " attempts = 0, unread_answers = 0,"
            " due_at = least(sync_lookup.due_at, EXCLUDED.due_at)",
            [prepared_queries.array(kinds), prepared_queries.array(texts)],
        )


def failing_keys(kind: str, keys: Iterable[str]) -> set[str]:
    """Return those of `keys` that failed and are scheduled to be tried again.

    A new reason would make them due at once, however often they failed.
    """
    failing = Lookup.objects.filter(kind=kind, key__in=list(keys), due_at__isnull=False)
    return set(failing.exclude(error="").values_list("key", flat=True))


def run_due_lookups(lookup_types: Sequence[LookupType], *, seconds: float | None = None) -> int:
    """Run the lookups that are due, until none is or for about `seconds`.

    Return how many were answered. If the service does not answer for a kind, or refuses it, the
    rest of that kind is left to a later tick.
    """
    by_kind = {lookup_type.kind: lookup_type for lookup_type in lookup_types}
    ends = None if seconds is None else time.monotonic() + seconds
    count = 0
    closed: set[str] = set()
    database_error: OperationalError | InterfaceError | None = None
    with ThreadPoolExecutor(THREADS, thread_name_prefix="lookups") as threads:
        while not shutdown.is_requested() and (ends is None or time.monotonic() < ends):
            token = uuid.uuid4()
            open_types = [item for item in lookup_types if item.kind not in closed]
            claims = _claim_some(open_types, token)
            if not claims:
                break
            asked_at = datetime.now(UTC)
            results = _fetch_answers(threads, by_kind, claims, closed)
            for kind, lookup_type in by_kind.items():
                pairs = [pair for pair in zip(claims, results, strict=True) if pair[0].kind == kind]
                if not pairs:
                    continue
                try:
                    count += _store_answers(lookup_type, pairs, token, asked_at)
                except (OperationalError, InterfaceError) as error:
                    database_error = error  # The answers of the other kinds are stored first.
            if database_error is not None:
                with contextlib.suppress(DatabaseError, InterfaceError):
                    Lookup.objects.filter(lease_token=token).update(
                        lease_token=None, lease_until=None
                    )
                raise database_error
    return count


def _claim_some(lookup_types: Sequence[LookupType], token: uuid.UUID) -> list[LookupClaim]:
    """Claim lookups of kinds with the same batch size, largest batch size first."""
    kinds: dict[int, list[str]] = defaultdict(list)
    for lookup_type in lookup_types:
        kinds[lookup_type.batch_size].append(lookup_type.kind)
    for batch_size in sorted(kinds, reverse=True):
        if claims := _claim(kinds[batch_size], batch_size, token):
            return claims
    return []


def _claim(kinds: list[str], batch_size: int, token: uuid.UUID) -> list[LookupClaim]:
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(
            "UPDATE sync_lookup AS claimed"
            " SET lease_token = %s, lease_until = now() + make_interval(secs => %s)"
            " FROM (SELECT kind, key FROM sync_lookup"
            "  WHERE kind = ANY(%s) AND due_at <= now()"
            "  AND (lease_until IS NULL OR lease_until < now())"
            "  ORDER BY due_at LIMIT %s FOR UPDATE SKIP LOCKED) AS free"
            " WHERE claimed.kind = free.kind AND claimed.key = free.key"
            " RETURNING claimed.kind, claimed.key, claimed.generation, claimed.attempts",
            [token, 3 * settings.SYNC_LEASE_SECONDS, kinds, batch_size],
        )
        return [LookupClaim(*row) for row in cursor.fetchall()]


def _fetch_answers(
    threads: ThreadPoolExecutor,
    lookup_types: Mapping[str, LookupType],
    claims: Sequence[LookupClaim],
    closed: set[str],
) -> list[object]:
    """Return the service's answer to each claim.

    If our key belongs to another team, or the service does not show its team, the first claim of
    each kind gets the error, and every kind is closed.
    """
    try:
        client = service_team.verified_service()
    except (errors.ServiceError, service_team.AnotherTeam) as error:
        first = {claim.kind: claim for claim in reversed(claims)}
        closed.update(lookup_types)
        return [error if first[claim.kind] is claim else None for claim in claims]
    has_team = any(lookup_types[claim.kind].team_of for claim in claims)
    our_team = service_team.mirror_team() if has_team else None
    fetch = partial(_fetch_answer, client, our_team, closed)
    return list(threads.map(fetch, [lookup_types[claim.kind] for claim in claims], claims))


def _fetch_answer(
    client: Service,
    our_team: UUID | None,
    closed: set[str],
    lookup_type: LookupType,
    claim: LookupClaim,
) -> object:
    """Return the answer, the error, or None if an earlier call closed this kind."""
    if lookup_type.kind in closed:
        return None
    try:
        answer = lookup_type.fetch(client, claim.key)
        if lookup_type.team_of is not None:
            service_team.check_teams([lookup_type.team_of(answer)], our_team)
        return answer
    except service_team.AnotherTeam as error:
        logger.error("a record was refused: %s", error)
        return error
    except errors.ServiceError as error:
        # An answer about one record (unreadable, of another team) says nothing about the others.
        if type(error) in (errors.Unreachable, errors.Limited) or error.status == 401:
            closed.add(lookup_type.kind)
        return error
    except Exception as error:
        logger.exception("a lookup failed", extra={"kind": lookup_type.kind})
        return error


def _store_answers(
    lookup_type: LookupType,
    results: list[tuple[LookupClaim, object]],
    token: uuid.UUID,
    asked_at: datetime,
) -> int:
    """Store answers, handle missing records, set the next times. Return how many were answered."""
    answers: dict[str, object] = {}
    missing: list[str] = []
    failed: list[tuple[LookupClaim, Exception]] = []
    done: list[LookupClaim] = []
    for claim, result in results:
        if isinstance(result, errors.Missing):
            missing.append(claim.key)
            done.append(claim)
        elif isinstance(result, Exception):
            failed.append((claim, result))
        elif result is not None:
            answers[claim.key] = result
            done.append(claim)

    def store() -> None:
        with transaction.atomic():
            with require_storage():
                again = dict(lookup_type.store(answers)) if answers else {}
            if missing:
                lookup_type.on_missing(missing, asked_at)
                again.update({key: lookup_type.retry_missing_after(key) for key in missing})
            _close(done, again, token)
            clear_unreadable(lookup_type.kind, [claim.key for claim in done])

    try:
        _retry_rollbacks(store)
    except (OperationalError, InterfaceError):
        raise
    except Exception as error:
        if len(results) > 1:
            return sum(_store_answers(lookup_type, [pair], token, asked_at) for pair in results)
        logger.exception("an answer could not be stored", extra={"kind": lookup_type.kind})
        failed, done = [(claim, error) for claim in done], []

    def release() -> None:
        with transaction.atomic():
            _reschedule(failed, token)
            _release(
                [claim.key for claim, result in results if result is None], lookup_type.kind, token
            )

    _retry_rollbacks(release)
    return len(done)


def _retry_rollbacks(work: Callable[[], None]) -> None:
    """Call `work` again if a deadlock or a conflict with another transaction rolled it back.

    A worker that applies events may hold a lookup row and wait for its record, while we hold the
    record.
    """
    for attempt in range(1, STORE_ATTEMPTS + 1):
        try:
            return work()
        except OperationalError as error:
            state = getattr(error.__cause__, "sqlstate", None) or ""
            if attempt == STORE_ATTEMPTS or state[:2] != "40":
                raise
            logger.info("answers are stored again: %s", type(error.__cause__).__name__)
            # The other transaction was waiting for our locks. Let it get them, or both would
            # collide again.
            time.sleep(attempt * STORE_RETRY_SECONDS)


def _close(
    claims: list[LookupClaim], again: Mapping[str, timedelta | None], token: uuid.UUID
) -> None:
    """Set the next times; a row with a newer reason stays due."""
    if not claims:
        return
    claims = sorted(claims, key=lambda claim: claim.key)
    kinds, keys = [claim.kind for claim in claims], [claim.key for claim in claims]
    generations = [claim.generation for claim in claims]
    with connection.cursor() as cursor:
        # Lock in the order in which `schedule_lookups` writes, or the two would deadlock.
        cursor.execute(
            "SELECT 1 FROM sync_lookup WHERE kind = %s AND key = ANY(%s) ORDER BY key FOR UPDATE",
            [kinds[0], keys],
        )
        cursor.execute(
            "UPDATE sync_lookup AS row SET lease_token = NULL, lease_until = NULL,"
            " attempts = 0, unread_answers = 0, error = '', looked_at = now(),"
            " due_at = CASE WHEN row.generation = done.generation THEN now() + done.again"
            "          ELSE row.due_at END"
            " FROM unnest(%s::text[], %s::text[], %s::bigint[], %s::interval[])"
            "  AS done(kind, key, generation, again)"
            " WHERE row.kind = done.kind AND row.key = done.key AND row.lease_token = %s",
            [kinds, keys, generations, [again.get(key) for key in keys], token],
        )


def _release(keys: list[str], kind: str, token: uuid.UUID) -> None:
    """Release claims for which the service was not asked."""
    if keys:
        Lookup.objects.filter(kind=kind, key__in=keys, lease_token=token).update(
            lease_token=None, lease_until=None
        )


def _is_about_record(error: Exception) -> bool:
    """Return whether there was an answer that could not be read or stored.

    No answer, an answer that asks to wait, or a refused key say nothing about the record.
    """
    if isinstance(error, errors.ServiceError):
        return isinstance(error, errors.Malformed | errors.Refused) and error.status != 401
    return not isinstance(error, service_team.AnotherTeam)


def _reschedule(failed: list[tuple[LookupClaim, Exception]], token: uuid.UUID) -> None:
    """Retry later each time, unless there is a newer reason; save answers that were unreadable."""
    with connection.cursor() as cursor:
        for claim, error in failed:
            wait = min(timedelta(seconds=5 * 2 ** min(claim.attempts, 12)), MAX_RETRY_DELAY)
            retry_after = getattr(error, "retry_after", None)
            if retry_after:
                wait = timedelta(seconds=max(1, retry_after))
            has_message = isinstance(
                error, (errors.ServiceError, RecordNotStored, service_team.AnotherTeam)
            )
            message = str(error) if has_message else type(error).__name__
            cursor.execute(
                "UPDATE sync_lookup SET lease_token = NULL, lease_until = NULL,"
                " attempts = least(attempts + 1, 1000),"
                " unread_answers = least(unread_answers + %s, 1000), error = %s, due_at = CASE"
                "  WHEN generation = %s THEN now() + make_interval(secs => %s) ELSE due_at END"
                " WHERE kind = %s AND key = %s AND lease_token = %s",
                [
                    int(_is_about_record(error)),
                    message[:300],
                    claim.generation,
                    wait.total_seconds(),
                    claim.kind,
                    claim.key,
                    token,
                ],
            )
            item = getattr(error, "unreadable", None)
            if item is not None:
                save_unreadable(claim.kind, claim.key, item.path, item.reason, item.raw)
