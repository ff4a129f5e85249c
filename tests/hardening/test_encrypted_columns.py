"""Encrypted columns: dumps, rows, wrong keys, and key rotation under load."""

from __future__ import annotations

import hashlib
import io
import threading
import uuid
from collections.abc import Iterator
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pytest
from django.core.exceptions import ImproperlyConfigured
from django.core.management import CommandError, call_command
from django.db import connection, connections, transaction
from django.test import Client
from pytest_django import Settings

from backoffice.accounts.models import User
from backoffice.core import installation, key_rotation
from backoffice.core.encryption.encrypted_fields import UNREADABLE, encrypted_fields
from backoffice.mirror.models import UnreadRecord
from backoffice.outbox.models import CommandRecord
from labs.reports import storage
from orders.models import OrderDraft
from orders.models.print_job import PrintFile, PrintJob, PrintPart
from patients.models import ConnectLink, Insurance, RegistrationDraft
from tests.api.rows import staff
from tests.webhooks.rows import event
from webhooks.models import Event

pytestmark = pytest.mark.django_db

KEY, NEXT = b"k" * 32, b"n" * 32
CANARY = "canary-5c1f"


@pytest.fixture(autouse=True)
def folder(settings: Settings, tmp_path: Path) -> Path:
    settings.REPORT_FOLDER = tmp_path / "reports"
    return tmp_path / "reports"


def create_insurance(user: uuid.UUID | None = None, **columns: Any) -> Insurance:
    row = Insurance(
        id=uuid.uuid4(), user_id=user or uuid.uuid4(), is_primary=True, payor_code="P1",
        relationship="Self", company_name="Madeup Mutual", member_id=CANARY, group_id=CANARY,
        insured_first_name=CANARY, insured_last_name=CANARY, insured_dob=date(1990, 2, 3),
        record=f'{{"member_id":"{CANARY}"}}', content_hash=b"", as_of=datetime.now(UTC),
    )  # fmt: skip
    for name, value in columns.items():
        setattr(row, name, value)
    row.save()
    return row


def create_command(user: User) -> CommandRecord:
    return CommandRecord.objects.create(
        kind="patient.create", title="Register somebody", subject_type="new patient",
        subject_id=str(uuid.uuid4()), payload={"name": CANARY}, form_data={"name": [CANARY]},
        form_id=uuid.uuid4(), requested_by=user, idempotency_key=uuid.uuid4(),
    )  # fmt: skip


def fill_encrypted_columns() -> None:
    """Store a value in every encrypted column, and a file."""
    user = staff("nurse")
    create_insurance()
    create_command(user)
    event("labtest.order.updated", {"note": CANARY}).save()
    OrderDraft.objects.create(user=user, patient_id=uuid.uuid4(), typed={"notes": [CANARY]})
    RegistrationDraft.objects.create(user=user, typed={"first_name": [CANARY]})
    ConnectLink.objects.create(id=uuid.uuid4(), url=CANARY, expires_at=datetime.now(UTC))
    UnreadRecord.objects.create(resource="orders", key="k1", record=f'{{"note":"{CANARY}"}}')
    job = PrintJob.objects.create(
        form_id=uuid.uuid4(), asked_by=user, labels=1, new_sheet=False, orders=1, total=1, kinds=[]
    )
    part = {"job": job, "position": 0, "order_id": uuid.uuid4(), "content": CANARY.encode()}
    PrintPart.objects.create(kind="requisition", **part)
    PrintFile.objects.create(pk=job.pk, job=job, content=CANARY.encode())
    storage.store(CANARY.encode())


def stored_texts() -> Iterator[str]:
    for field in encrypted_fields():
        table, column = field.model._meta.db_table, field.column
        with connection.cursor() as cursor:
            cursor.execute(f'SELECT "{column}"::text FROM "{table}" WHERE "{column}" IS NOT NULL')
            for (text,) in cursor.fetchall():
                yield text
                if text.startswith("\\x"):
                    yield bytes.fromhex(text[2:]).decode("utf-8", "replace")


