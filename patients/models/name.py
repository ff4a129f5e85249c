"""The index of words by which patients are found by name."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import reduce
from operator import or_
from typing import Final

from django.db import models
from django.db.models import Q, QuerySet

from patients.search_keys import LONGEST_WORD
from patients.search_text import RequiredPrefixes


class PatientNameWord(models.Model):
    """A word of a patient's name. Triggers write the words of `patients.search_keys.name_key`.

    The collation is C, so words with the same prefix are neighbors. A search reads a few pages of
    the primary key, which has every column that the search needs.
    """

    pk = models.CompositePrimaryKey("word", "user", "name_key")
    word = models.TextField(db_collation="C")
    user = models.ForeignKey(
        "patients.Patient",
        on_delete=models.DO_NOTHING,
        db_constraint=False,
        db_index=False,
        related_name="+",
    )
    name_key = models.TextField()

    def __str__(self) -> str:
        return f"word of the name of patient {self.user_id}"

    @staticmethod
    def matching(required: RequiredPrefixes, *, whole: bool = False) -> QuerySet[PatientNameWord]:
        """Return the words of the names that have all required words, in any order.

        A word of the name matches if it begins with one of the prefixes (see
        `search_text.required_prefixes`). With `whole`, it must be equal to the typed word. One name
        may have several such words. Without required words, no name matches.
        """
        if whole:
            required = [prefixes[:1] for prefixes in required]
        if not required:
            return PatientNameWord.objects.none()
        first = most_selective(required)
        rows = PatientNameWord.objects.filter(word_index_condition(first, whole=whole))
        for prefixes in required:
            if prefixes != first:
                rows = rows.filter(name_contains_word("name_key", *prefixes, whole=whole))
        return rows


def most_selective(required: RequiredPrefixes) -> tuple[str, ...]:
    """Return the alternatives that the index looks up first: the longest single prefix, if any."""
    single = [words for words in required if len(words) == 1 and len(words[0]) >= ENOUGH_LETTERS]
    return max(single or required, key=lambda words: len(words[0]))


ENOUGH_LETTERS: Final = 3


def word_index_condition(beginnings: Sequence[str], *, whole: bool = False) -> Q:
    """Return the condition on indexed words: they begin with one of these, or are equal to one."""
    prefixes = [word[:LONGEST_WORD] for word in beginnings]
    return any_of(Q(word=word) if whole else Q(word__startswith=word) for word in prefixes)


def any_of(conditions: Iterable[Q]) -> Q:
    return reduce(or_, conditions)


def name_contains_word(column: str, *beginnings: str, whole: bool = False) -> Q:
    """Return the condition that a word of a folded name begins with one of these, or is equal."""
    return any_of(_has_word(column, word, whole=whole) for word in beginnings)


def _has_word(column: str, word: str, *, whole: bool) -> Q:
    if not whole:
        return Q(**{f"{column}__startswith": word}) | Q(**{f"{column}__contains": f" {word}"})
    return (
        Q(**{column: word})
        | Q(**{f"{column}__startswith": f"{word} "})
        | Q(**{f"{column}__endswith": f" {word}"})
        | Q(**{f"{column}__contains": f" {word} "})
    )
