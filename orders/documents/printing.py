"""Print jobs: the documents of many orders as one PDF, made in the background.

A job and its parts are rows, written together when somebody requests them. A worker leases a job
(`lease_until`), fetches a few parts at once with no transaction open, and stores each with its
outcome. If the worker dies, the other parts stay in the queue, and the next worker continues. When
no part is left to fetch, the fetched ones are merged in the order of the list. The worker reads
everything again from the database before it uses it, so an order that was canceled meanwhile is
left out.
"""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import Collection, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Final
from uuid import UUID

from django.db import IntegrityError, transaction
from django.db.models import F, Min, Q
from django.db.models.functions import Now
from django.http import HttpRequest
from django.utils import timezone
from django.utils.translation import gettext, gettext_noop

from backoffice.accounts.access import may, staff_user
from backoffice.audit.recording import record_action
from backoffice.core import request_ids, shutdown
from orders.documents import pdf_files
from orders.documents.collection import to_minute
from orders.documents.fetching import (
    BEFORE_ORDER,
    NO_PDF,
    TOO_LARGE,
    CheckedPdf,
    NoDocument,
    check_pdfs,
    download,
    unavailable_reason,
)
from orders.documents.kinds import (
    KINDS,
    ORDER_COLUMNS,
    DocumentFacts,
    DocumentKind,
    LabelOptions,
    load_document_facts,
)
from orders.models import Order
from orders.models.print_job import PrintFile, PrintJob, PrintPart

logger = logging.getLogger(__name__)

TASK: Final = "orders.tasks.print_documents"
QUEUE: Final = "bulk"
"""The queue of long tasks. Merging takes up to a minute, and people wait for the short reads in the
other queue.
"""
MAX_ORDERS: Final = 200
MAX_BYTES: Final = 50 * 1024 * 1024
"""Most bytes of all parts of a job together. Merging needs up to ten times as much memory."""
BATCH: Final = 8
PARALLEL_FETCHES: Final = 4
"""Documents fetched at the same time."""
SECONDS: Final = 8.0
"""Duration of one task, in seconds. It is short because jobs of other people wait, too."""
LONGEST: Final = 120
"""Time limit of a task in seconds. It allows for the last batch and for merging a large job."""
LEASE: Final = timedelta(seconds=LONGEST + 30)
ATTEMPTS: Final = 5
FILE_LIFETIME: Final = timedelta(hours=24)
"""How long the file can be downloaded."""
JOB_LIFETIME: Final = timedelta(days=30)
"""How long the job is stored, with the documents that were left out and the reasons."""

ORDER_GONE: Final = gettext_noop("This order is no longer available.")
FILE_FULL: Final = gettext_noop("The file would be larger than 50 MB. Print this order separately.")
NOT_ALLOWED: Final = gettext_noop("Your role no longer allows this.")
FETCH_LOST: Final = gettext_noop(
    "The document could not be downloaded in time. Open the documents of this order one by one."
)
NOT_MERGED: Final = gettext_noop(
    "The documents could not be merged. Try again, or print fewer orders at once."
)
PERMANENT_REASONS: Final = (FILE_FULL, TOO_LARGE, ORDER_GONE)
"""Reasons that would be the same if the document were fetched again."""

