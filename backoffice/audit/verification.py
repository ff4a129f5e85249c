"""Verify all entries and seals: recompute the digests, a hundred seals at a time.

One statement reads the seals together with their entries, so sealing and removal may run meanwhile.
Memory use does not depend on their number.
"""

from __future__ import annotations

import hmac
import logging
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from django.db import connection, transaction
from django.utils import timezone

from backoffice.audit import seals
from backoffice.audit.models import AuditCheck, AuditEntry, AuditSeal
from backoffice.audit.seals import first_entry
from backoffice.core.time_formats import calendar_day, hour

logger = logging.getLogger(__name__)

STEP: Final = 100
MAX_NUMBER: Final = 2**63 - 1
MAX_FINDINGS: Final = 50
"""Findings stored one by one; the rest is only counted."""
CHECK_INTERVAL: Final = timedelta(hours=24)
MIN_REMOVAL_AGE: Final = timedelta(days=365)
"""Entries younger than this cannot have been removed because of their age."""
LOCK: Final = 5_280_132
"""Key of the PostgreSQL advisory lock for checking."""

_SEALS: Final = AuditSeal._meta.db_table
_ENTRIES: Final = AuditEntry._meta.db_table
_COLUMNS: Final = tuple(column.attname for column in AuditSeal._meta.concrete_fields)
_READ_SEALS: Final = f"""
SELECT {", ".join(f"s.{name}" for name in _COLUMNS)}, present.rows, present.digest,
 removed.rows, removed.digest, removed.until,
 (SELECT max(to_id) FROM {_SEALS} WHERE removal)
FROM (SELECT * FROM {_SEALS} WHERE n > %s AND n <= %s ORDER BY n LIMIT {STEP}) AS s
LEFT JOIN LATERAL (
 SELECT count(*) AS rows, {seals.DIGEST} AS digest
 FROM {_ENTRIES} AS e WHERE e.id BETWEEN s.from_id AND s.to_id
) AS present ON NOT s.removal
LEFT JOIN LATERAL (
 SELECT sum(rows) AS rows, sha256(string_agg(mac, '' ORDER BY n)) AS digest, max(at) AS until
 FROM {_SEALS} WHERE NOT removal AND to_id BETWEEN s.from_id AND s.to_id
) AS removed ON s.removal
ORDER BY s.n
"""


@dataclass(slots=True)
class CheckResult:
    """The counts and findings of a check."""

    seals: int = 0
    entries: int = 0
    removed: int = 0
    unsealed: int = 0
    unknown_key: int = 0
    trouble: list[str] = field(default_factory=list)
    troubles: int = 0
    head: str = ""

    def add_finding(self, words: str) -> None:
        self.troubles += 1
        if len(self.trouble) < MAX_FINDINGS:
            self.trouble.append(words)

    @property
    def findings(self) -> list[str]:
        left = self.troubles - len(self.trouble)
        return [*self.trouble, *([f"And {left:,} more."] if left else [])]


class SealReading(NamedTuple):
    """A seal and the present state of its entries, or of the seals of the entries it removed."""

    seal: AuditSeal
    rows: int | None
    digest: bytes | None
    removed_rows: int | None
    removed_digest: bytes | None
    removed_until: datetime | None
    removed_to: int | None


def check_chain(
    after: int = 0,
    until: int = MAX_NUMBER,
    heads: Iterable[str] = (),
    progress: Callable[[CheckResult], None] | None = None,
) -> CheckResult:
    """Recompute everything, or only the seals after number `after` up to `until`.

    `heads` (`N:MAC`) are remembered heads: a trail without them was cut off or created again.
    """
    check = _ChainCheck(after)
    for done, reading in enumerate(_read_seals(after, until), 1):
        check.check_seal(reading)
        if progress and done % STEP == 0:
            progress(check.result)
    if until == MAX_NUMBER:
        check.end(heads)
    return check.result


def lost_head_finding(head: str) -> str:
    """Return the finding that the chain no longer contains a remembered head (`N:MAC`)."""
    number, _, mac = head.partition(":")
    return (
        f"Seal {number} with the code {mac[:12]}… is missing: the end of the trail was cut off, or"
        " the trail was replaced."
    )


def finish_check(check: AuditCheck, result: CheckResult) -> None:
    """Store a result in a check, which is finished with it."""
    for name in ("seals", "entries", "removed", "unsealed", "unknown_key", "head"):
        setattr(check, name, getattr(result, name))
    check.trouble = result.findings
    check.finished_at = timezone.now()
    check.save()


def save_check(result: CheckResult) -> None:
    """Store a result as a check of its own."""
    finish_check(AuditCheck(asked_at=timezone.now()), result)


def last_seal_before(moment: datetime) -> int:
    """Return the number of the last seal made before `moment`; 0 for none."""
    rows = AuditSeal.objects.filter(at__lt=moment).order_by("-n")
    return rows.values_list("n", flat=True).first() or 0


def _read_seals(after: int, until: int) -> Iterator[SealReading]:
    while True:
        with connection.cursor() as cursor:
            cursor.execute(_READ_SEALS, [after, until])
            rows = cursor.fetchall()
        for row in rows:
            values = dict(zip(_COLUMNS, row, strict=False))
            seal, rest = AuditSeal(**values), row[len(_COLUMNS) :]
            yield SealReading(seal, *rest)
            after = seal.n
        if len(rows) < STEP:
            return


