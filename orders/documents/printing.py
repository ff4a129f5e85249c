"""The documents of many orders as one PDF, made in the background.

A job and its parts are rows, written together when somebody asks. A worker takes a job for a while
(`lease_until`), fetches a few parts at once with no transaction open, and stores each with its
outcome; one that dies leaves the rest waiting, and the next goes on where it was. When no part
waits any more, what was fetched is merged in the order of the list. Everything is read again from
the database before it is used: an order that was canceled meanwhile is left out.
"""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Final
from uuid import UUID

from django.db import IntegrityError, transaction
from django.db.models import F, Min, Q
from django.db.models.functions import Now
from django.http import HttpRequest
from django.utils import timezone

from backoffice import audit
from backoffice.core import request_ids, shutdown
from backoffice.core.access import may
from backoffice.models import User
from orders.documents import pdf_files
from orders.documents.collection import minute_of
from orders.documents.fetching import (
    BEFORE_ORDER,
    NO_PDF,
    TOO_LARGE,
    NoDocument,
    Pdf,
    checked,
    download,
    why_none,
)
from orders.documents.kinds import (
    COLUMNS,
    KINDS,
    DocumentFacts,
    DocumentKind,
    LabelOptions,
    facts_of,
)
from orders.documents.models import PrintFile, PrintJob, PrintPart
from orders.models import Order

logger = logging.getLogger(__name__)

TASK: Final = "orders.tasks.print_documents"
QUEUE: Final = "bulk"
"""Not that of short reads: a merge takes up to a minute, and people wait for those."""
MOST_ORDERS: Final = 200
MOST_BYTES: Final = 50 * 1024 * 1024
"""Of all parts of a job together: a worker needs up to ten times as much memory to merge them."""
BATCH: Final = 8
AT_ONCE: Final = 4
"""Documents asked for at the same time."""
SECONDS: Final = 8.0
"""Of one task: other people's jobs wait, too."""
LONGEST: Final = 120
"""Seconds of a task: the last batch, and the merging of a large job."""
LEASE: Final = timedelta(seconds=LONGEST + 30)
ATTEMPTS: Final = 5
KEPT: Final = timedelta(hours=24)
"""How long what was fetched can be downloaded."""
FORGOTTEN: Final = timedelta(days=30)
"""Then the job itself is forgotten, with what was left out and why."""

GONE: Final = "The order is no longer here."
FULL: Final = "The file would be larger than 50 MB. Print this order separately."
NOT_ALLOWED: Final = "Your role no longer allows this."
LOST: Final = "It could not be fetched in time. Open the documents of this order one by one."
NOT_MERGED: Final = "The documents could not be merged. Try again, or print fewer orders at once."
FINAL: Final = (FULL, TOO_LARGE, GONE)
"""Reasons that are the same however often a document is asked for."""

State = PrintJob.State
Outcome = Pdf | NoDocument


def start(
    request: HttpRequest,
    orders: Sequence[Order],
    kinds: Sequence[DocumentKind],
    *,
    form_id: UUID,
    options: LabelOptions,
    new_sheet: bool,
    query: dict[str, list[str]],
) -> PrintJob:
    """Write a job with a part for each document, in the order of `orders`; the same form sent
    twice is one job."""
    assert isinstance(request.user, User)
    job = PrintJob(
        form_id=form_id,
        asked_by=request.user,
        kinds=[kind.slug for kind in kinds],
        labels=options.number,
        collected_at=options.collected_at,
        new_sheet=new_sheet,
        query=query,
        orders=len(orders),
        total=0,
    )
    parts = list(_parts(job, orders, kinds))
    job.total = len(parts)
    try:
        with transaction.atomic(durable=True):
            job.save(force_insert=True)
            PrintPart.objects.bulk_create(parts)
            patients = [order.user_id for order in orders]
            audit.asked(request, "print job", [job.pk], patients)
    except IntegrityError:
        return PrintJob.objects.get(form_id=form_id, asked_by=request.user)
    return job


def _parts(
    job: PrintJob, orders: Sequence[Order], kinds: Sequence[DocumentKind]
) -> Iterable[PrintPart]:
    """A combined document is printed once, with the first order of its transaction."""
    transactions: set[UUID] = set()
    position = 0
    for order in orders:
        for kind in kinds:
            key = order.order_transaction_id
            if kind.slug == "transaction-result" and key is not None:
                if key in transactions:
                    continue
                transactions.add(key)
            yield PrintPart(
                job=job,
                position=position,
                order_id=order.pk,
                patient_id=order.user_id,
                kind=kind.slug,
            )
            position += 1


def cancel(job: PrintJob) -> bool:
    """Fetch nothing more and delete what was fetched; False where the job had ended."""
    with transaction.atomic(durable=True):
        open_jobs = PrintJob.objects.filter(pk=job.pk, state=State.OPEN)
        if not open_jobs.update(state=State.CANCELED_STATUSES, **_closed()):
            return False
        PrintPart.objects.filter(job=job).update(content=None)
    return True