def test_encrypted_columns_and_files_hide_their_content(folder: Path) -> None:
    fill_encrypted_columns()
    texts = list(stored_texts())
    empty = [field for field in encrypted_fields() if not field.model._default_manager.exists()]
    assert not empty, "some encrypted columns have no row"
    assert texts and not [text for text in texts if CANARY in text]
    (file,) = (path for path in folder.rglob("*") if path.is_file())
    assert CANARY.encode() not in file.read_bytes()


def test_rows_decrypt_to_stored_values() -> None:
    fill_encrypted_columns()
    insurance, record, received = (
        Insurance.objects.get(),
        CommandRecord.objects.get(),
        Event.objects.get(),
    )
    assert (insurance.member_id, insurance.insured_dob) == (CANARY, date(1990, 2, 3))
    assert insurance.record_at() == {"member_id": CANARY}
    assert (record.payload, record.form_data) == ({"name": CANARY}, {"name": [CANARY]})
    assert CANARY.encode() in (received.body or b"")
    assert CANARY in UnreadRecord.objects.get().record
    assert OrderDraft.objects.get().typed == {"notes": [CANARY]}
    assert RegistrationDraft.objects.get().typed == {"first_name": [CANARY]}


def test_value_moved_to_another_row_is_unreadable() -> None:
    first, other = create_insurance(), create_insurance(member_id="another")
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE patients_insurance SET member_id = (SELECT member_id FROM patients_insurance"
            " WHERE id = %s) WHERE id = %s",
            [first.pk, other.pk],
        )
    assert Insurance.objects.get(pk=other.pk).member_id == UNREADABLE
    assert Insurance.objects.get(pk=first.pk).member_id == CANARY


def test_unreadable_row_is_listed_and_keeps_its_value(client: Client, settings: Settings) -> None:
    settings.FIELD_KEYS = {9: NEXT}
    unreadable = create_insurance()
    settings.FIELD_KEYS = {1: KEY}
    client.force_login(staff("lab admin"))
    create_insurance(unreadable.user_id)
    answer = client.get(f"/api/insurance/?user_id={unreadable.user_id}").json()["results"]
    records = {item["member_id"]: item["record"] for item in answer}
    assert records == {CANARY: {"member_id": CANARY}, UNREADABLE: None}
    row = Insurance.objects.get(pk=unreadable.pk)
    assert (row.member_id, row.insured_dob) == (UNREADABLE, None)
    row.relationship = "Child"
    row.save()
    settings.FIELD_KEYS = {1: KEY, 9: NEXT}
    assert Insurance.objects.get(pk=unreadable.pk).member_id == CANARY


def test_encrypted_value_cannot_be_set_by_update() -> None:
    row = create_command(staff("nurse"))
    with pytest.raises(TypeError, match="save it with its row"), transaction.atomic():
        CommandRecord.objects.update(payload={"name": "x"})
    CommandRecord.objects.update(payload={}, form_data={})
    row.refresh_from_db()
    assert (row.payload, row.form_data) == ({}, {})
    assert not CommandRecord.objects.exclude(payload={}, form_data={}).exists()


def test_digests_of_encrypted_records_depend_on_keys() -> None:
    """Otherwise somebody with a dump could guess member ids until the digest matches."""
    assert installation.fingerprint(b"x") == installation.fingerprint(b"x")
    assert installation.fingerprint(b"x") != hashlib.blake2b(b"x", digest_size=16).digest()


# Checks of keys and environment at the start


def test_start_check_detects_other_keys(settings: Settings) -> None:
    installation.ensure()
    settings.FIELD_KEYS = {1: b"x" * 32}
    with pytest.raises(ImproperlyConfigured, match="FIELD_KEYS are not the keys"):
        installation.ensure()


def test_start_check_detects_another_environment(settings: Settings) -> None:
    installation.ensure()
    settings.MANAGEMENT_ENV = "production"
    with pytest.raises(ImproperlyConfigured, match="of the service's sandbox us") as refused:
        installation.ensure()
    assert "production us" in str(refused.value)


# Key rotation


def rotate(*arguments: str) -> str:
    out = io.StringIO()
    call_command("rotatekeys", *arguments, stdout=out)
    return out.getvalue()