class _ChainCheck:
    """A check that reads the chain seal by seal."""

    def __init__(self, after: int) -> None:
        self.result = CheckResult()
        self.keys = seals.keys()
        self.has_our_key = False
        """Whether a seal with one of our keys was read: after it, another key is a finding."""
        earlier = AuditSeal.objects.filter(n__lte=after)
        self.last = earlier.end_of_chain()
        self.first_entry = first_entry()
        last_seal, last_removal = earlier.latest_of_entries(), earlier.latest_removal()
        self.sealed_to = last_seal.to_id if last_seal else None
        self.removed_to = last_removal.to_id if last_removal else None

    def check_seal(self, read: SealReading) -> None:
        seal = read.seal
        self.result.seals += 1
        self._chain(seal)
        self._key(seal)
        if seal.removal:
            self._removal(read)
        else:
            self._entries(read)
        self.last = seal

    def _chain(self, seal: AuditSeal) -> None:
        n, mac = (self.last.n, bytes(self.last.mac)) if self.last else (0, b"")
        if seal.n != n + 1:
            missing = "one seal" if seal.n == n + 2 else f"{seal.n - n - 1} seals"
            self._add_finding(seal, f"{missing} missing before it, from number {n + 1} on")
        elif bytes(seal.prev) != mac:
            self._add_finding(
                seal, "it does not match the previous seal; one of the two was replaced"
            )

    def _key(self, seal: AuditSeal) -> None:
        key = self.keys.get(seal.key_id)
        if key is not None:
            self.has_our_key = True
            if not hmac.compare_digest(seals.compute_mac(seal, key), bytes(seal.mac)):
                self._add_finding(seal, "the seal itself was changed")
        elif self.has_our_key:
            self._add_finding(
                seal, "it was made with a key that is not ours, after seals with our key"
            )
        else:
            self.result.unknown_key += 1

    def _entries(self, read: SealReading) -> None:
        seal, rows = read.seal, read.rows or 0
        if self.last is None and seal.from_id != self.first_entry:
            begin = self.first_entry or "an unknown entry"
            self._add_finding(seal, f"the trail begins at entry {seal.from_id} instead of {begin}")
        if self.sealed_to is not None and seal.from_id != self.sealed_to + 1:
            self._add_finding(
                seal, f"it begins at entry {seal.from_id} instead of {self.sealed_to + 1}"
            )
        elif self.sealed_to is None and AuditEntry.objects.filter(pk__lt=seal.from_id).exists():
            self._add_finding(seal, "there are entries before the first sealed entry")
        self.sealed_to = seal.to_id
        if seal.to_id <= (read.removed_to or 0):
            self.result.removed += seal.rows
            if rows:
                self._add_finding(
                    seal, f"{_count_entries(rows)} that had been removed are present again"
                )
            return
        self.result.entries += rows
        if seal.form != seals.FORM:
            self._add_finding(seal, f"its format ({seal.form}) is unknown to this version")
        elif rows != seal.rows:
            what = "missing" if rows < seal.rows else "too many"
            self._add_finding(seal, f"{_count_entries(abs(rows - seal.rows))} {what}")
        elif bytes(read.digest or b"") != bytes(seal.digest):
            self._add_finding(seal, f"at least one of its {_count_entries(rows)} was changed")

    def _removal(self, read: SealReading) -> None:
        seal = read.seal
        if self.removed_to is not None and seal.from_id != self.removed_to + 1:
            self._add_finding(seal, "it records a removal of entries out of order")
        self.removed_to = seal.to_id
        digest = bytes(read.removed_digest or b"")
        if read.removed_rows != seal.rows or digest != bytes(seal.digest):
            self._add_finding(
                seal, "it does not match the seals of the entries it records as removed"
            )
        elif read.removed_until is None or read.removed_until > seal.at - MIN_REMOVAL_AGE:
            self._add_finding(seal, "it records a removal of entries before their time")

    def end(self, heads: Iterable[str]) -> None:
        self.result.head = seals.head_of(self.last) if self.last else ""
        for remembered in filter(None, heads):
            number = int(remembered.partition(":")[0])
            seal = AuditSeal.objects.filter(n=number).first()
            if seal is None or seals.head_of(seal) != remembered:
                self.result.add_finding(lost_head_finding(remembered))
        self.result.unsealed = AuditEntry.objects.filter(pk__gt=self.sealed_to or 0).count()

    def _add_finding(self, seal: AuditSeal, words: str) -> None:
        self.result.add_finding(
            f"Seal {seal.n} (entries {seal.from_id} to {seal.to_id}, made"
            f" {calendar_day(seal.at)}, {hour(seal.at)} UTC): {words}."
        )


def _count_entries(count: int) -> str:
    return f"{count:,} {'entry' if count == 1 else 'entries'}"


# Checks are stored as rows: one per day, and one for each request of an auditor.


def run_due_check(now: datetime | None = None) -> AuditCheck | None:
    """Run the oldest requested check, or the daily one. Return None if there is nothing to do.

    An interrupted check is still open and starts again.
    """
    now = now or timezone.now()
    if not AuditCheck.objects.filter(asked_at__gt=now - CHECK_INTERVAL).exists():
        AuditCheck.objects.bulk_create([AuditCheck(asked_at=now)], ignore_conflicts=True)
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SELECT pg_try_advisory_xact_lock(%s)", [LOCK])
        free = cursor.fetchone()[0]
        due = AuditCheck.objects.filter(finished_at=None).order_by("pk").first() if free else None
        if due is not None:
            _run_check(due)
    return due


def _run_check(due: AuditCheck) -> None:
    earlier = AuditCheck.objects.exclude(head="").order_by("-finished_at").first()
    result = check_chain(heads=[earlier.head] if earlier else [])
    finish_check(due, result)
    logger.info("audit trail ends with seal %s", result.head or "none")
    if result.troubles:
        logger.error("audit trail is broken: %s findings, see System > Audit", result.troubles)
