"""Documents of many orders as one PDF: in list order, with reasons, retried, canceled, deleted."""

from __future__ import annotations

import uuid
from datetime import timedelta
from io import BytesIO
from typing import Any

import pytest
from django.contrib.auth.models import Group
from django.db import connection
from django.test import Client
from django.urls import reverse
from django.utils import timezone
from pypdf import PdfReader

from backoffice.accounts.models import User
from backoffice.audit.models import AuditEntry
from orders.documents import printing
from orders.documents.fetching import NoDocument
from orders.models import Order
from orders.models.print_job import PrintFile, PrintJob, PrintPart
from tests.api.rows import staff
from tests.documents.conftest import FindOrder
from tests.sandboxes import Sandbox

pytestmark = pytest.mark.django_db

CHOOSE = "/orders/documents/print/"
COLLECTED = {"collected_at": timezone.now().strftime("%Y-%m-%dT%H:%M")}
"""In UTC, the zone of a staff member who has chosen none."""


@pytest.fixture
def clinician(client: Client) -> Client:
    client.force_login(staff("clinician"))
    return client


def choose(client: Client, orders: list[Order] | None = None, **more: Any) -> Any:
    data: dict[str, Any] = {"query": "", "here": "", "form_id": uuid.uuid4(), **more}
    if orders is None:
        data["everything"] = "1"
    else:
        data["key"] = [str(order.pk) for order in orders]
    return client.post(CHOOSE, data)


def prepare(client: Client, orders: list[Order], *kinds: str, **more: Any) -> PrintJob:
    answer = choose(client, orders, go="1", kinds=list(kinds), **more)
    assert answer.status_code == 302, answer.content.decode()
    return PrintJob.objects.get(pk=answer["Location"].split("/")[-2])


def finish(job: PrintJob) -> PrintJob:
    for _ in range(20):
        PrintPart.objects.filter(job=job).update(due_at=timezone.now() - timedelta(seconds=1))
        PrintJob.objects.filter(pk=job.pk).update(due_at=timezone.now() - timedelta(seconds=1))
        printing.work(seconds=30)
        job.refresh_from_db()
        if not job.is_open:
            break
    return job


def pages_of(client: Client, job: PrintJob) -> list[str]:
    answer = client.get(reverse("documents:job-file", args=[job.pk]))
    assert answer.status_code == 200, answer["Location"]
    return [page.extract_text() for page in PdfReader(BytesIO(answer.content)).pages]


def page_of(client: Client, job: PrintJob) -> str:
    page: str = client.get(reverse("documents:job", args=[job.pk])).content.decode()
    return page


def test_merged_pdf_is_in_list_order_and_says_what_is_left_out(
    clinician: Client, find_order: FindOrder
) -> None:
    ready = [find_order("ready", number=number) for number in range(3)]
    late, canceled = find_order("not ready"), find_order("canceled")
    chosen = [ready[2], late, ready[0], canceled, ready[1]]
    job = finish(prepare(clinician, chosen, "requisition"))
    assert (job.state, job.total, job.done, job.failed, job.pages) == ("done", 5, 3, 2, 3)
    texts = pages_of(clinician, job)
    expected = [ready[2], ready[0], ready[1]]
    assert [str(order.pk) in text for order, text in zip(expected, texts, strict=True)] == [
        True
    ] * 3
    page = page_of(clinician, job)
    assert "Not ready yet" in page and "This order is canceled." in page
    assert reverse("orders:detail", args=[late.pk]) in page


def test_selection_by_filter_follows_the_list(clinician: Client, find_order: FindOrder) -> None:
    orders = [find_order("ready", number=number) for number in range(4)]
    listed = sorted(orders, key=lambda one: (one.created_at, one.pk), reverse=True)
    page = choose(clinician).content.decode()
    places = [page.index(f'value="{order.pk}"') for order in listed]
    assert places == sorted(places) and "Prepare PDF for 4 orders" in page


def test_download_is_recorded_by_kind_for_each_order(
    clinician: Client, find_order: FindOrder
) -> None:
    orders = [find_order("ready", number=number) for number in range(2)]
    job = finish(prepare(clinician, orders, "requisition", "labels", labels="2", **COLLECTED))
    assert len(pages_of(clinician, job)) == 2 + 2 * 2
    for subject in ("requisition", "specimen labels"):
        entry = AuditEntry.objects.get(object_type=subject)
        assert entry.action == "print"
        assert set(entry.object_ids) == {str(order.pk) for order in orders}
        assert set(entry.patient_ids) == {order.user_id for order in orders}
    assert AuditEntry.objects.filter(action="change", object_type="print job").count() == 1


