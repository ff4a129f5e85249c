"""Filter combinations of the order list, built from its form.

A filter that is added to the form is measured without a change here. If it has no choices, the
measurement stops until `pages_cases.text_values` has some.
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
from backoffice.pages.lists.forms import SIZES, SORTING, FilterForm
from orders.order_list.order_list import ORDER_LIST

MAX_VALUES: Final = 3
"""The most values of one filter that are combined with other filters.

They are spread over its choices. Each value is also measured alone.
"""
DIRECTIONS: Final = ("asc", "desc")

Level = tuple[str, str]
"""A parameter and its value."""
Parameters = dict[str, str]


@dataclass(frozen=True)
class Combination:
    name: str
    parameters: Parameters


def form_of(user: User) -> FilterForm:
    return ORDER_LIST.filters(QueryDict(), user).form


def values(form: FilterForm, text_values: Mapping[str, list[str]]) -> dict[str, list[str]]:
    """Return the values of each filter parameter: its choices, or its entry in `text_values`."""
    values_by_name: dict[str, list[str]] = {}
    for name in (form.TAB_FIELD, *form.filter_names()):
        field = form.fields[name]
        if isinstance(field, forms.ChoiceField):
            choices: Iterable[Any] = field.choices  # type: ignore[assignment]
            values_by_name[name] = [str(value) for value, _ in choices if value != ""]
        elif name in text_values:
            values_by_name[name] = text_values[name]
        assert values_by_name.get(name), f"no values for the filter {name}"
    return values_by_name


def singles(user: User, text_values: Mapping[str, list[str]]) -> Iterator[Combination]:
    """Yield every value of every filter and tab, every preset and every page size."""
    form = form_of(user)
    for name, options in values(form, text_values).items():
        for value in options:
            yield Combination(f"{name} {value}", {name: value})
    for preset in ORDER_LIST.presets_for(user):
        query = {name: value for name, (value, *_) in preset.query.items()}
        yield Combination(f"preset {preset.key}", query)
    for size in SIZES:
        yield Combination(f"{size} rows", {"size": str(size)})


def pairs(user: User, text_values: Mapping[str, list[str]]) -> Iterator[Combination]:
    """Yield every pair of filters with every pair of their `MAX_VALUES` values.

    Every sort order is combined with every value at least once, spread over the pairs.
    """
    form = form_of(user)
    levels = {name: _spread(options) for name, options in values(form, text_values).items()}
    sorts = list(product(form.SORTS, DIRECTIONS))
    counts: Counter[tuple[Level, tuple[str, str]]] = Counter()
    for first_name, second_name in combinations(levels, 2):
        for first_value, second_value in product(levels[first_name], levels[second_name]):
            pair = ((first_name, first_value), (second_name, second_value))
            sort = min(sorts, key=lambda candidate: sum(counts[level, candidate] for level in pair))
            counts.update((level, sort) for level in pair)
            key, direction = sort
            label = " + ".join(f"{name} {value}" for name, value in pair)
            yield Combination(
                f"{label}, {key} {direction}",
                {**dict(pair), **dict(zip(SORTING, (key, direction), strict=True))},
            )


def _spread(options: list[str]) -> list[str]:
    """Return `MAX_VALUES` options, spread over the list."""
    if len(options) <= MAX_VALUES:
        return options
    return [options[n * (len(options) - 1) // (MAX_VALUES - 1)] for n in range(MAX_VALUES)]
