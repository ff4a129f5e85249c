"""The names that orders carry, each once, and their words: orders are found through them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from django.db import models
from django.db.models import Q, QuerySet

from backoffice.pages.paging.keys import EVERYBODY, Edge, Sought, in_order, past
from patients.models import most_selective, name_contains_word, word_index_condition
from patients.names import required_prefixes

PATIENT, RECIPIENT, BOTH = 1, 2, 3
WHOSE: Final = {
    "patient_name": Q(whose__in=[PATIENT, BOTH]),
    "recipient_name": Q(whose__in=[RECIPIENT, BOTH]),
    "names": Q(),
}
"""Where a word that was typed is looked for."""


class OrderName(models.Model):
    """Names of the patient and the recipient, folded. Triggers add what an order brings, and tell
    the order which one it has.

    Of names there are six times fewer than of orders, and their number stands in each index that a
    list of orders is walked along: who is called so is found among the names, and whether an order
    is one of theirs is told inside that index. A name that no order carries any more finds none.
    """

    id = models.BigIntegerField(primary_key=True, help_text="Hash of both names")
    patient_name = models.TextField()
    recipient_name = models.TextField()

    def __str__(self) -> str:
        return f"order name {self.pk}"


class OrderNameWord(models.Model):
    """A word of names: a trigger adds those of each name (`patients.names.name_key`).

    Words are kept letter by letter, so what begins alike stands together: those of five thousand
    names are read from thirty pages of one index, which has all that is asked of them.
    """

    pk = models.CompositePrimaryKey("word", "names", "whose", "patient_name")
    word = models.TextField(db_collation="C")
    names = models.ForeignKey(
        OrderName,
        on_delete=models.DO_NOTHING,
        db_constraint=False,
        db_index=False,
        related_name="words",
    )
    whose = models.SmallIntegerField(
        choices=[(PATIENT, "the patient's"), (RECIPIENT, "the recipient's"), (BOTH, "both's")]
    )
    patient_name = models.TextField()

    def __str__(self) -> str:
        return f"word of order name {self.names_id}"

    @staticmethod
    def called(typed: Mapping[str, str]) -> QuerySet[OrderNameWord]:
        """Words of names in which each word that was typed, in any order, begins one of this
        column: of the patient's name, the recipient's, or the `names` of both. A name may have
        more than one of them; of what has no words there are none.
        """
        wanted = {column: required_prefixes(text) for column, text in typed.items()}
        if not all(wanted.values()):
            return OrderNameWord.objects.none()
        longest = {column: most_selective(each) for column, each in wanted.items()}
        column = max(longest, key=lambda one: (len(longest[one]) == 1, len(longest[one][0])))
        first = longest[column]
        found = OrderNameWord.objects.filter(WHOSE[column], word_index_condition(first))
        for one, each in wanted.items():
            for beginnings in each:
                if (one, beginnings) != (column, first):
                    found = found.filter(_has_too(one, beginnings))
        return found


def _has_too(column: str, beginnings: Sequence[str]) -> Q:
    """Whether a further word fits, told by the row: each has the whole name of its patient. Only
    for words of the recipient those that begin so must all be found."""
    patient = name_contains_word("patient_name", *beginnings)
    if column == "patient_name":
        return patient
    own = OrderNameWord.objects.filter(word_index_condition(beginnings))
    if column == "recipient_name":
        return Q(names__in=own.filter(WHOSE[column]).values("names"))
    return patient | Q(names__in=own.filter(whose=RECIPIENT).values("names"))


def first_of_names(
    called: QuerySet[OrderNameWord],
    rows: QuerySet[Any],
    columns: Sequence[str],
    edge: Edge,
    descending: bool,
    most: int,
) -> Sought:
    """The first orders by the name of their patient: those who are called so are sorted, fewer than
    orders, and their orders taken until there are enough. Names that begin alike may stand at the
    other end of all orders.

    PostgreSQL does not think of sorting the names first by itself.
    """
    if edge is not None:
        called = called.filter(**{f"patient_name__{'lte' if descending else 'gte'}": edge[0]})
    names, values = _by_name(called.distinct(), descending, EVERYBODY)
    asked, given = _of_one(rows)
    sort = ("name", "key")
    return (
        f"SELECT key, name, key FROM ({names}) AS one (number, name) JOIN {asked}"  # noqa: S608
        f"{past(sort, edge, descending)} ORDER BY {in_order(sort, descending)} LIMIT {most}"
    ), (*values, *given, *(edge or ()))


FIRST_NAMES: Final = 400
"""Enough for a page where one of eight has an order that fits."""


def at_the_first_names(
    called: QuerySet[OrderNameWord],
    rows: QuerySet[Any],
    columns: Sequence[str],
    edge: Edge,
    descending: bool,
    most: int,
) -> Sought:
    """The same at the start of a list, of no more than `FIRST_NAMES`: to find these takes half the
    time of sorting thousands. With fewer than `most` orders there may be others."""
    assert edge is None
    names, values = _by_name(called, descending, FIRST_NAMES)
    asked, given = _of_one(rows)
    # Others of the last name may have been cut off.
    last = "min" if descending else "max"
    return (
        f"WITH one (number, name) AS MATERIALIZED ({names})"  # noqa: S608
        f" SELECT DISTINCT key, name, key FROM one JOIN {asked}"
        f" WHERE name <> (SELECT {last}(name) FROM one)"
        f" ORDER BY {in_order(('name', 'key'), descending)} LIMIT {most}"
    ), (*values, *given)


def _by_name(called: QuerySet[OrderNameWord], descending: bool, most: int) -> Sought:
    """Numbers of names, each with that of its patient, by which they are sorted."""
    sorted_by = called.order_by("-patient_name" if descending else "patient_name")
    return sorted_by.values("names", "patient_name")[:most].query.sql_with_params()


def _of_one(rows: QuerySet[Any]) -> Sought:
    """Orders to join with the number of `one` name."""
    asked, given = rows.order_by().values("pk", "names_id").query.sql_with_params()
    return f"({asked}) AS theirs (key, number) USING (number)", given