def test_new_sheet_begins_each_document_on_an_odd_page(
    clinician: Client, find_order: FindOrder
) -> None:
    orders = [find_order("ready", number=number) for number in range(2)]
    job = finish(prepare(clinician, orders, "requisition", new_sheet="on"))
    texts = pages_of(clinician, job)
    assert len(texts) == 3 and texts[1].strip() == "" and str(orders[1].pk) in texts[2]


def test_combined_document_stands_once_for_a_transaction(
    clinician: Client, find_order: FindOrder
) -> None:
    first, second = find_order("completed"), find_order("completed", number=1)
    Order.objects.filter(pk=second.pk).update(order_transaction=first.order_transaction_id)
    job = prepare(clinician, [first, second], "transaction-result")
    assert job.total == 1


@pytest.mark.parametrize(
    "answer",
    [
        {"body": "<html>", "headers": {"Content-Type": "application/pdf"}},
        {"body": "%PDF-1.4 junk %%EOF", "headers": {"Content-Type": "application/pdf"}},
        {"status": 403, "body": {"detail": "closed beta"}},
        {"status": 404, "body": {"detail": "none"}},
    ],
)
def test_broken_answer_leaves_one_order_out_and_is_retried(
    clinician: Client, find_order: FindOrder, world: Sandbox, answer: dict[str, Any]
) -> None:
    orders = [find_order("ready", number=number) for number in range(3)]
    world.prepare_answer(f"/v3/order/{orders[1].pk}/requisition/pdf", **answer)
    job = finish(prepare(clinician, orders, "requisition"))
    assert (job.done, job.failed, job.pages) == (2, 1, 2)
    part = PrintPart.objects.get(job=job, position=1)
    assert part.state == "failed" and part.content is None and part.words
    clinician.post(reverse("documents:job-retry", args=[job.pk]))
    job = finish(PrintJob.objects.get(pk=job.pk))
    assert (job.done, job.failed, job.pages) == (3, 0, 3)
    texts = pages_of(clinician, job)
    assert [str(order.pk) in text for order, text in zip(orders, texts, strict=True)] == [True] * 3


def test_silent_service_is_asked_again_later(
    clinician: Client, find_order: FindOrder, world: Sandbox
) -> None:
    order = find_order("ready")
    world.prepare_answer("/requisition/pdf", status=500, times=3, body={"detail": "no"})
    job = prepare(clinician, [order], "requisition")
    printing.work(seconds=30)
    job.refresh_from_db()
    part = PrintPart.objects.get(job=job)
    assert job.is_open and job.due_at == part.due_at > timezone.now()
    assert (part.state, part.attempts, job.lease_token) == ("waiting", 1, None)
    assert finish(job).done == 1


def test_job_of_a_killed_worker_is_taken_over(clinician: Client, find_order: FindOrder) -> None:
    orders = [find_order("ready", number=number) for number in range(2)]
    job = prepare(clinician, orders, "requisition")
    lost = uuid.uuid4()
    assert printing._claim_job(lost) is not None
    assert printing.work() == 0, "it is another worker's"
    PrintJob.objects.filter(pk=job.pk).update(lease_until=timezone.now())
    assert printing.work() == 2
    job.refresh_from_db()
    assert (job.state, job.done, job.pages) == ("done", 2, 2)
    outcomes = [(part, NoDocument("late", 404)) for part in job.parts.all()]
    assert not printing._store(job, lost, outcomes), "who lost the lease writes nothing"
    assert finish(job).failed == 0


def lose_workers(job: PrintJob, count: int = printing.ATTEMPTS) -> None:
    """As many workers take the job, and are killed before they have stored anything."""
    for _ in range(count):
        assert printing._claim_job(uuid.uuid4()) is not None
        PrintJob.objects.filter(pk=job.pk).update(lease_until=timezone.now())


def test_document_that_ends_workers_is_left_out(clinician: Client, find_order: FindOrder) -> None:
    orders = [find_order("ready", number=number) for number in range(5)]
    job = prepare(clinician, orders, "requisition", "labels", labels="1", **COLLECTED)
    lose_workers(job)
    job = finish(job)
    assert (job.state, job.done, job.failed, job.pages) == ("done", 2, printing.BATCH, 2)
    assert page_of(clinician, job).count(printing.FETCH_LOST) == printing.BATCH
    clinician.post(reverse("documents:job-retry", args=[job.pk]))
    job = finish(PrintJob.objects.get(pk=job.pk))
    assert (job.done, job.failed, job.pages) == (10, 0, 10)


