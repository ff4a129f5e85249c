"""Facts in: the one door through which records of the service become rows.

A batch of facts is compared with what is stored by content hash first. Equal ones cost one read
and write nothing. New ones are copied straight into their table; changed ones are staged and
upserted in one statement, where the newer fact wins: the table's version columns, then the moment
the record was asked for. An older fact changes nothing. Rows are touched in key order, so two
workers with overlapping batches wait for each other instead of deadlocking.

A record that does not fit its columns fails alone: the batch is halved until it stands by itself,
and the columns that do not fit are left empty. One that cannot be stored even so is kept whole in
`UnreadRecord`; one of which parts were left out is noted there, too.
"""

from backoffice.mirror.applying import RecordNotStored, apply, flag_missing, require_storage
from backoffice.mirror.datetime_limits import to_utc_in_range
from backoffice.mirror.promotion import already_stored_keys, promote_again
from backoffice.mirror.rows import StoredVersion, StoredVersions, add_child_rows, known, uuid_array
from backoffice.mirror.tables import (
    ApplyOutcome,
    ChildTable,
    MirrorRecord,
    MirrorTable,
    RecordKey,
    RowValues,
    key_text,
)
from backoffice.mirror.unknown_values import count_unknown_value
from backoffice.mirror.unreadable_records import (
    clear_unreadable,
    key_from_raw,
    save_partly_readable,
    save_unreadable,
)

__all__ = [
    "ApplyOutcome",
    "ChildTable",
    "MirrorRecord",
    "MirrorTable",
    "RecordKey",
    "RecordNotStored",
    "RowValues",
    "StoredVersion",
    "StoredVersions",
    "add_child_rows",
    "already_stored_keys",
    "apply",
    "clear_unreadable",
    "count_unknown_value",
    "flag_missing",
    "key_from_raw",
    "key_text",
    "known",
    "promote_again",
    "require_storage",
    "save_partly_readable",
    "save_unreadable",
    "to_utc_in_range",
    "uuid_array",
]
