"""The names that orders carry, each once: orders are found through them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from django.contrib.postgres.indexes import GinIndex
from django.contrib.postgres.search import SearchQuery, SearchVector, SearchVectorExact
from django.db import connection, models
from django.db.models import QuerySet

from backoffice.paging import Edge
from patients.names import prefix_query

EVERYBODY: Final = 2**31 - 1
"""A limit that no names come to: behind it they are found before anything else is. Without it
PostgreSQL may take up one order after the other and read the words of its names."""


def _words_of(column: str) -> SearchVector:
    """As the index has them, letter by letter."""
    columns = ("patient_name", "recipient_name") if column == "names" else (column,)
    return SearchVector(*columns, config="simple")


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

    class Meta:
        indexes = [
            GinIndex(
                *(_words_of(column) for column in ("patient_name", "recipient_name", "names")),
                name="order_name_beginnings",
            )
        ]

    def __str__(self) -> str:
        return f"order name {self.pk}"

    @staticmethod
    def called(typed: Mapping[str, str]) -> QuerySet[OrderName]:
        """Names with words that begin as was typed, in any order, in each of these columns: in the
        name of the patient, of the recipient, or in the `names` of both."""
        return OrderName.objects.filter(
            *(
                SearchVectorExact(
                    _words_of(column),
                    SearchQuery(prefix_query(text), config="simple", search_type="raw"),
                )
                for column, text in typed.items()
            )
        )


def first_of_names(
    names: QuerySet[OrderName],
    rows: QuerySet[Any],
    columns: Sequence[str],
    edge: Edge,
    descending: bool,
    most: int,
) -> list[Any]:
    """Keys of the first orders by the name of their patient: those who are called so are sorted, of
    whom there are few, and their orders taken until there are enough. Names that begin alike may
    stand at the other end of all orders.

    PostgreSQL does not think of sorting the names first by itself.
    """
    sense, direction = ("<", "DESC") if descending else (">", "ASC")
    if edge is not None:
        names = names.filter(**{f"patient_name__{'lte' if descending else 'gte'}": edge[0]})
    sorted_names = names.order_by("-patient_name" if descending else "patient_name")
    called, call = sorted_names.values("pk", "patient_name")[:EVERYBODY].query.sql_with_params()
    asked, given = rows.order_by().values("pk", "names_id").query.sql_with_params()
    where = f" WHERE (name, key) {sense} (%s, %s)" if edge is not None else ""
    with connection.cursor() as cursor:
        cursor.execute(
            f"SELECT key FROM ({called}) AS one (number, name) JOIN ({asked}) AS theirs"
            f" (key, number) USING (number){where} ORDER BY name {direction}, key {direction}"
            " LIMIT %s",
            [*call, *given, *(edge or ()), most],
        )
        return [key for (key,) in cursor.fetchall()]
