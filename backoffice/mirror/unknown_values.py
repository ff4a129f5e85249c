"""Count values that no vocabulary knows."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from django.db.backends.utils import CursorWrapper

from backoffice.core import vocabulary
from backoffice.mirror.tables import RowValues

logger = logging.getLogger(__name__)


class UnknownValueCounter:
    """Counts unknown values; the first column of a row identifies the sample record."""

    def __init__(self, vocabulary_of_column: Mapping[str, str]) -> None:
        self.columns = [
            (column, name, vocabulary.VOCABULARIES[name])
            for column, name in vocabulary_of_column.items()
        ]
        self.counts: dict[tuple[str, str], tuple[int, str]] = {}

    def count(self, row: RowValues) -> None:
        for column, name, terms in self.columns:
            value = row[column]
            if value and value not in terms and not vocabulary.is_known(name, value):
                count, sample = self.counts.get((name, value), (0, str(next(iter(row.values())))))
                self.counts[name, value] = count + 1, sample

    def save(self, cursor: CursorWrapper) -> None:
        for (name, value), (count, sample) in sorted(self.counts.items()):
            if count_unknown_value(cursor, name, value, count, sample):
                logger.warning("unknown value", extra={"vocabulary": name})


def count_unknown_value(
    cursor: CursorWrapper, vocabulary_name: str, value: str, count: int, sample: str
) -> bool:
    """Add sightings of a value that no vocabulary knows; return whether it is new.

    `sample` is the key of a record with this value.
    """
    cursor.execute(
        "INSERT INTO core_unknownvalue (vocabulary, value, bucket, sightings, sample_key)"
        " VALUES (%s, %s, '', %s, %s)"
        " ON CONFLICT (vocabulary, value) DO UPDATE SET"
        " sightings = core_unknownvalue.sightings + EXCLUDED.sightings,"
        " last_seen = now() RETURNING sightings",
        [vocabulary_name, value, count, sample],
    )
    return bool(cursor.fetchone() == (count,))
