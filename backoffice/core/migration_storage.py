"""How mirrored tables are stored: shared by the migrations of every app."""

from __future__ import annotations

from django.db import migrations


def keep_records_out_of_line(*tables: str) -> migrations.RunSQL:
    """Keep the record as received away from the promoted columns.

    PostgreSQL moves a long value out of line only until a row fits `toast_tuple_target`, 2 KB by
    default: a lower target lets a scan of the promoted columns pass by the records.
    """
    return migrations.RunSQL(
        [f'ALTER TABLE "{table}" SET (toast_tuple_target = 256)' for table in tables],
        [f'ALTER TABLE "{table}" RESET (toast_tuple_target)' for table in tables],
    )
