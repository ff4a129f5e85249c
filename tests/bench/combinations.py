"""Filter combinations of the list of orders, made from its form: a filter that is added to the form
is measured without a word here, or stops the measurement until it has values.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations, product
from typing import Any, Final

from django import forms
from django.http import QueryDict

from backoffice.accounts.models import User
from backoffice.core import vocabulary
from backoffice.pages.lists.forms import SIZES, SORTING
from orders.forms import OrderFilters
from orders.order_list.definition import ORDER_LIST

MOST: Final = 3
"""Values of a filter that are paired with those of the others, from all over its list; each value
is measured by itself."""
DIRECTIONS: Final = ("asc", "desc")

Level = tuple[str, str]
"""A parameter and its value."""
Given = dict[str, str]


@dataclass(frozen=True)
class Combination:
    name: str
    given: Given


def form_of(user: User) -> OrderFilters:
    return ORDER_LIST.form(QueryDict(), user)


def values(form: OrderFilters, written: Mapping[str, list[str]]) -> dict[str, list[str]]:
    """Of each parameter that narrows the list: its choices, or what was written for it."""
    found = {"bucket": list(vocabulary.BUCKETS)}
    for name in (*form.TAB_FIELDS, *form.filter_names()):
        field = form.fields[name]
        if isinstance(field, forms.ChoiceField):
            choices: Iterable[Any] = field.choices  # type: ignore[assignment]
            found[name] = [str(value) for value, _ in choices if value != ""]
        elif name in written:
            found[name] = written[name]
        assert found.get(name), f"no values for the filter {name}"
    return found


def singles(user: User, written: Mapping[str, list[str]]) -> Iterator[Combination]:
    """Every value of every filter and tab, every preset, every size of a page."""
    form = form_of(user)
    for name, some in values(form, written).items():
        for value in some:
            yield Combination(f"{name} {value}", {name: value})
    for preset in ORDER_LIST.presets_for(user):
        query = {name: value for name, (value, *_) in preset.query.items()}
        yield Combination(f"preset {preset.key}", query)
    for size in SIZES:
        yield Combination(f"{size} rows", {"size": str(size)})


def pairs(user: User, written: Mapping[str, list[str]]) -> Iterator[Combination]:
    """Every pair of filters with every pair of their `MOST` values; and with them, spread over the
    pairs, every sort with every value."""
    form = form_of(user)
    levels = {name: _spread(some) for name, some in values(form, written).items()}
    sorts = list(product(form.SORTS, DIRECTIONS))
    met: Counter[tuple[Level, tuple[str, str]]] = Counter()
    for one, other in combinations(levels, 2):
        for some, more in product(levels[one], levels[other]):
            pair = ((one, some), (other, more))
            sort = min(sorts, key=lambda each: sum(met[level, each] for level in pair))
            met.update((level, sort) for level in pair)
            key, direction = sort
            words = " + ".join(f"{name} {value}" for name, value in pair)
            yield Combination(
                f"{words}, {key} {direction}",
                {**dict(pair), **dict(zip(SORTING, (key, direction), strict=True))},
            )


def _spread(some: list[str]) -> list[str]:
    """A few of these, from all over the list."""
    if len(some) <= MOST:
        return some
    return [some[n * (len(some) - 1) // (MOST - 1)] for n in range(MOST)]