def may_succeed(job: PrintJob) -> list[UUID]:
    """Ids of the parts that were left out and may be fetched now: not what the order has none of,
    nor what is too large."""
    parts = PrintPart.objects.filter(job=job, state=PrintPart.State.FAILED).exclude(words__in=FINAL)
    found = list(parts.values_list("pk", "order_id", "kind"))
    orders = Order.objects.only(*COLUMNS).filter(pk__in={order_id for _, order_id, _ in found})
    facts = {one.order.pk: one for one in facts_of(orders)} if found else {}

    def is_possible(order_id: UUID, kind: str) -> bool:
        if order_id not in facts or kind not in KINDS:
            return False
        try:
            options = _options(job, facts[order_id], kind)
        except NoDocument:
            return False
        return not why_none(KINDS[kind], facts[order_id], options)

    return [pk for pk, order_id, kind in found if is_possible(order_id, kind)]


def retry(job: PrintJob) -> bool:
    """Fetch again what was left out and may be had now, and merge everything anew; False where
    there is nothing to try, or what was fetched is deleted already."""
    with transaction.atomic(durable=True):
        ended = PrintJob.objects.filter(
            pk=job.pk, state__in=(State.DONE, State.FAILED), expires_at__gt=Now()
        )
        locked = ended.select_for_update().first()
        if locked is None:
            return False
        again = may_succeed(locked)
        if not again and locked.state == State.DONE:
            return False
        PrintFile.objects.filter(job=job).delete()
        PrintPart.objects.filter(job=job).update(attempts=0)
        PrintPart.objects.filter(pk__in=again).update(
            state=PrintPart.State.WAITING, words="", due_at=Now()
        )
        ended.update(
            state=State.OPEN,
            failed=F("failed") - len(again),
            words="",
            pages=None,
            due_at=Now(),
            finished_at=None,
        )
    return True


def expire() -> int:
    """Delete what was fetched for jobs whose time is over, and forget old jobs; how many jobs."""
    with transaction.atomic(durable=True):
        over = PrintJob.objects.filter(expires_at__lte=Now()).exclude(state=State.OPEN)
        keys = list(over.select_for_update(skip_locked=True).values_list("pk", flat=True))
        PrintFile.objects.filter(job__in=keys).delete()
        PrintPart.objects.filter(job__in=keys).update(content=None)
        PrintJob.objects.filter(pk__in=keys).update(state=State.EXPIRED, expires_at=None)
    PrintJob.objects.filter(asked_at__lt=Now() - FORGOTTEN).exclude(state=State.OPEN).delete()
    return len(keys)


def work(seconds: float = SECONDS) -> int:
    """Fetch and merge what is due, for about so long; how many parts were looked at."""
    ends = time.monotonic() + seconds
    done = 0
    while time.monotonic() < ends and not shutdown.is_requested():
        token = uuid.uuid4()
        job = _claimed(token)
        if job is None:
            break
        with request_ids.use_request_id(job.pk.hex):
            done += _work(job, token, ends)
    return done


def _claimed(token: UUID) -> PrintJob | None:
    """Take the job that has waited longest; None when there is none."""
    free = Q(lease_until=None) | Q(lease_until__lt=Now())
    due = PrintJob.objects.filter(free, state=State.OPEN, due_at__lte=Now())
    with transaction.atomic(durable=True):
        job = (
            due.order_by("due_at")
            .select_for_update(skip_locked=True, of=("self",))
            .select_related("asked_by")
            .first()
        )
        if job is None:
            return None
        if job.lease_until is not None:
            _count_lost_attempt(job)
        PrintJob.objects.filter(pk=job.pk).update(lease_token=token, lease_until=Now() + LEASE)
    return job


def _count_lost_attempt(job: PrintJob) -> None:
    """A worker was lost while it had this job. Where a document causes that (it is too large for
    the machine, or too slow for the task), the job would take one worker after the other: so the
    documents that were being fetched, or else merged, have one attempt less."""
    parts = PrintPart.objects.filter(job=job)
    waiting = parts.filter(state=PrintPart.State.WAITING)
    if not waiting.exists():
        parts.filter(state=PrintPart.State.DONE).update(attempts=F("attempts") + 1)
        return
    lost = list(waiting.filter(due_at__lte=Now()).order_by("position")[:BATCH].values("pk"))
    batch = parts.filter(pk__in=[one["pk"] for one in lost])
    batch.update(attempts=F("attempts") + 1)
    count = batch.filter(attempts__gte=ATTEMPTS).update(state=PrintPart.State.FAILED, words=LOST)
    PrintJob.objects.filter(pk=job.pk).update(failed=F("failed") + count)


def _work(job: PrintJob, token: UUID, ends: float) -> int:
    user, kinds = job.asked_by, [KINDS[slug] for slug in job.kinds if slug in KINDS]
    if not user.is_active or not all(may(user, *kind.needs) for kind in kinds):
        _close(job, token, State.FAILED, words=NOT_ALLOWED)
        return 0
    waiting = PrintPart.objects.filter(job=job, state=PrintPart.State.WAITING)
    done = 0
    while time.monotonic() < ends and not shutdown.is_requested():
        batch = list(waiting.filter(due_at__lte=Now()).order_by("position")[:BATCH])
        if not batch:
            later = waiting.aggregate(at=Min("due_at"))["at"]
            if later is None:
                _merge(job, token)
            else:
                _release(job, token, due_at=later)
            return done
        if not _store(job, token, list(zip(batch, _outcomes(job, batch), strict=True))):
            return done
        done += len(batch)
    # Behind the others: everybody's jobs get on.
    _release(job, token, due_at=Now())
    return done


