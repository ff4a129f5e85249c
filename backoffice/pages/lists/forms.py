"""The form of a filter set: the parameters of a list's URL, and the filters on its page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Final

from django import forms
from django.forms import BoundField
from django.forms.renderers import Jinja2
from django.http import QueryDict
from django.utils import timezone
from django.utils.translation import gettext, gettext_noop

from backoffice.accounts.access import may
from backoffice.core.encryption.url_tokens import PersonalParameters, decrypted_query
from backoffice.pages.form_fields import choices_of
from backoffice.pages.lists.fields import check_day_order
from backoffice.pages.paging.pages import Sort

SIZE: Final = 50
SIZES: Final = (25, 50, 100)
PLACE: Final = frozenset({"after", "before", "at"})
"""Parameters for the position of a page in the list."""
SORTING: Final = ("order_key", "order_direction")
_HIDDEN_VALUES: Final = {
    "patients.view": gettext_noop("Your role does not show patient identities."),
    "results.view": gettext_noop("Your role does not show results."),
}
"""Messages about filters by values that a role hides, by the permission to see them."""


@dataclass(frozen=True, slots=True)
class FilterGroup:
    """A button of the filter row: one field with checkboxes, or a few ordinary fields.

    With `always_shown` it is always in the row. Others are behind `+ Filter` until they are active.
    """

    label: str
    fields: tuple[str, ...]
    always_shown: bool = False
    shows_zone: bool = False
    """Whether the panel names the time zone, because its fields are days."""


@dataclass(frozen=True, slots=True)
class FilterMenu:
    """A filter with its values, as the page shows it."""

    label: str
    form: FilterForm
    names: list[str]
    always_shown: bool
    options: bool
    active: bool
    has_errors: bool
    summary: str
    removal: tuple[str, str] | None
    """Parameter and value to remove from the URL, if the filter has exactly one value."""
    zone: str

    @property
    def fields(self) -> list[BoundField]:
        return [self.form[name] for name in self.names]


class FilterForm(forms.Form):
    """Sort and page size of a list as parameters of its URL. A filter set adds its filters."""

    default_renderer = Jinja2()
    """Each list page renders about twenty fields: by Django's own engine that is a fifth of it."""

    order_key = forms.CharField(required=False)
    order_direction = forms.ChoiceField(required=False, choices=[("asc", "asc"), ("desc", "desc")])
    size = forms.IntegerField(required=False, min_value=1, max_value=100)

    SORTS: ClassVar[Mapping[str, tuple[str, ...]]] = {}
    """Sort keys, each with its columns. The first one is the default."""
    DESCENDING_FIRST: ClassVar[frozenset[str]] = frozenset()
    """Sort keys that sort in descending order on the first click."""
    PRIVATE_SORTS: ClassVar[frozenset[str]] = frozenset()
    """Sort keys whose values are names of people."""
    NEEDS: ClassVar[Mapping[str, str]] = {}
    """Permissions without which a user may not use a filter. Its result would reveal values."""
    DAY_RANGES: ClassVar[Sequence[tuple[str, str]]] = (
        ("since", "until"),
        ("start_date", "end_date"),
    )
    """Pairs of fields for the first and the last day, of those that the form has."""
    WORDS: ClassVar = PersonalParameters("")
    """Fields that take personal text."""
    FILTERS: ClassVar[Sequence[FilterGroup]] = ()
    TAB_FIELD: ClassVar[str] = ""
    """The field that the page shows as tabs, not as a filter. Empty: the list has no tabs."""
    DEFAULT_TAB: ClassVar[str] = ""
    """The tab that opens if none is chosen."""
    MAIN_TAB: ClassVar[str] = ""
    """The tab that says what the list is for while it is empty. Others say that nothing matches."""

    def __init__(self, data: Any = None, *, user: Any) -> None:
        self.by_name = may(user, "patients.view")
        self.words = replace(self.WORDS, by_name=self.by_name)
        super().__init__(decrypted_query(data, self.words) if isinstance(data, QueryDict) else data)
        self.url_data = data
        """The parameters as they are in the URL, with personal text encrypted."""
        self.hidden = {
            name: _HIDDEN_VALUES[permission]
            for name, permission in self.NEEDS.items()
            if not may(user, permission)
        }
        """Fields that this user may not use, each with the message that says so."""

    def clean_order_key(self) -> str:
        key: str = self.cleaned_data["order_key"]
        if key and key not in self.SORTS:
            raise forms.ValidationError(
                gettext("This list cannot be sorted by that column."), code="invalid_choice"
            )
        return key

    def clean(self) -> None:
        """Reject filters and sorts by values that the role hides, and days in the wrong order."""
        for name, message in self.hidden.items():
            if self.cleaned_data.get(name):
                self.add_error(name, gettext(message))
        if self.cleaned_data.get("order_key") in self.PRIVATE_SORTS and not self.by_name:
            self.add_error("order_key", gettext(_HIDDEN_VALUES["patients.view"]))
        for first, last in self.DAY_RANGES:
            check_day_order(self, first, last)
        if self.TAB_FIELD and self.TAB_FIELD not in self.errors:
            self.cleaned_data[self.TAB_FIELD] = self.tab

    def may_open(self, query: Mapping[str, Sequence[str]]) -> bool:
        """Return whether this user may open a saved view with this query.

        A view must not reveal hidden values. Personal text is in the view itself.
        """
        hidden = {*self.hidden, *(() if self.by_name else (*self.words.names, *self.PRIVATE_SORTS))}
        return hidden.isdisjoint(query) and hidden.isdisjoint(query.get("order_key", ()))

    @property
    def sort(self) -> tuple[str, str]:
        """The active sort: (order_key, order_direction)."""
        key = self.cleaned_data.get("order_key") or next(iter(self.SORTS))
        default = "desc" if key in self.DESCENDING_FIRST else "asc"
        return key, self.cleaned_data.get("order_direction") or default

    def can_sort_by(self, key: str) -> bool:
        """Return whether the list has this sort key and this user may use it."""
        return key in self.SORTS and (self.by_name or key not in self.PRIVATE_SORTS)

    def keyset(self) -> Sort:
        key, direction = self.sort
        return Sort(
            self.SORTS[key], descending=direction == "desc", private=key in self.PRIVATE_SORTS
        )

    def filter_names(self) -> list[str]:
        """Return the names of the filter fields, in the order of the groups, without the tabs."""
        frame = {*SORTING, "size", self.TAB_FIELD}
        grouped = [name for group in self.FILTERS for name in group.fields]
        return [name for name in dict.fromkeys([*grouped, *self.fields]) if name not in frame]

    def active_filter_names(self) -> set[str]:
        """Return the names of the fields that filter. Tabs do not count."""
        return {name for name in self.filter_names() if self.cleaned_data.get(name)}

    def is_filtered(self) -> bool:
        return bool(self.active_filter_names())

    @property
    def tab(self) -> str:
        """The open tab."""
        return self.cleaned_data.get(self.TAB_FIELD) or self.DEFAULT_TAB

    def has_tab(self) -> bool:
        """Return whether a tab other than the main one is open."""
        return self.tab != self.MAIN_TAB

    def is_searched(self) -> bool:
        """Return whether a filter with personal text is active."""
        return any(self.cleaned_data.get(name) for name in self.words.names)

    @cached_property
    def menus(self) -> list[FilterMenu]:
        """The filters that this user may use, with their values."""
        return [menu for one in self.FILTERS if (menu := self._menu(one)) is not None]

    @property
    def more(self) -> bool:
        """Whether some filters are behind `+ Filter`."""
        return not all(menu.always_shown for menu in self.menus)

    def active_filters(self, parameters: QueryDict) -> list[dict[str, Any]]:
        """Return each active filter value in words, with its parameter.

        `many` is true if the same filter has other values too.
        """
        if parameters.keys().isdisjoint(self.filter_names()):
            return []
        typed_in = decrypted_query(parameters, self.words)
        several = {
            name for one in self.FILTERS if len(self._filter_values(one)) > 1 for name in one.fields
        }  # fmt: skip
        return [
            {
                "name": name,
                "value": value,
                "label": f"{self.fields[name].label}: {_words(self.fields[name], typed)}",
                "many": name in several,
            }
            for name in self.filter_names()
            for value, typed in zip(parameters.getlist(name), typed_in.getlist(name), strict=True)
            if value
        ]

    def _menu(self, one: FilterGroup) -> FilterMenu | None:
        names = [name for name in one.fields if name not in self.hidden]
        if not names:
            return None
        zone = timezone.get_current_timezone_name() if one.shows_zone else ""
        values, has_errors = self._filter_values(one), not self.errors.keys().isdisjoint(names)
        return FilterMenu(
            label=gettext(one.label),
            form=self,
            names=names,
            always_shown=one.always_shown or bool(values) or has_errors,
            options=all(isinstance(self.fields[n], forms.MultipleChoiceField) for n in names),
            active=bool(values),
            has_errors=has_errors,
            summary=_summary(values),
            removal=self._url_value(*values[0]) if len(values) == 1 else None,
            zone=zone,
        )

    def _url_value(self, bound: BoundField, value: str) -> tuple[str, str]:
        """Return the parameter and value of a filter with one value, as they are in the URL."""
        sealed = bound.name in self.words.names and self.url_data is not None
        return bound.name, self.url_data.get(bound.name) if sealed else value

    def _filter_values(self, one: FilterGroup) -> list[tuple[BoundField, str]]:
        """Return each value that the URL has for this filter, with its field."""
        if self.data.keys().isdisjoint(one.fields):
            return []
        fields = [self[name] for name in one.fields if name not in self.hidden]
        return [(bound, value) for bound in fields for value in _values(bound)]


def filters_in(data: QueryDict, form: FilterForm) -> dict[str, list[str]]:
    """Return the parameters that a saved view stores: filters, tab and sort, not the position."""
    return {
        name: values
        for name, texts in decrypted_query(data, form.words).lists()
        if name in form.fields and name != "size" and (values := [text for text in texts if text])
    }


def _values(bound: BoundField) -> list[str]:
    value = bound.value()
    many = value if isinstance(value, list | tuple) else [value]
    return [str(one) for one in many if one not in (None, "")]


def _summary(values: list[tuple[BoundField, str]]) -> str:
    """Return a short summary: the words of one value, or the number of several values."""
    if not values:
        return ""
    if len(values) > 1:
        return str(len(values))
    bound, value = values[0]
    words = _words(bound.field, value)
    short = getattr(bound.field, "short", "")
    return (f"{short}, {words}" if short else words)[:40]


def _words(field: forms.Field, value: str) -> str:
    return str(dict(choices_of(field)).get(value, value))
