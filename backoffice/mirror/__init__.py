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

from backoffice.mirror.applying import NotStored, apply, flag_missing, storing_all
from backoffice.mirror.datetime_limits import readable
from backoffice.mirror.promotion import promote_again, same_records
from backoffice.mirror.rows import Known, Stored, add_children, known, uuid_array
from backoffice.mirror.tables import Children, Fact, Key, Outcome, Table, Values, key_text
from backoffice.mirror.unknown_values import count_unknown
from backoffice.mirror.unreadable_records import keep_partly_read, keep_unread, key_of, now_read

__all__ = [
    "Children",
    "Fact",
    "Key",
    "Known",
    "NotStored",
    "Outcome",
    "Stored",
    "Table",
    "Values",
    "add_children",
    "apply",
    "count_unknown",
    "flag_missing",
    "keep_partly_read",
    "keep_unread",
    "key_of",
    "key_text",
    "known",
    "now_read",
    "promote_again",
    "readable",
    "same_records",
    "storing_all",
    "uuid_array",
]
