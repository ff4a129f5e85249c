"""Look-ups: records that are read one by one, by their own call, when there is a reason to.

A reason (an order that moved, a time that came, a record that a sweep did not see) makes the row
due and raises its generation. Workers claim due rows, ask the service with no lock held, store the
answers, and set the next time. An answer that was asked for before the latest reason does not
clear it.
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

from backoffice import mirror
from backoffice.core import prepared_queries, service_team, shutdown
from backoffice.models import Lookup
from backoffice.service import Service, errors

logger = logging.getLogger(__name__)

CLAIMED = 100
THREADS = 4
TURNS = 5
"""How often answers are stored again when the database undid that."""
PAUSE = 0.05
"""Seconds before that, times the turn."""
SLOWEST = timedelta(hours=1)


@dataclass(frozen=True)
class Subject:
    """One kind of record that has its own call.

    `fetch(service, key)` asks, outside any transaction. `store(answers)` makes rows of the answers
    by key, inside one, and returns when to look again by key (absent or None: not until there is
    a reason). `absent(keys, asked_at)` is told which keys the service does not have, and
    `absent_again(key)` when to ask for them again. `team(answer)`: whose record it is, where the
    record names its team; one of another team is not stored. `at_once`: how many answers are held
    in memory before they are stored.
    """

    kind: str
    fetch: Callable[[Service, str], Any]
    store: Callable[[Mapping[str, Any]], Mapping[str, timedelta | None]]
    absent: Callable[[Sequence[str], datetime], None] = lambda keys, asked_at: None
    absent_again: Callable[[str], timedelta | None] = lambda key: None
    team: Callable[[Any], UUID] | None = None
    at_once: int = CLAIMED


@dataclass(frozen=True)
class Claim:
    kind: str
    key: str
    generation: int
    attempts: int


def mark(kind: str, keys: Iterable[object]) -> None:
    """Give a reason to look these records up now."""
    mark_all({kind: keys})


def mark_all(keys: Mapping[str, Iterable[object]]) -> None:
    """The same for records of several kinds, in one statement."""
    reasons = sorted({(kind, str(key)) for kind, named in keys.items() for key in named})
    if not reasons:
        return
    kinds, names = zip(*reasons, strict=True)
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO backoffice_lookup (kind, key, due_at)"
            " SELECT kind, key, now() FROM unnest(%s::text[], %s::text[]) AS reason (kind, key)"
            " ON CONFLICT (kind, key) DO UPDATE SET generation = backoffice_lookup.generation + 1,"
            " attempts = 0, unread_answers = 0,"
            " due_at = least(backoffice_lookup.due_at, EXCLUDED.due_at)",
            [prepared_queries.array(kinds), prepared_queries.array(names)],
        )


def under_way(kind: str, keys: Iterable[str]) -> set[str]:
    """Those of `keys` that failed lately and have a time to be tried again: a new reason would make
    them due at once, however often they failed."""
    failing = Lookup.objects.filter(kind=kind, key__in=list(keys), due_at__isnull=False)
    return set(failing.exclude(error="").values_list("key", flat=True))


def drain(subjects: Sequence[Subject], *, seconds: float | None = None) -> int:
    """Look up what is due, until nothing is or for about `seconds`. Returns how many were answered.

    Where the service does not answer for a kind, or refuses it, the rest of that kind is left for
    a later tick.
    """
    by_kind = {subject.kind: subject for subject in subjects}
    ends = None if seconds is None else time.monotonic() + seconds
    answered = 0
    closed: set[str] = set()
    trouble: OperationalError | InterfaceError | None = None
    with ThreadPoolExecutor(THREADS, thread_name_prefix="lookups") as threads:
        while not shutdown.asked() and (ends is None or time.monotonic() < ends):
            token = uuid.uuid4()
            claims = _claim_some([one for one in subjects if one.kind not in closed], token)
            if not claims:
                break
            asked_at = datetime.now(UTC)
            asked = _answers(threads, by_kind, claims, closed)
            for kind, subject in by_kind.items():
                mine = [pair for pair in zip(claims, asked, strict=True) if pair[0].kind == kind]
                if not mine:
                    continue
                try:
                    answered += _settle(subject, mine, token, asked_at)
                except (OperationalError, InterfaceError) as error:
                    trouble = error  # What was answered of the other kinds is stored all the same.
            if trouble is not None:
                with contextlib.suppress(DatabaseError, InterfaceError):
                    Lookup.objects.filter(lease_token=token).update(
                        lease_token=None, lease_until=None
                    )
                raise trouble
    return answered


def _claim_some(subjects: Sequence[Subject], token: uuid.UUID) -> list[Claim]:
    """Claims of kinds whose answers are equally large, those with the smallest first."""
    kinds: dict[int, list[str]] = defaultdict(list)
    for subject in subjects:
        kinds[subject.at_once].append(subject.kind)
    for at_once in sorted(kinds, reverse=True):
        if claims := _claim(kinds[at_once], at_once, token):
            return claims
    return []


def _claim(kinds: list[str], at_once: int, token: uuid.UUID) -> list[Claim]:
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(
            "UPDATE backoffice_lookup AS claimed"
            " SET lease_token = %s, lease_until = now() + make_interval(secs => %s)"
            " FROM (SELECT kind, key FROM backoffice_lookup"
            "  WHERE kind = ANY(%s) AND due_at <= now()"
            "  AND (lease_until IS NULL OR lease_until < now())"
            "  ORDER BY due_at LIMIT %s FOR UPDATE SKIP LOCKED) AS free"
            " WHERE claimed.kind = free.kind AND claimed.key = free.key"
            " RETURNING claimed.kind, claimed.key, claimed.generation, claimed.attempts",
            [token, 3 * settings.SYNC_LEASE_SECONDS, kinds, at_once],
        )
        return [Claim(*row) for row in cursor.fetchall()]


def _answers(
    threads: ThreadPoolExecutor,
    subjects: Mapping[str, Subject],
    claims: Sequence[Claim],
    closed: set[str],
) -> list[Any]:
    """What the service answers to each claim. Where its key is of another team, or it does not
    answer that, the first claim of each kind gets the error, and every kind is closed."""
    try:
        client = service_team.verified()
    except (errors.ServiceError, service_team.AnotherTeam) as error:
        first = {claim.kind: claim for claim in reversed(claims)}
        closed.update(subjects)
        return [error if first[claim.kind] is claim else None for claim in claims]
    named = any(subjects[claim.kind].team for claim in claims)
    ask = partial(_ask, client, service_team.mirror_team() if named else None, closed)
    return list(threads.map(ask, [subjects[claim.kind] for claim in claims], claims))


def _ask(
    client: Service, our_team: UUID | None, closed: set[str], subject: Subject, claim: Claim
) -> Any:
    """The answer, the error, or None where an earlier call found the kind closed to us."""
    if subject.kind in closed:
        return None
    try:
        answer = subject.fetch(client, claim.key)
        if subject.team is not None:
            service_team.refuse_others([subject.team(answer)], our_team)
        return answer
    except service_team.AnotherTeam as error:
        logger.error("a record was refused: %s", error)
        return error
    except errors.ServiceError as error:
        # An answer about this record alone (unreadable, another team's) says nothing of the rest.
        if type(error) in (errors.Unreachable, errors.Limited) or error.status == 401:
            closed.add(subject.kind)
        return error
    except Exception as error:
        logger.exception("a look-up failed", extra={"kind": subject.kind})
        return error


def _settle(
    subject: Subject, asked: list[tuple[Claim, Any]], token: uuid.UUID, asked_at: datetime
) -> int:
    """Store, flag, set the next times; returns how many were answered."""
    answers: dict[str, Any] = {}
    missing: list[str] = []
    failed: list[tuple[Claim, Exception]] = []
    done: list[Claim] = []
    for claim, result in asked:
        if isinstance(result, errors.Missing):
            missing.append(claim.key)
            done.append(claim)
        elif isinstance(result, Exception):
            failed.append((claim, result))
        elif result is not None:
            answers[claim.key] = result
            done.append(claim)

    def settle() -> None:
        with transaction.atomic():
            with mirror.require_storage():
                again = dict(subject.store(answers)) if answers else {}
            if missing:
                subject.absent(missing, asked_at)
                again.update({key: subject.absent_again(key) for key in missing})
            _close(done, again, token)
            mirror.clear_unreadable(subject.kind, [claim.key for claim in done])

    try:
        _unless_rolled_back(settle)
    except (OperationalError, InterfaceError):
        raise
    except Exception as error:
        if len(asked) > 1:
            return sum(_settle(subject, [one], token, asked_at) for one in asked)
        logger.exception("an answer could not be stored", extra={"kind": subject.kind})
        failed, done = [(claim, error) for claim in done], []

    def give_back() -> None:
        with transaction.atomic():
            _put_back(failed, token)
            _release([claim.key for claim, result in asked if result is None], subject.kind, token)

    _unless_rolled_back(give_back)
    return len(done)


def _unless_rolled_back(work: Callable[[], None]) -> None:
    """Do it again where a deadlock or a conflict with another transaction undid it: who applies
    events may hold a look-up and want its record, while we hold the record."""
    for turn in range(1, TURNS + 1):
        try:
            return work()
        except OperationalError as error:
            state = getattr(error.__cause__, "sqlstate", None) or ""
            if turn == TURNS or state[:2] != "40":
                raise
            logger.info("answers are stored anew: %s", type(error.__cause__).__name__)
            # The other transaction was waiting for our locks: it gets them now, or the two
            # would meet again.
            time.sleep(turn * PAUSE)


def _close(claims: list[Claim], again: Mapping[str, timedelta | None], token: uuid.UUID) -> None:
    """Set the next time; a row that got a newer reason meanwhile stays due."""
    rows: dict[str, list[Any]] = defaultdict(list)
    for claim in sorted(claims, key=lambda claim: claim.key):
        rows["kind"].append(claim.kind)
        rows["key"].append(claim.key)
        rows["generation"].append(claim.generation)
        rows["again"].append(again.get(claim.key))
    if not rows:
        return
    with connection.cursor() as cursor:
        # Locked in the order `mark` writes them, or the two would deadlock.
        cursor.execute(
            "SELECT 1 FROM backoffice_lookup WHERE kind = %s AND key = ANY(%s)"
            " ORDER BY key FOR UPDATE",
            [rows["kind"][0], rows["key"]],
        )
        cursor.execute(
            "UPDATE backoffice_lookup AS row SET lease_token = NULL, lease_until = NULL,"
            " attempts = 0, unread_answers = 0, error = '', looked_at = now(),"
            " due_at = CASE WHEN row.generation = done.generation THEN now() + done.again"
            "          ELSE row.due_at END"
            " FROM unnest(%s::text[], %s::text[], %s::bigint[], %s::interval[])"
            "  AS done(kind, key, generation, again)"
            " WHERE row.kind = done.kind AND row.key = done.key AND row.lease_token = %s",
            [rows["kind"], rows["key"], rows["generation"], rows["again"], token],
        )


def _release(keys: list[str], kind: str, token: uuid.UUID) -> None:
    """Give back what was claimed and then not asked for."""
    if keys:
        Lookup.objects.filter(kind=kind, key__in=keys, lease_token=token).update(
            lease_token=None, lease_until=None
        )


def _is_about_record(error: Exception) -> bool:
    """Whether it was answered, and the answer could not be read or stored. That nothing was
    answered, or only later or with another key, says nothing of the record."""
    if isinstance(error, errors.ServiceError):
        return isinstance(error, errors.Malformed | errors.Refused) and error.status != 401
    return not isinstance(error, service_team.AnotherTeam)


def _put_back(failed: list[tuple[Claim, Exception]], token: uuid.UUID) -> None:
    """Wait longer each time, unless there is a newer reason; keep an answer nobody could read."""
    with connection.cursor() as cursor:
        for claim, error in failed:
            wait = min(timedelta(seconds=5 * 2 ** min(claim.attempts, 12)), SLOWEST)
            asked = getattr(error, "retry_after", None)
            if asked:
                wait = timedelta(seconds=max(1, asked))
            told = isinstance(
                error, (errors.ServiceError, mirror.RecordNotStored, service_team.AnotherTeam)
            )
            said = str(error) if told else type(error).__name__
            cursor.execute(
                "UPDATE backoffice_lookup SET lease_token = NULL, lease_until = NULL,"
                " attempts = least(attempts + 1, 1000),"
                " unread_answers = least(unread_answers + %s, 1000), error = %s, due_at = CASE"
                "  WHEN generation = %s THEN now() + make_interval(secs => %s) ELSE due_at END"
                " WHERE kind = %s AND key = %s AND lease_token = %s",
                [
                    int(_is_about_record(error)),
                    said[:300],
                    claim.generation,
                    wait.total_seconds(),
                    claim.kind,
                    claim.key,
                    token,
                ],
            )
            unread = getattr(error, "unreadable", None)
            if unread is not None:
                mirror.save_unreadable(
                    claim.kind, claim.key, unread.path, unread.reason, unread.raw
                )