@pytest.mark.django_db(transaction=True)
def test_rotation_reencrypts_everything_with_the_new_key(settings: Settings) -> None:
    old = settings.FIELD_KEYS
    fill_encrypted_columns()
    with connection.cursor() as cursor:  # as stored before encryption was introduced
        cursor.execute("UPDATE webhooks_event SET body = %s", [b'{"data":"plain"}'])
        cursor.execute('UPDATE outbox_commandrecord SET payload = \'{"name": "plain"}\'')
        cursor.execute("UPDATE patients_insurance SET member_id = 'plain'")
    assert "not encrypted: 3" in rotate("--count").splitlines()[-1]
    assert CommandRecord.objects.get().payload == {"name": "plain"}
    settings.FIELD_KEYS = {2: NEXT, **old}
    try:
        summary = rotate().splitlines()[-1]
        assert summary.startswith("Total: key 2: ") and "key 1" not in summary, summary
        settings.FIELD_KEYS = {2: NEXT}
        assert installation.ensure().environment == "sandbox us"
        assert Insurance.objects.get().member_id == "plain"
        assert Insurance.objects.get().group_id == CANARY
        assert Event.objects.get().body == b'{"data":"plain"}'
        assert CommandRecord.objects.get().payload == {"name": "plain"}
        assert rotate("--count").splitlines()[-1] == summary
    finally:
        settings.FIELD_KEYS = {**old, 2: NEXT}
        rotate()  # The installation row stays for the other tests.


@pytest.mark.django_db(transaction=True)
def test_rotation_limits_batches_by_bytes_and_rows(settings: Settings) -> None:
    """Batches are limited by bytes as well as by rows, and no row is left out."""
    for size in (10, 30_000, 100_000, 30_000, 10, 10):
        event("labtest.order.updated", {"note": "x" * size}).save()
    settings.FIELD_KEYS = {2: NEXT, **settings.FIELD_KEYS}
    column = next(
        each for each in key_rotation.encrypted_columns() if each.name == "webhooks_event.body"
    )
    column.batch_bytes = 65_000
    assert list(column.encrypt_again()) == [2, 1, 3]
    assert column.count().keys() == {2}
    column.batch_rows, column.batch_bytes = 4, 10**9
    assert len(list(column.encrypt_again())) == 2


@pytest.mark.django_db(transaction=True)
def test_rotation_reports_undecryptable_values_and_keeps_them(settings: Settings) -> None:
    old = settings.FIELD_KEYS
    settings.FIELD_KEYS = {9: NEXT}
    create_insurance()
    settings.FIELD_KEYS = old
    with pytest.raises(CommandError, match="key 9: 6"):
        rotate()
    settings.FIELD_KEYS = {**old, 9: NEXT}
    assert Insurance.objects.get().member_id == CANARY


@pytest.mark.django_db(transaction=True)
def test_rotation_works_during_reads_and_writes(settings: Settings) -> None:
    """A small version of promise P21: 2,000 rows, two readers and a writer. No read fails."""
    old = settings.FIELD_KEYS
    rows = [event("labtest.order.updated", {"note": CANARY}) for _ in range(2_000)]
    Event.objects.bulk_create(rows)
    settings.FIELD_KEYS = {2: NEXT, **old}
    finished = threading.Event()
    failures: list[str] = []
    reads = [0, 0]

    def read(number: int) -> None:
        while not finished.is_set():
            for row in Event.objects.order_by("?")[:50]:
                reads[number] += 1
                if CANARY.encode() not in (row.body or b""):
                    failures.append(row.message_id)
        connections.close_all()

    def write() -> None:
        while not finished.is_set():
            event("labtest.order.updated", {"note": CANARY}).save()
        connections.close_all()

    threads = [threading.Thread(target=read, args=(number,)) for number in range(2)]
    threads.append(threading.Thread(target=write))
    for thread in threads:
        thread.start()
    try:
        rotate()
    finally:
        finished.set()
        for thread in threads:
            thread.join()
        settings.FIELD_KEYS = {**old, 2: NEXT}
        rotate()
    assert not failures and min(reads) > 500
    assert Event.objects.count() >= 2_000
