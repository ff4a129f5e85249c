"""The names on orders, each stored once, with their words: the search for orders by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from operator import and_
from typing import Final

from django.db import models
from django.db.models import Max, Min, Q, QuerySet

from backoffice.pages.paging.keys import key_condition
from patients.models import any_of, most_selective, name_contains_word, word_index_condition
from patients.search_text import RequiredPrefixes

PATIENT, RECIPIENT, BOTH = 1, 2, 3
COLUMN_CONDITIONS: Final = {
    "patient_name": Q(person_role__in=[PATIENT, BOTH]),
    "recipient_name": Q(person_role__in=[RECIPIENT, BOTH]),
    "names": Q(),
}
"""Condition on the words for each column that can be searched."""
SEARCHED_NAMES: Final = {
    "patient_name": ("patient_name",),
    "recipient_name": ("recipient_name",),
    "names": ("patient_name", "recipient_name"),
}
"""The columns of an order that are searched for each of them."""
MAX_NAMES: Final = 50_000
"""Most names that are found first: of a million orders, those with a word that begins with one
frequent letter. Each thousand takes a millisecond."""

RequiredNames = Mapping[str, RequiredPrefixes]
"""The words that a name must have, by column: `patient_name`, `recipient_name`, or `names` for
both.
"""


class OrderName(models.Model):
    """The folded names of a patient and a recipient.

    Triggers add the names of each order, and set the key of its name on the order.

    There are six times fewer names than orders, and every index for a list of orders includes the
    key of the name. So a search first finds the matching names, and then decides inside the index
    of the list whether an order has one of them. A name whose orders are gone is not deleted; a
    search for it finds no order.
    """

    id = models.BigIntegerField(primary_key=True, help_text="Hash of both names")
    patient_name = models.TextField()
    recipient_name = models.TextField()

    def __str__(self) -> str:
        return f"order name {self.pk}"


class OrderNameWord(models.Model):
    """One word of a name. A trigger adds the words of each name (`patients.search_keys.name_key`).

    Words are compared byte by byte, so words with the same beginning are neighbors in the index:
    the words of five thousand names are read from thirty pages. The index includes every column
    that a search needs.
    """

    pk = models.CompositePrimaryKey("word", "names", "person_role", "patient_name")
    word = models.TextField(db_collation="C")
    names = models.ForeignKey(
        OrderName,
        on_delete=models.DO_NOTHING,
        db_constraint=False,
        db_index=False,
        related_name="words",
    )
    person_role = models.SmallIntegerField(
        choices=[(PATIENT, "the patient's"), (RECIPIENT, "the recipient's"), (BOTH, "both's")]
    )
    patient_name = models.TextField()

    def __str__(self) -> str:
        return f"word of order name {self.names_id}"

    @staticmethod
    def matching(required: RequiredNames) -> QuerySet[OrderNameWord]:
        """Return the words of names that have all required words, in any order.

        A name may be found through several of its words. Without required words, no name matches.
        """
        if not all(required.values()):
            return OrderNameWord.objects.none()
        longest = {column: most_selective(words) for column, words in required.items()}
        first_column = max(
            longest, key=lambda column: (len(longest[column]) == 1, len(longest[column][0]))
        )
        first = longest[first_column]
        matching_words = OrderNameWord.objects.filter(
            COLUMN_CONDITIONS[first_column], word_index_condition(first)
        )
        for column, words in required.items():
            for beginnings in words:
                if (column, beginnings) != (first_column, first):
                    matching_words = matching_words.filter(_also_matches(column, beginnings))
        return matching_words


def _also_matches(column: str, beginnings: Sequence[str]) -> Q:
    """Return the condition that a further typed word matches.

    Each row includes the whole name of the patient, so words of the patient are checked in the row
    itself. Words of the recipient need a subquery, which finds all recipients with such a word.
    """
    patient = name_contains_word("patient_name", *beginnings)
    if column == "patient_name":
        return patient
    matching_words = OrderNameWord.objects.filter(word_index_condition(beginnings))
    if column == "recipient_name":
        return Q(names__in=matching_words.filter(COLUMN_CONDITIONS[column]).values("names"))
    return patient | Q(names__in=matching_words.filter(person_role=RECIPIENT).values("names"))


def name_condition(required: RequiredNames, max_names: int = MAX_NAMES) -> Q:
    """Return the condition that an order has matching names. Runs one query.

    Names are a selective key: up to `max_names` of them are found first. PostgreSQL then reads the
    orders of these names, or checks the name inside the index of the sort. For more names, it
    checks the text of the names of each order.
    """
    conditions = (
        any_of(name_contains_word(name, *beginnings) for name in SEARCHED_NAMES[column])
        for column, words in required.items()
        for beginnings in words
    )
    names = OrderNameWord.matching(required).values("names")
    return key_condition("names", names, max_names, otherwise=reduce(and_, conditions, Q()))


def name_range(required: RequiredNames) -> Q:
    """Return the condition that the patient's name is between the first and the last matching one.

    All orders with matching names fulfill it. With it, a list sorted by name is read from the first
    of them, not from the start of the list. Runs one query.
    """
    ends = OrderNameWord.matching(required).aggregate(
        first=Min("patient_name", default=""), last=Max("patient_name", default="")
    )
    return Q(patient_name__range=(ends["first"], ends["last"]))