State = PrintJob.State
Outcome = CheckedPdf | NoDocument


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
    """Create a job with a part for each document, in the order of `orders`.

    A form that is sent twice makes one job.
    """
    user = staff_user(request)
    job = PrintJob(
        form_id=form_id,
        asked_by=user,
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
            record_action(request, "print job", [job.pk], patients)
    except IntegrityError:
        return PrintJob.objects.get(form_id=form_id, asked_by=user)
    return job


def _parts(
    job: PrintJob, orders: Sequence[Order], kinds: Sequence[DocumentKind]
) -> Iterable[PrintPart]:
    """Yield the parts.

    A combined document is printed once, with the first order of its transaction.
    """
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
    """Stop a job and delete what it fetched. Return False if the job has already ended."""
    with transaction.atomic(durable=True):
        open_jobs = PrintJob.objects.filter(pk=job.pk, state=State.OPEN)
        if not open_jobs.update(state=State.CANCELED, **_closing_values()):
            return False
        PrintPart.objects.filter(job=job).update(content=None)
    return True


def retryable_parts(job: PrintJob) -> list[UUID]:
    """Return the ids of parts that were left out but may be available now.

    Documents that the order does not have, and documents that are too large, are not among them.
    """
    parts = PrintPart.objects.left_out(job).exclude(words__in=PERMANENT_REASONS)
    retryable = list(parts.values_list("pk", "order_id", "kind"))
    facts = _facts_by_order({order_id for _, order_id, _ in retryable}) if retryable else {}

    def is_possible(order_id: UUID, kind: str) -> bool:
        if order_id not in facts or kind not in KINDS:
            return False
        try:
            options = _options(job, facts[order_id], kind)
        except NoDocument:
            return False
        return not unavailable_reason(KINDS[kind], facts[order_id], options)

    return [pk for pk, order_id, kind in retryable if is_possible(order_id, kind)]


def retry(job: PrintJob) -> bool:
    """Fetch again what was left out and may be available now, and merge all parts again.

    Return False if there is nothing to fetch again, or if the fetched contents were already
    deleted.
    """
    with transaction.atomic(durable=True):
        ended = PrintJob.objects.filter(
            pk=job.pk, state__in=(State.DONE, State.FAILED), expires_at__gt=Now()
        )
        locked = ended.select_for_update().first()
        if locked is None:
            return False
        again = retryable_parts(locked)
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
    """Delete the contents of expired jobs, and old jobs. Return the number of expired jobs."""
    with transaction.atomic(durable=True):
        expired = PrintJob.objects.filter(expires_at__lte=Now()).exclude(state=State.OPEN)
        keys = list(expired.select_for_update(skip_locked=True).values_list("pk", flat=True))
        PrintFile.objects.filter(job__in=keys).delete()
        PrintPart.objects.filter(job__in=keys).update(content=None)
        PrintJob.objects.filter(pk__in=keys).update(state=State.EXPIRED, expires_at=None)
    PrintJob.objects.filter(asked_at__lt=Now() - JOB_LIFETIME).exclude(state=State.OPEN).delete()
    return len(keys)


def work(seconds: float = SECONDS) -> int:
    """Fetch and merge what is due, for about `seconds`; return the number of parts processed."""
    ends = time.monotonic() + seconds
    count = 0
    while time.monotonic() < ends and not shutdown.is_requested():
        token = uuid.uuid4()
        job = _claim_job(token)
        if job is None:
            break
        with request_ids.use_request_id(job.pk.hex):
            count += _work(job, token, ends)
    return count


def _claim_job(token: UUID) -> PrintJob | None:
    """Lease the job that has waited longest; None when there is none."""
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
    """Count a failed attempt of the documents that a lost worker was fetching, or of the merge.

    A document may be the reason why the worker was lost: it may need too much memory or too much
    time. Without this count, the job would stop one worker after another.
    """
    waiting = PrintPart.objects.waiting(job)
    if not waiting.exists():
        PrintPart.objects.fetched(job).order_by().update(attempts=F("attempts") + 1)
        return
    lost = waiting.filter(due_at__lte=Now()).values_list("pk", flat=True)[:BATCH]
    batch = PrintPart.objects.filter(pk__in=list(lost))
    batch.update(attempts=F("attempts") + 1)
    count = batch.filter(attempts__gte=ATTEMPTS).update(
        state=PrintPart.State.FAILED, words=FETCH_LOST
    )
    PrintJob.objects.filter(pk=job.pk).update(failed=F("failed") + count)


def _work(job: PrintJob, token: UUID, ends: float) -> int:
    user, kinds = job.asked_by, [KINDS[slug] for slug in job.kinds if slug in KINDS]
    if not user.is_active or not all(may(user, *kind.needs) for kind in kinds):
        _close(job, token, State.FAILED, words=NOT_ALLOWED)
        return 0
    waiting = PrintPart.objects.waiting(job)
    count = 0
    while time.monotonic() < ends and not shutdown.is_requested():
        batch = list(waiting.filter(due_at__lte=Now())[:BATCH])
        if not batch:
            later = waiting.order_by().aggregate(at=Min("due_at"))["at"]
            if later is None:
                _merge(job, token)
            else:
                _release(job, token, due_at=later)
            return count
        if not _store(job, token, list(zip(batch, _fetch_parts(job, batch), strict=True))):
            return count
        count += len(batch)
    # Put the job behind the others, so that every job makes progress.
    _release(job, token, due_at=Now())
    return count


def _fetch_parts(job: PrintJob, batch: Sequence[PrintPart]) -> list[Outcome]:
    """Fetch these parts with no transaction open, and return their outcomes."""
    facts = _facts_by_order({part.order_id for part in batch})

    def fetch_part(part: PrintPart) -> bytes | NoDocument:
        part_facts: DocumentFacts | None = facts.get(part.order_id)
        try:
            if part_facts is None:
                raise NoDocument(ORDER_GONE, 404)
            with request_ids.use_request_id(job.pk.hex):
                return download(KINDS[part.kind], part_facts, _options(job, part_facts, part.kind))
        except NoDocument as error:
            return error

    with ThreadPoolExecutor(PARALLEL_FETCHES) as pool:
        answers = list(pool.map(fetch_part, batch))
    pdfs = iter(check_pdfs([answer for answer in answers if isinstance(answer, bytes)]))
    return [
        (next(pdfs) or NoDocument(NO_PDF, 502)) if isinstance(answer, bytes) else answer
        for answer in answers
    ]


def _facts_by_order(order_ids: Collection[UUID]) -> dict[UUID, DocumentFacts]:
    orders = Order.objects.only(*ORDER_COLUMNS).filter(pk__in=order_ids)
    return {facts.order.pk: facts for facts in load_document_facts(orders)}


def _options(job: PrintJob, facts: DocumentFacts, kind: str) -> LabelOptions:
    """Return the options of the labels.

    The time of collection is the known one, or else the one that staff gave for all orders.
    """
    at = None if facts.collected else job.collected_at
    if kind == "labels" and at is not None and at < to_minute(facts.order.created_at):
        raise NoDocument(BEFORE_ORDER, 422)
    return LabelOptions(job.labels, at)


def _store(job: PrintJob, token: UUID, outcomes: Sequence[tuple[PrintPart, Outcome]]) -> bool:
    """Store the outcomes of some parts.

    Return False if the job was canceled or another worker has leased it.
    """
    with transaction.atomic(durable=True):
        if not _renew_lease(job, token):
            return False
        stored = failed = added = 0
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
            elif job.size + added + len(outcome.content) > MAX_BYTES:
                part.state, part.words = PrintPart.State.FAILED, FILE_FULL
                failed += 1
            else:
                part.state, part.content = PrintPart.State.DONE, outcome.content
                added += len(outcome.content)
                stored += 1
            part.save(update_fields=["attempts", "due_at", "state", "words", "content"])
        PrintJob.objects.filter(pk=job.pk).update(
            done=F("done") + stored, failed=F("failed") + failed, size=F("size") + added
        )
    job.size += added
    return True


def _merge(job: PrintJob, token: UUID) -> None:
    """Merge the fetched parts in the order of the list, and close the job."""
    parts = list(PrintPart.objects.fetched(job))
    if not parts:
        _close(job, token, State.DONE)
        return
    if min(part.attempts for part in parts) > ATTEMPTS:
        _close(job, token, State.FAILED, words=NOT_MERGED)
        return
    titles = [
        gettext("%(document)s, order %(id)s")
        % {"document": gettext(KINDS[part.kind].label), "id": str(part.order_id)[:8]}
        for part in parts
    ]
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
        if not _renew_lease(job, token):
            return
        PrintFile(pk=job.pk, job=job, content=content).save(force_insert=True)
        PrintJob.objects.filter(pk=job.pk).update(
            state=State.DONE, pages=pages, **_closing_values()
        )


def _renew_lease(job: PrintJob, token: UUID) -> bool:
    """Renew the lease. Return whether this worker still has it.

    A cancellation waits for the end of the transaction.
    """
    return bool(PrintJob.objects.leased(job, token).update(lease_until=Now() + LEASE))


def _release(job: PrintJob, token: UUID, **changes: object) -> None:
    leased = PrintJob.objects.leased(job, token)
    leased.update(**{"lease_token": None, "lease_until": None, **changes})


def _close(job: PrintJob, token: UUID, state: str, words: str = "") -> None:
    _release(job, token, state=state, words=words, **_closing_values())


def _closing_values() -> dict[str, object]:
    return {
        "finished_at": Now(),
        "expires_at": Now() + FILE_LIFETIME,
        "lease_token": None,
        "lease_until": None,
    }