def test_merge_that_ends_workers_is_given_up(clinician: Client, find_order: FindOrder) -> None:
    job = prepare(clinician, [find_order("ready")], "requisition")
    fetched = printing._claim_job(token := uuid.uuid4())
    assert fetched is not None
    parts = list(job.parts.all())
    outcomes = list(zip(parts, printing._fetch_parts(fetched, parts), strict=True))
    assert printing._store(fetched, token, outcomes)
    printing._release(job, token)
    lose_workers(job, printing.ATTEMPTS + 1)
    job = finish(job)
    assert (job.state, job.words) == ("failed", printing.NOT_MERGED)
    clinician.post(reverse("documents:job-retry", args=[job.pk]))
    assert finish(PrintJob.objects.get(pk=job.pk)).pages == 1


def test_canceled_job_keeps_nothing(clinician: Client, find_order: FindOrder) -> None:
    job = prepare(clinician, [find_order("ready")], "requisition")
    clinician.post(reverse("documents:job-cancel", args=[job.pk]))
    assert printing.work() == 0
    job.refresh_from_db()
    assert job.state == "canceled" and not job.parts.exclude(content=None).exists()
    assert clinician.get(reverse("documents:job-file", args=[job.pk])).status_code == 302


def test_file_is_deleted_after_a_day(clinician: Client, find_order: FindOrder) -> None:
    job = finish(prepare(clinician, [find_order("ready")], "requisition"))
    assert printing.expire() == 0 and job.expires_at is not None
    assert timedelta(hours=23) < job.expires_at - timezone.now() < timedelta(hours=25)
    PrintJob.objects.update(expires_at=timezone.now())
    assert clinician.get(reverse("documents:job-file", args=[job.pk])).status_code == 302
    assert printing.expire() == 1
    assert not PrintFile.objects.exists() and not job.parts.exclude(content=None).exists()
    assert "was deleted 24 hours after" in page_of(clinician, job)
    PrintJob.objects.update(asked_at=timezone.now() - timedelta(days=31))
    printing.expire()
    assert not PrintJob.objects.exists() and not PrintPart.objects.exists()


def test_stored_documents_are_encrypted(clinician: Client, find_order: FindOrder) -> None:
    finish(prepare(clinician, [find_order("ready")], "requisition"))
    with connection.cursor() as cursor:
        for table in ("orders_printpart", "orders_printfile"):
            cursor.execute(f"SELECT content FROM {table}")
            [(content,)] = cursor.fetchall()
            assert b"%PDF" not in bytes(content), table


def test_more_orders_than_allowed_are_refused_in_words(
    clinician: Client, find_order: FindOrder
) -> None:
    order = find_order("ready")
    rows = []
    for _ in range(printing.MAX_ORDERS):
        copy = Order.objects.get(pk=order.pk)
        copy.pk = uuid.uuid4()
        rows.append(copy)
    Order.objects.bulk_create(rows)
    page = choose(clinician).content.decode()
    assert "You can print up to 200 orders at once" in page and 'name="go"' not in page


def test_same_form_sent_twice_is_one_job(clinician: Client, find_order: FindOrder) -> None:
    order, form_id = find_order("ready"), uuid.uuid4()
    one = prepare(clinician, [order], "requisition", form_id=form_id)
    assert prepare(clinician, [order], "requisition", form_id=form_id) == one


def test_form_without_document_is_explained(clinician: Client, find_order: FindOrder) -> None:
    answer = choose(clinician, [find_order("ready")], go="1")
    assert answer.status_code == 422
    assert "Choose at least one document." in answer.content.decode()


def test_job_belongs_to_who_asked(clinician: Client, find_order: FindOrder) -> None:
    job = finish(prepare(clinician, [find_order("ready")], "requisition"))
    other = Client()
    other.force_login(staff("lab admin", "other"))
    for name in ("job", "job-file", "job-progress"):
        assert other.get(reverse(f"documents:{name}", args=[job.pk])).status_code == 404
    for name in ("job-cancel", "job-retry"):
        assert other.post(reverse(f"documents:{name}", args=[job.pk])).status_code == 404
    assert "Requisition" in clinician.get("/orders/documents/").content.decode()
    assert "Requisition" not in other.get("/orders/documents/").content.decode()


def test_front_desk_prints_no_results(client: Client, find_order: FindOrder) -> None:
    client.force_login(staff("front desk"))
    order = find_order("completed")
    assert "Result document" not in choose(client, [order]).content.decode()
    assert choose(client, [order], go="1", kinds=["result"]).status_code == 422
    assert not PrintJob.objects.exists()


