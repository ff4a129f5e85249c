"""Store records of the service as rows: the only writer of mirrored tables.

A batch of records is first compared with the stored rows by content hash. Equal records cost one
read and write nothing. New ones are copied straight into their table; changed ones are staged and
upserted in one statement, where the newer record wins: by the table's version columns, then by the
time the record was requested. An older record changes nothing. Rows are locked in key order, so
two workers with overlapping batches wait for each other instead of deadlocking.

A record that does not fit its columns does not stop the others: the batch is halved until the
record is alone, and its unusable columns are left empty. If it still cannot be stored, it is saved
whole as an `UnreadRecord`. A record with parts left out is saved there, too.

applying.py     `apply_batch`: which records are new, newer, equal or older
rows.py         COPY of new rows, upsert of changed ones: here SQL decides once more what is newer
tables.py       what an app declares of a mirrored table
promotion.py    computes promoted columns again after a change of their rules
"""