def _outcomes(job: PrintJob, batch: Sequence[PrintPart]) -> list[Outcome]:
    """What the service has for these parts; asked with no transaction open."""
    orders = Order.objects.only(*COLUMNS).filter(pk__in={part.order_id for part in batch})
    facts = {one.order.pk: one for one in facts_of(orders)}

    def fetched(part: PrintPart) -> bytes | NoDocument:
        found: DocumentFacts | None = facts.get(part.order_id)
        try:
            if found is None:
                raise NoDocument(GONE, 404)
            with request_ids.use_request_id(job.pk.hex):
                return download(KINDS[part.kind], found, _options(job, found, part.kind))
        except NoDocument as error:
            return error

    with ThreadPoolExecutor(AT_ONCE) as pool:
        answers = list(pool.map(fetched, batch))
    pdfs = iter(checked([one for one in answers if isinstance(one, bytes)]))
    return [
        (next(pdfs) or NoDocument(NO_PDF, 502)) if isinstance(one, bytes) else one
        for one in answers
    ]


def _options(job: PrintJob, facts: DocumentFacts, kind: str) -> LabelOptions:
    """The labels of an order carry its known time of collection, else the one given for all."""
    at = None if facts.collected else job.collected_at
    if kind == "labels" and at is not None and at < minute_of(facts.order.created_at):
        raise NoDocument(BEFORE_ORDER, 422)
    return LabelOptions(job.labels, at)


def _store(job: PrintJob, token: UUID, outcomes: Sequence[tuple[PrintPart, Outcome]]) -> bool:
    """Write what became of some parts; False where the job was canceled or is another worker's."""
    with transaction.atomic(durable=True):
        if not _held(job, token):
            return False
        done = failed = added = 0
        for part, outcome in outcomes:
            part.attempts += 1
            if isinstance(outcome, NoDocument):
                again = outcome.is_passing and part.attempts < ATTEMPTS
                if again:
                    pause = max(2.0**part.attempts, min(outcome.retry_after, 300.0))
                    part.due_at = timezone.now() + timedelta(seconds=pause)
                else:
                    part.state, part.words = PrintPart.State.FAILED, outcome.words
                    failed += 1
            elif job.size + added + len(outcome.content) > MOST_BYTES:
                part.state, part.words = PrintPart.State.FAILED, FULL
                failed += 1
            else:
                part.state, part.content = PrintPart.State.DONE, outcome.content
                added += len(outcome.content)
                done += 1
            part.save(update_fields=["attempts", "due_at", "state", "words", "content"])
        PrintJob.objects.filter(pk=job.pk).update(
            done=F("done") + done, failed=F("failed") + failed, size=F("size") + added
        )
    job.size += added
    return True


def _merge(job: PrintJob, token: UUID) -> None:
    """Make one PDF of what was fetched, in the order of the list, and close the job."""
    parts = list(PrintPart.objects.filter(job=job, state=PrintPart.State.DONE).order_by("position"))
    if not parts:
        _close(job, token, State.DONE)
        return
    if min(part.attempts for part in parts) > ATTEMPTS:
        _close(job, token, State.FAILED, words=NOT_MERGED)
        return
    titles = [f"{KINDS[part.kind].label}, order {str(part.order_id)[:8]}" for part in parts]
    try:
        pages, content = pdf_files.merge(
            [bytes(part.content or b"") for part in parts], titles, job.new_sheet
        )
    except pdf_files.NotReadable:
        logger.warning("the documents of print job %s could not be merged", job.pk)
        _close(job, token, State.FAILED, words=NOT_MERGED)
        return
    del parts  # Their contents are large.
    with transaction.atomic(durable=True):
        if not _held(job, token):
            return
        PrintFile(pk=job.pk, job=job, content=content).save(force_insert=True)
        PrintJob.objects.filter(pk=job.pk).update(state=State.DONE, pages=pages, **_closed())


def _held(job: PrintJob, token: UUID) -> bool:
    """Whether the job is still this worker's, for some time more. Whoever cancels it waits for the
    end of the transaction."""
    mine = PrintJob.objects.filter(pk=job.pk, lease_token=token, state=State.OPEN)
    return bool(mine.update(lease_until=Now() + LEASE))


def _release(job: PrintJob, token: UUID, **changes: object) -> None:
    mine = PrintJob.objects.filter(pk=job.pk, lease_token=token, state=State.OPEN)
    mine.update(**{"lease_token": None, "lease_until": None, **changes})


def _close(job: PrintJob, token: UUID, state: str, words: str = "") -> None:
    _release(job, token, state=state, words=words, **_closed())


def _closed() -> dict[str, object]:
    return {
        "finished_at": Now(),
        "expires_at": Now() + KEPT,
        "lease_token": None,
        "lease_until": None,
    }
