"""The names that orders carry, each once: orders are found through them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from django.contrib.postgres.indexes import GinIndex
from django.contrib.postgres.search import SearchQuery, SearchVector
from django.db import models
from django.db.models import Case, F, Func, Q, QuerySet, Value, When


class NamesOf(Func):
    """Names of the patient and of the recipient of an order, as `OrderName` has them."""

    arity = 2
    arg_joiner = " || ' ' || "
    # As long as an index holds, whatever the letters.
    template = "left(%(expressions)s, 600)"
    output_field = models.TextField()


NAMES: Final = NamesOf(F("patient_name"), F("recipient_name"))


class OrderName(models.Model):
    """Names of the patient and the recipient, folded. A trigger adds what an order brings.

    An index of words over orders reads an entry for each order of each person who may be meant,
    although a thousand are counted and fifty shown: 70,000 of a million for two beginnings. Of
    names there are six times fewer; the orders of each are found by `order_of_name`, and whoever
    has enough stops. A name that no order carries any more finds none.
    """

    name = models.TextField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["name"], name="order_name_once")]
        indexes = [GinIndex(SearchVector("name", config="simple"), name="order_name_beginnings")]

    def __str__(self) -> str:
        return f"order name {self.pk}"

    @staticmethod
    def beginning(query: str) -> QuerySet[Any, Any]:
        """Those that fit a text-search query."""
        # The expression of the index, letter by letter.
        rows = OrderName.objects.alias(words=SearchVector("name", config="simple"))
        found = rows.filter(words=SearchQuery(query, config="simple", search_type="raw"))
        return found.values("name")


def begins_words(column: str, words: Sequence[str]) -> Case:
    """Whether words of a column begin so: quickly told of orders that are walked along a sort.

    As a case, of whose answer the planner thinks nothing: how many orders fit it learns from
    `OrderName`.
    """
    fit = Q(*((f"{column}__regex", f"(^|[^[:alnum:]]){word}") for word in words))
    return Case(When(fit, then=Value(True)), default=Value(False))