def test_job_fails_when_its_asker_may_no_longer_print(
    clinician: Client, find_order: FindOrder
) -> None:
    job = prepare(clinician, [find_order("completed")], "result")
    User.objects.get(pk=job.asked_by_id).groups.clear()
    assert printing.work() == 0
    job.refresh_from_db()
    assert (job.state, job.words) == ("failed", printing.NOT_ALLOWED)


def test_opening_a_file_with_results_requires_permission(
    clinician: Client, find_order: FindOrder
) -> None:
    job = finish(prepare(clinician, [find_order("completed")], "requisition", "result"))
    asker = User.objects.get(pk=job.asked_by_id)
    asker.groups.set(Group.objects.get_or_create(name="front desk")[:1])
    address = reverse("documents:job-file", args=[job.pk])
    assert clinician.get(address).status_code == 404
    assert not AuditEntry.objects.filter(object_type="requisition").exists()
    asker.groups.set(Group.objects.get_or_create(name="clinician")[:1])
    assert clinician.get(address).status_code == 200
    assert AuditEntry.objects.filter(object_type="result document", action="print").exists()


def test_file_that_cannot_be_decrypted_is_not_sent(
    clinician: Client, find_order: FindOrder
) -> None:
    job = finish(prepare(clinician, [find_order("ready")], "requisition"))
    with connection.cursor() as cursor:
        cursor.execute("UPDATE orders_printfile SET content = overlay(content placing %s from 60)",
                       [b"damaged"])  # fmt: skip
    answer = clinician.get(reverse("documents:job-file", args=[job.pk]), follow=True)
    assert "This print job has no file." in answer.content.decode()
    assert not AuditEntry.objects.filter(object_type="requisition").exists()


def test_progress_is_polled_until_the_end(clinician: Client, find_order: FindOrder) -> None:
    job = prepare(clinician, [find_order("ready")], "requisition")
    address = reverse("documents:job-progress", args=[job.pk])
    assert address in page_of(clinician, job) and "0 of 1 document" in page_of(clinician, job)
    assert "HX-Refresh" not in clinician.get(address).headers
    finish(job)
    assert clinician.get(address).headers["HX-Refresh"] == "true"
    assert address not in page_of(clinician, job)


def test_kit_without_patient_is_named_by_its_test(clinician: Client, find_order: FindOrder) -> None:
    kit = find_order("canceled")
    empty = {"patient_first_name": "", "patient_last_name": "", "patient_name": ""}
    Order.objects.filter(pk=kit.pk).update(**empty, lab_test_name="Iron & zinc")
    job = finish(prepare(clinician, [kit], "requisition"))
    page = page_of(clinician, job)
    assert "<bdi>No patient, Iron &amp; zinc</bdi>" in page
    rows = clinician.get("/orders/").content.decode()
    assert 'aria-label="Documents: No patient, Iron &amp; zinc"' in rows


def test_only_what_may_succeed_is_tried_again(
    clinician: Client, find_order: FindOrder, world: Sandbox
) -> None:
    order, late, canceled = find_order("ready"), find_order("not ready"), find_order("canceled")
    world.prepare_answer(
        f"/v3/order/{order.pk}/requisition/pdf", status=404, body={"detail": "none"}
    )
    job = finish(prepare(clinician, [order, late, canceled], "requisition", "abn"))
    assert (job.done, job.failed) == (0, 6)
    assert "Retry 1 of 6 skipped" in page_of(clinician, job)
    clinician.post(reverse("documents:job-retry", args=[job.pk]))
    job = finish(PrintJob.objects.get(pk=job.pk))
    assert (job.done, job.failed, job.pages) == (1, 5, 1)
    retry = reverse("documents:job-retry", args=[job.pk])
    assert retry not in page_of(clinician, job)
    answer = clinician.post(retry, follow=True).content.decode()
    assert "None of the skipped documents is available now." in answer
    job.refresh_from_db()
    assert (job.state, job.failed, job.pages) == ("done", 5, 1)


def test_canceled_job_counts_what_was_done_before(clinician: Client, find_order: FindOrder) -> None:
    orders = [find_order("ready"), find_order("ready", number=1), find_order("canceled")]
    job = prepare(clinician, orders, "requisition")
    fetched = printing._claim_job(token := uuid.uuid4())
    assert fetched is not None
    parts = [job.parts.get(position=0), job.parts.get(position=2)]
    outcomes = list(zip(parts, printing._fetch_parts(fetched, parts), strict=True))
    assert printing._store(fetched, token, outcomes)
    clinician.post(reverse("documents:job-cancel", args=[job.pk]))
    page = page_of(clinician, job)
    assert "1 of 3 documents were ready before." in page and "Skipped" not in page
    row = clinician.get("/orders/documents/").content.decode()
    assert "Canceled after 1 of 3" in row
