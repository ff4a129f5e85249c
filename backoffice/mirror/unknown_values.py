"""Values that no vocabulary knows."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from django.db.backends.utils import CursorWrapper

from backoffice.core import vocabulary
from backoffice.mirror.tables import RowValues

logger = logging.getLogger(__name__)


class UnknownValueCounter:
    """Values that no vocabulary knows, counted; the first column tells where one was met."""

    def __init__(self, words_of: Mapping[str, str]) -> None:
        self.watched = [
            (column, words, vocabulary.VOCABULARIES[words]) for column, words in words_of.items()
        ]
        self.met: dict[tuple[str, str], tuple[int, str]] = {}

    def look_at(self, row: RowValues) -> None:
        for column, words, known in self.watched:
            value = row[column]
            if value and value not in known and not vocabulary.is_known(words, value):
                count, sample = self.met.get((words, value), (0, str(next(iter(row.values())))))
                self.met[words, value] = count + 1, sample

    def note(self, cursor: CursorWrapper) -> None:
        for (words, value), (count, sample) in sorted(self.met.items()):
            if count_unknown_value(cursor, words, value, count, sample):
                logger.warning("unknown value", extra={"vocabulary": words})


def count_unknown_value(
    cursor: CursorWrapper, words: str, value: str, count: int, sample: str
) -> bool:
    """Add sightings of a value that vocabulary `words` does not know; True when it is a new one.

    `sample` is the key of a record it was met in.
    """
    cursor.execute(
        "INSERT INTO backoffice_unknownvalue (vocabulary, value, bucket, sightings, sample_key)"
        " VALUES (%s, %s, '', %s, %s)"
        " ON CONFLICT (vocabulary, value) DO UPDATE SET"
        " sightings = backoffice_unknownvalue.sightings + EXCLUDED.sightings,"
        " last_seen = now() RETURNING sightings",
        [words, value, count, sample],
    )
    return bool(cursor.fetchone() == (count,))
