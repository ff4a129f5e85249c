"""The filter set of a list, by django-filter: each filter names its field and its condition.

The list page and the JSON API share the classes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from copy import deepcopy
from functools import cache, cached_property
from typing import Any

import django_filters
from django import forms
from django.db.models import Q, QuerySet
from django.http import QueryDict
from django.utils.translation import gettext_lazy

from backoffice.pages.lists.fields import (
    DaysField,
    DeferredChoiceField,
    OpenVocabularyField,
    PersonField,
    TimestampField,
    UuidField,
)
from backoffice.pages.lists.forms import FilterForm


class CheckboxesField(forms.MultipleChoiceField):
    widget = forms.CheckboxSelectMultiple


class VocabularyFilter(django_filters.Filter):
    """Several values of an open enumeration; it accepts unknown ones."""

    field_class = OpenVocabularyField

    def __init__(self, vocabulary: str, field_name: str, **kwargs: Any) -> None:
        super().__init__(field_name, "in", name=vocabulary, **kwargs)


class ChoicesFilter(django_filters.Filter):
    """Several values of a fixed set."""

    field_class = CheckboxesField

    def __init__(self, field_name: str, **kwargs: Any) -> None:
        super().__init__(field_name, "in", **kwargs)


class TabFilter(django_filters.ChoiceFilter):
    """The tab of a list. `tabs`: their labels by key.

    The key is the value of `field_name`; without one, `filter_tab` of the filter set has the
    condition.
    """

    def __init__(self, tabs: Mapping[str, str], field_name: str | None = None) -> None:
        super().__init__(
            field_name,
            label=gettext_lazy("Tab"),
            choices=[(key, label) for key, label in tabs.items() if key],
            widget=forms.HiddenInput,
            method=None if field_name else "filter_tab",
        )


class DeferredChoiceFilter(django_filters.Filter):
    """Several values of a table, which `read` returns as choices."""

    field_class: type[forms.Field] = DeferredChoiceField

    def __init__(self, field_name: str, **kwargs: Any) -> None:
        super().__init__(field_name, "in", **kwargs)


class PersonFilter(DeferredChoiceFilter):
    """Members of staff by id. `me` is the word for the user, `nobody` that for rows without one."""

    field_class = PersonField
    parent: ListFilterSet

    def __init__(self, field_name: str, *, nobody: str = "", me: str = "", **kwargs: Any) -> None:
        self.nobody, self.me = nobody, me
        super().__init__(field_name, words=[word for word in (me, nobody) if word], **kwargs)

    def filter(self, qs: QuerySet[Any], value: list[str]) -> QuerySet[Any]:
        if not value:
            return qs
        keys = [int(key) for key in value if key.isdigit()]
        if self.me and self.me in value:
            keys.append(self.parent.user.pk)
        condition = Q(**{f"{self.field_name}__in": keys})
        if self.nobody and self.nobody in value:
            condition |= Q(**{str(self.field_name): None})
        return qs.filter(condition)


class UUIDFilter(django_filters.UUIDFilter):
    field_class = UuidField


class TimestampFilter(django_filters.Filter):
    """A day, or a day and a time, from which (`gte`) or until which (`lte`) rows match."""

    field_class = TimestampField


class DaysFilter(django_filters.Filter):
    """A period relative to today, such as "this week"."""

    field_class = DaysField

    def __init__(self, field_name: str, *, short: str = "", **kwargs: Any) -> None:
        super().__init__(field_name, short=short, **kwargs)

    def filter(self, qs: QuerySet[Any], value: Any) -> QuerySet[Any]:
        if not value:
            return qs
        first, after = value
        return qs.filter(**{f"{self.field_name}__gte": first, f"{self.field_name}__lt": after})


class ListFilterSet(django_filters.FilterSet):
    """The filters that one user sees; the base class of all filter sets of lists.

    `Meta.form` is a subclass of `FilterForm`, which has the sorts, and the groups in which the page
    shows the filters.
    """

    data: QueryDict
    """The parameters of the URL, with personal text encrypted."""
    queryset: QuerySet[Any]
    """The rows without filters."""

    class Meta:
        form = FilterForm

    def __init__(
        self,
        data: Any = None,
        queryset: QuerySet[Any] | None = None,
        *,
        user: Any = None,
        request: Any = None,
        prefix: str | None = None,
    ) -> None:
        super().__init__(data, queryset, request=request, prefix=prefix)
        self.user = user if request is None else request.user

    @classmethod
    def form_class(cls) -> type[FilterForm]:
        """Return the class that the form is made of, without the fields of the filters."""
        return cls.Meta.form

    @cached_property
    def form(self) -> FilterForm:
        return _form_class(type(self))(self.data, user=self.user)

    def filter_queryset(self, queryset: QuerySet[Any]) -> QuerySet[Any]:
        """Return the rows that match all filters; none if the form is invalid."""
        return self._apply(self.filters, queryset)

    def rows_of_all_tabs(self) -> QuerySet[Any]:
        """Return the rows that match the filters other than the tab, to count those of each tab."""
        names = [name for name in self.filters if name != self.form.TAB_FIELD]
        return self._apply(names, self.queryset)

    def _apply(self, names: Iterable[str], queryset: QuerySet[Any]) -> QuerySet[Any]:
        if not self.form.is_valid():
            return queryset.none()
        for name in names:
            queryset = self.filters[name].filter(queryset, self.form.cleaned_data[name])
        return queryset


@cache
def _form_class(filter_set: type[ListFilterSet]) -> type[FilterForm]:
    """Return the class of the forms. django-filter would build it anew for each request."""
    fields = {name: each.field for name, each in deepcopy(filter_set.base_filters).items()}
    return type(f"{filter_set.__name__}Form", (filter_set.form_class(),), fields)
