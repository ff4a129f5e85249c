"""Backups: one folder with a database snapshot, the uploaded reports, and a manifest.

    FOLDER/                 0700, exists only when complete
        database.dump       pg_dump, custom format
        reports/            uploaded files
        manifest.json       time, migrations, row count and checksum of each table, size and
                            SHA-256 of each file

The product keeps running meanwhile. The keys are not included, and encrypted columns cannot be
read without them.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import time
from datetime import datetime
from pathlib import Path
from typing import Final

import msgspec
import psycopg
from django.conf import settings
from django.core.management.base import CommandError
from django.db.migrations.recorder import MigrationRecorder
from psycopg.rows import TupleRow

from backoffice.core.models import Backup
from backoffice.operations import dumps

DUMP: Final = "database.dump"
MANIFEST: Final = "manifest.json"
REPORTS: Final = "reports"
FORMAT: Final = 1


class Manifest(msgspec.Struct, kw_only=True):
    """The contents of a backup. `files` has size and SHA-256 by path in the folder."""

    format: int
    moment: datetime
    version: str
    migrations: list[tuple[str, str]]
    tables: dumps.Contents
    files: dict[str, tuple[int, str]]


def write(folder: Path) -> Manifest:
    """Write a backup. Raises CommandError; then no new folder is left."""
    if folder.exists():
        raise CommandError(f"{folder} already exists. A backup needs a new folder.")
    started = time.monotonic()
    partial = folder.with_name(f"{folder.name}.partial")
    before = os.umask(0o077)
    try:
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir(parents=True)
        manifest = _write_contents(partial)
        (partial / MANIFEST).write_bytes(msgspec.json.format(msgspec.json.encode(manifest)))
        partial.rename(folder)
    except OSError as error:
        raise CommandError(f"The backup could not be written: {error}") from None
    finally:
        shutil.rmtree(partial, ignore_errors=True)
        os.umask(before)
    size = sum(length for length, _ in manifest.files.values())
    Backup.objects.create(at=manifest.moment, seconds=time.monotonic() - started, bytes=size)
    return manifest


def _write_contents(folder: Path) -> Manifest:
    program = dumps.program("pg_dump")
    with dumps.snapshot_connection() as connection:
        snapshot, moment = _fetch_one(connection, "SELECT pg_export_snapshot(), now()")
        dump = dumps.start(
            [
                *(program, "--format=custom", "--no-owner", "--no-privileges"),
                *(f"--snapshot={snapshot}", f"--file={folder / DUMP}"),
            ]
        )
        try:
            # Same snapshot as pg_dump, which runs meanwhile.
            tables = dumps.contents(connection)
            migrations = connection.execute(
                f"SELECT app, name FROM {MigrationRecorder.Migration._meta.db_table} ORDER BY id"
            ).fetchall()
            dumps.finish(dump, "pg_dump")
        finally:
            dump.kill()
            dump.wait()
    # Copy the files after the database snapshot: a file is written before the row that names it.
    if settings.REPORT_FOLDER.is_dir():
        shutil.copytree(settings.REPORT_FOLDER, folder / REPORTS, copy_function=_copy_if_present)
    return Manifest(
        format=FORMAT,
        moment=moment,
        version=settings.VERSION,
        migrations=[(app, name) for app, name in migrations],
        tables=tables,
        files=measure_files(folder),
    )


def _copy_if_present(source: str, target: str) -> None:
    """Copy a file; skip one that disappeared (encrypted again under a new key, or rejected)."""
    with contextlib.suppress(FileNotFoundError):
        shutil.copy2(source, target)


def _fetch_one(connection: psycopg.Connection, statement: str) -> TupleRow:
    row = connection.execute(statement.encode()).fetchone()
    assert row is not None
    return row


def measure_files(folder: Path) -> dict[str, tuple[int, str]]:
    """Return size and SHA-256 of every file except the manifest, by path in the folder."""
    files = {}
    for path in sorted(folder.rglob("*")):
        if path.is_file() and path.name != MANIFEST:
            with path.open("rb") as content:
                digest = hashlib.file_digest(content, "sha256").hexdigest()
            files[str(path.relative_to(folder))] = (path.stat().st_size, digest)
    return files


def read_manifest(folder: Path) -> Manifest:
    """Read the manifest and compare it with the files. Raises CommandError."""
    try:
        manifest = msgspec.json.decode((folder / MANIFEST).read_bytes(), type=Manifest)
    except FileNotFoundError:
        raise CommandError(f"{folder} is not a backup: it has no {MANIFEST}.") from None
    except (msgspec.MsgspecError, json.JSONDecodeError):
        raise CommandError(f"The manifest of {folder} cannot be read.") from None
    if manifest.format != FORMAT:
        raise CommandError(
            f"{folder} was made by another release in a format that is not known here."
        )
    measured = measure_files(folder)
    differing = sorted(
        name
        for name in manifest.files.keys() | measured.keys()
        if manifest.files.get(name) != measured.get(name)
    )
    if differing:
        raise CommandError(
            f"The backup is damaged: {', '.join(differing[:5])} differ from its manifest."
        )
    return manifest
