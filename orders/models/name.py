"""The names on orders, each stored once, with their words: the search for orders by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from django.db import models
from django.db.models import Q, QuerySet

from backoffice.pages.paging.keys import (
    UNREACHED_LIMIT,
    CursorValues,
    KeysetQuery,
    cursor_condition_sql,
    order_by_sql,
)
from patients.models import most_selective, name_contains_word, word_index_condition
from patients.search_keys import required_prefixes

if TYPE_CHECKING:
    from orders.models.order import Order

PATIENT, RECIPIENT, BOTH = 1, 2, 3
COLUMN_CONDITIONS: Final = {
    "patient_name": Q(person_role__in=[PATIENT, BOTH]),
    "recipient_name": Q(person_role__in=[RECIPIENT, BOTH]),
    "names": Q(),
}
"""Condition on the words for each column that can be searched."""


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
    def matching(typed: Mapping[str, str]) -> QuerySet[OrderNameWord]:
        """Return the words of names that match what was typed.

        `typed` maps a column (`patient_name`, `recipient_name`, or `names` for both) to a text.
        Each typed word, in any order, must be the beginning of a word of that column. A name may be
        found through several of its words. A text without words finds nothing.
        """
        prefixes = {column: required_prefixes(text) for column, text in typed.items()}
        if not all(prefixes.values()):
            return OrderNameWord.objects.none()
        longest = {column: most_selective(words) for column, words in prefixes.items()}
        first_column = max(
            longest, key=lambda column: (len(longest[column]) == 1, len(longest[column][0]))
        )
        first = longest[first_column]
        matching_words = OrderNameWord.objects.filter(
            COLUMN_CONDITIONS[first_column], word_index_condition(first)
        )
        for column, words in prefixes.items():
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


def first_orders_by_name(
    name_words: QuerySet[OrderNameWord],
    rows: QuerySet[Order],
    columns: Sequence[str],
    edge: CursorValues,
    descending: bool,
    most: int,
) -> KeysetQuery:
    """Return SQL for the first orders, sorted by the name of their patient.

    The matching names are sorted, because they are fewer than the orders. Then their orders are
    joined until there are `most` orders. Reading all orders by name instead may pass over most of
    the list before the first match. PostgreSQL does not choose to sort the names first by itself.
    """
    if edge is not None:
        name_words = name_words.filter(
            **{f"patient_name__{'lte' if descending else 'gte'}": edge[0]}
        )
    names, values = _names_in_order(name_words.distinct(), descending, UNREACHED_LIMIT)
    orders_sql, parameters = _orders_to_join(rows)
    sort = ("name", "key")
    return (
        f"SELECT key, name, key FROM ({names}) AS matching (number, name) JOIN {orders_sql}"  # noqa: S608
        f"{cursor_condition_sql(sort, edge, descending)}"
        f" ORDER BY {order_by_sql(sort, descending)} LIMIT {most}"
    ), (*values, *parameters, *(edge or ()))


FIRST_NAMES: Final = 400
"""Number of names. It fills a page if one name of eight has an order that matches."""


def first_orders_of_first_names(
    name_words: QuerySet[OrderNameWord],
    rows: QuerySet[Order],
    columns: Sequence[str],
    edge: CursorValues,
    descending: bool,
    most: int,
    first_names: int = FIRST_NAMES,
) -> KeysetQuery:
    """Return SQL for the start of the same list, from at most `first_names` names.

    This takes half the time of sorting thousands of names. If the query returns fewer than `most`
    orders, there may be further orders that it does not find.
    """
    assert edge is None
    names, values = _names_in_order(name_words, descending, first_names)
    orders_sql, parameters = _orders_to_join(rows)
    # The limit on names may have cut off rows of the last name.
    last = "min" if descending else "max"
    return (
        f"WITH matching (number, name) AS MATERIALIZED ({names})"  # noqa: S608
        f" SELECT DISTINCT key, name, key FROM matching JOIN {orders_sql}"
        f" WHERE name <> (SELECT {last}(name) FROM matching)"
        f" ORDER BY {order_by_sql(('name', 'key'), descending)} LIMIT {most}"
    ), (*values, *parameters)


def _names_in_order(
    name_words: QuerySet[OrderNameWord], descending: bool, most: int
) -> KeysetQuery:
    """Return SQL for the keys and patient names of names, sorted by patient name."""
    sorted_by = name_words.order_by("-patient_name" if descending else "patient_name")
    return sorted_by.values("names", "patient_name")[:most].query.sql_with_params()


def _orders_to_join(rows: QuerySet[Order]) -> KeysetQuery:
    """Return SQL for the part of a join that adds the orders of each name in `matching`."""
    orders_sql, parameters = rows.order_by().values("pk", "names_id").query.sql_with_params()
    return f"({orders_sql}) AS named (key, number) USING (number)", parameters
