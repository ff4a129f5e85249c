"""Key rotation: encrypt with the first of `FIELD_KEYS` what has another key or none.

Rows are processed in batches, each in its own transaction, and locked rows are skipped. A run can
be killed at any line and started again while everything else works. Readers decrypt with every
key, so none waits or fails. A key may be removed from the settings when no value has it any more,
neither in the database nor in the backups that are kept.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Protocol, TypeAlias
from uuid import UUID

from django.db import connection, models, transaction

from backoffice.core.encryption import cipher
from backoffice.core.encryption.encrypted_fields import (
    EncryptedBinaryField,
    EncryptedBlob,
    EncryptedField,
    EncryptedJSONField,
    EncryptedToken,
    encrypted_fields,
    encrypted_fields_of,
)
from backoffice.core.models import Installation

RowKey: TypeAlias = int | str | UUID


class EncryptedStore(Protocol):
    """Something that holds encrypted values."""

    @property
    def name(self) -> str: ...

    def count(self) -> Counter[int | None]:
        """Count values by the id of their key (None: not encrypted), without empty ones."""

    def encrypt_again(self) -> Iterator[int]:
        """Encrypt with the first key what is not; yield the number of values at each step.

        Locked values, and those that cannot be decrypted, are left.
        """


class EncryptedColumn:
    """One encrypted column of a table."""

    batch_rows = 500
    batch_bytes = 32 * 1024 * 1024
    """Rough limit of the values in memory at once: bodies of events may be megabytes."""

    def __init__(self, field: EncryptedField) -> None:
        self.field = field
        self.model: type[models.Model] = field.model
        self.name = field.place_name()

    def count(self) -> Counter[int | None]:
        table, column = self.model._meta.db_table, self.field.column
        with connection.cursor() as cursor:
            cursor.execute(
                f'SELECT {self._key_id()}, count(*) FROM "{table}"'
                f' WHERE "{column}" IS NOT NULL AND {self._is_filled()} GROUP BY 1'
            )
            return Counter(dict(cursor.fetchall()))

    def encrypt_again(self) -> Iterator[int]:
        keys = self._next_keys(None)
        while keys:
            with transaction.atomic(durable=True):
                rows = self._rows(keys)
                changed = [pair for row in rows if (pair := self._encrypted_again(row)) is not None]
                self._write(changed)
            del rows  # Free the memory before the next batch is read.
            yield len(changed)
            keys = self._next_keys(keys[-1])

    def _next_keys(self, after: RowKey | None) -> list[RowKey]:
        """Return keys of the next rows: at most `batch_rows` and `batch_bytes`, at least one."""
        table, key = self.model._meta.db_table, self.model._meta.pk.column
        where = "" if after is None else f'WHERE "{key}" > %s'
        with connection.cursor() as cursor:
            cursor.execute(
                f'SELECT "{key}", coalesce(octet_length({self._text()}), 0) FROM "{table}"'
                f' {where} ORDER BY "{key}" LIMIT {self.batch_rows}',
                [] if after is None else [after],
            )
            rows = cursor.fetchall()
        total_bytes = 0
        for number, (_, size) in enumerate(rows):
            total_bytes += size
            if number and total_bytes > self.batch_bytes:
                return [row[0] for row in rows[:number]]
        return [row[0] for row in rows]

    def _rows(self, keys: list[RowKey]) -> list[models.Model]:
        names = {self.model._meta.pk.name, self.field.binding_field.name, self.field.name}
        rows = self.model._default_manager.order_by("pk").only(*names).filter(pk__in=keys)
        return list(rows.select_for_update(skip_locked=True, of=("self",), no_key=True))

    def _encrypted_again(
        self, row: models.Model
    ) -> tuple[EncryptedToken | EncryptedBlob, RowKey] | None:
        """Return the new value of a row and its key; None if the value stays as it is."""
        value = row.__dict__[self.field.attname]
        if not value:
            return None
        binding_value = getattr(row, self.field.binding_field.attname)
        if isinstance(value, EncryptedToken | EncryptedBlob):
            if cipher.key_id_of(value) == cipher.current_key_id():
                return None
            try:
                value = self.field.decrypted_value(value, binding_value)
            except cipher.DecryptionError:
                return None
        return self.field.stored_value(value, binding_value), row.pk

    def _write(self, changed: list[tuple[EncryptedToken | EncryptedBlob, RowKey]]) -> None:
        table, column = self.model._meta.db_table, self.field.column
        values = [(self.field.get_db_prep_save(value, connection), key) for value, key in changed]
        with connection.cursor() as cursor:
            cursor.executemany(
                f'UPDATE "{table}" SET "{column}" = %s WHERE "{self.model._meta.pk.column}" = %s',
                values,
            )

    def _text(self) -> str:
        column = f'"{self.field.column}"'
        return f"{column} #>> '{{}}'" if isinstance(self.field, EncryptedJSONField) else column

    def _is_filled(self) -> str:
        if isinstance(self.field, EncryptedBinaryField):
            return f'octet_length("{self.field.column}") > 1'
        return f"({self._text()}) NOT IN ('', '{{}}')"

    def _key_id(self) -> str:
        """Return SQL for the id of a value's key: see `cipher`."""
        if isinstance(self.field, EncryptedBinaryField):
            head = f'substring("{self.field.column}" FROM 1 FOR 2)'
            sealed = f"get_byte({head}, 0) = {cipher.VERSION}"
            return f"CASE WHEN {sealed} THEN get_byte({head}, 1) END"
        prefix = f"sealed:{cipher.VERSION}:"
        text = f"({self._text()})"
        return f"CASE WHEN starts_with({text}, '{prefix}') THEN split_part({text}, ':', 3)::int END"


def encrypted_columns() -> list[EncryptedColumn]:
    """Return every encrypted column, the installation's secret last.

    A process that starts with wrong keys notices it by that secret, so it keeps the old key as long
    as any other value has it.
    """
    installation_fields = encrypted_fields_of(Installation)
    return [
        EncryptedColumn(field)
        for field in [
            *(f for f in encrypted_fields() if f not in installation_fields),
            *installation_fields,
        ]
    ]
