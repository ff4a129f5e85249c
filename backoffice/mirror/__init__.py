"""Store records of the service as rows: the only writer of mirrored tables.

A batch of records is first compared with the stored rows by content hash. Equal records cost one
read and write nothing. New ones are copied straight into their table; changed ones are staged and
upserted in one statement, where the newer record wins: by the table's version columns, then by the
time the record was requested. An older record changes nothing. Rows are locked in key order, so
two workers with overlapping batches wait for each other instead of deadlocking.

A record that does not fit its columns does not stop the others: the batch is halved until the
record is alone, and its unusable columns are left empty. If it still cannot be stored, it is saved
whole as an `UnreadRecord`. A record with parts left out is saved there, too.
"""

from backoffice.mirror.applying import RecordNotStored, apply, flag_missing, require_storage
from backoffice.mirror.datetime_limits import to_utc_in_range
from backoffice.mirror.promotion import already_stored_keys, promote_again
from backoffice.mirror.rows import (
    StoredVersion,
    StoredVersions,
    add_child_rows,
    stored_versions,
    uuid_array,
)
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
    "promote_again",
    "require_storage",
    "save_partly_readable",
    "save_unreadable",
    "stored_versions",
    "to_utc_in_range",
    "uuid_array",
]
