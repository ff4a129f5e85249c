"""The base class of all admin classes: our permissions, and lists of any length.

Lists use keyset pages, without counts and offsets. Our own templates render rows and forms;
Django's changelist, its filters, and its forms are used behind them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import date, datetime
from typing import Any, ClassVar, Final, TypeVar
from uuid import UUID

from django.contrib.admin import AdminSite, ModelAdmin
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.contrib.admin.utils import label_for_field, lookup_field, quote, unquote
from django.contrib.admin.views.main import ChangeList
from django.core.exceptions import BadRequest, ObjectDoesNotExist, ValidationError
from django.db.models import Model, QuerySet
from django.http import HttpRequest, HttpResponse
from django.urls import URLPattern, path, reverse
from django.utils.functional import cached_property
from django.utils.safestring import SafeString
from django.utils.translation import gettext

from backoffice.accounts.access import may
from backoffice.admin.codes import CodeNames, NameReaders
from backoffice.pages.formats import yes_no
from backoffice.pages.macros import render_macro
from backoffice.pages.paging.filtered_page import count_and_page
from backoffice.pages.paging.pages import Page, Sort, fetch_page, page_position

CellMethod = TypeVar("CellMethod", bound=Callable[..., object])
Row = TypeVar("Row", bound=Model)
CURSOR_PARAMETERS: Final = ("after", "before")
PAGE_SIZE: Final = 50
ColumnName = str | Callable[[Any], object]
"""A column of `list_display`: the name of a field or method, or a function of a row."""


class KeysetList(ChangeList):
    """A page of rows after a cursor, with one query for any number of rows."""

    page: Page[Model]

    def get_filters_params(self, params: dict[str, Any] | None = None) -> dict[str, Any]:
        parameters = super().get_filters_params(params)
        return {name: value for name, value in parameters.items() if name not in CURSOR_PARAMETERS}

    def get_query_string(
        self, new_params: dict[str, Any] | None = None, remove: Iterable[str] | None = None
    ) -> str:
        """Return the query string without the cursor: another filter makes another list."""
        return super().get_query_string(new_params, [*(remove or ()), *CURSOR_PARAMETERS])

    def get_results(self, request: HttpRequest) -> None:
        kind = self.model_admin
        assert isinstance(kind, BaseAdmin)
        place = page_position(request)
        if self.query:
            _, self.page = count_and_page(
                self.queryset, self.root_queryset, kind.sort, PAGE_SIZE, place
            )
        else:
            self.page = fetch_page(self.queryset, kind.sort, size=PAGE_SIZE, **place)
        self.result_list = self.page.rows
        self.result_count = len(self.page.rows)
        self.full_result_count = None
        self.show_admin_actions = bool(self.page.rows)
        self.show_full_result_count = self.can_show_all = self.multi_page = False

    @property
    def filters(self) -> list[tuple[str, Sequence[object]]]:
        return [
            (str(spec.title), [self._filter_choice(spec, dict(one)) for one in spec.choices(self)])
            for spec in self.filter_specs
        ]

    def _filter_choice(self, spec: Any, choice: dict[str, object]) -> dict[str, object]:
        """Return a choice of a filter of a column with codes, with the name of the code."""
        column = getattr(spec, "field_path", "")
        return {**choice, "display": self._code_names.named(column, str(choice["display"]))}

    @cached_property
    def _code_names(self) -> CodeNames:
        kind = self.model_admin
        assert isinstance(kind, BaseAdmin)
        return CodeNames(self.model, kind.code_names)

    @property
    def headers(self) -> list[str]:
        return [self._label(name) for name in self.list_display if name != "action_checkbox"]

    @property
    def rows(self) -> list[dict[str, object]]:
        """Return each row with its key, URL, and cells."""
        return [
            {
                "key": row.pk,
                "label": str(row),
                "url": self.url_for_result(row),
                "cells": [
                    (self._label(name), self._cell(name, row))
                    for name in self.list_display
                    if name != "action_checkbox"
                ],
            }
            for row in self.result_list
        ]

    def _cell(self, name: ColumnName, row: Model) -> SafeString | str:
        value = lookup_field(name, row, self.model_admin)[2]
        return display_value(self._code_names.named(name, value), short=True)

    def _label(self, name: ColumnName) -> str:
        return column_label(str(label_for_field(name, self.model, self.model_admin)))


class BaseAdmin(ModelAdmin):  # type: ignore[type-arg]  # generic only in the stubs
    """The base class of admin classes.

    `needs` are the permissions to view rows, `changes` is the permission to change them; "" means
    that nobody changes them here. Nothing is deleted here, because audit entries refer to rows.
    """

    group: ClassVar[str]
    words: ClassVar[str] = ""
    singular: str
    plural: str
    needs: ClassVar[tuple[str, ...]]
    changes: ClassVar[str] = ""
    sort: ClassVar[Sort] = Sort(("id",))
    search_hint: ClassVar[str] = ""
    """Description of what the search box accepts."""
    code_names: ClassVar[NameReaders] = {}

    def __init__(self, model: type[Model], admin_site: AdminSite) -> None:
        super().__init__(model, admin_site)
        self.singular = getattr(type(self), "singular", str(self.opts.verbose_name))
        self.plural = getattr(type(self), "plural", str(self.opts.verbose_name_plural))

    change_list_template = "administration/list.html"
    change_form_template = add_form_template = "administration/form.html"
    sortable_by = ()
    show_full_result_count = False
    actions_selection_counter = False
    view_on_site = False

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[ChangeList]:
        return KeysetList

    def get_urls(self) -> list[URLPattern]:
        name = f"{self.opts.app_label}_{self.opts.model_name}"
        view = self.admin_site.admin_view
        patterns = [path("", view(self.changelist_view), name=f"{name}_changelist")]
        if self.changes:
            patterns.append(path("add/", view(self.add_view), name=f"{name}_add"))
        patterns.append(path("<str:object_id>/", view(self.change_view), name=f"{name}_change"))
        return patterns

    def lookup_allowed(self, lookup: str, value: str, request: HttpRequest | None = None) -> bool:
        """Allow only the offered filters: the answer to others would reveal hidden values."""
        offered = [str(getattr(item, "parameter_name", item)) for item in self.list_filter]
        return any(lookup in (name, f"{name}__exact") for name in offered)

    def has_module_permission(self, request: HttpRequest) -> bool:
        return self.has_view_permission(request)

    def has_view_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return may(request.user, *self.needs)

    def has_change_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return bool(self.changes) and may(request.user, *self.needs, self.changes)

    def has_add_permission(self, request: HttpRequest) -> bool:
        return self.has_change_permission(request)

    def has_delete_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False

    def response_action(
        self, request: HttpRequest, queryset: QuerySet[Model], *args: Any, **options: Any
    ) -> HttpResponse | None:
        """Run an action on the ticked rows only, even if a form asks for all rows."""
        sent = request.POST.copy()
        sent.pop("select_across", None)
        if not all(map(self._is_key, sent.getlist(ACTION_CHECKBOX_NAME))):
            raise BadRequest(gettext("A selected row is not in this list. Reload the page."))
        request.POST = sent  # type: ignore[assignment]  # Django reads it there
        return super().response_action(request, queryset, *args, **options)

    def display_name(self, row: Any) -> str:
        """Return the heading of the page of a row."""
        return str(row)

    def render_change_form(
        self, request: HttpRequest, context: dict[str, Any], *args: Any, **options: Any
    ) -> HttpResponse:
        row = context.get("original")
        new = gettext("New %(kind)s") % {"kind": gettext(self.singular)}
        context["heading"] = self.display_name(row) if row is not None else new
        context["kind"] = self
        return super().render_change_form(request, context, *args, **options)

    # Changes are recorded in our audit trail, not in Django's log.

    def log_addition(self, *args: Any, **kwargs: Any) -> Any: ...

    def log_change(self, *args: Any, **kwargs: Any) -> Any: ...

    def row_or_none(self, request: HttpRequest, object_id: str) -> Any:
        """Return the row with this key; None if there is none or the key is invalid."""
        key = unquote(object_id)
        if not self._is_key(key):
            return None
        try:
            return self.get_object(request, key)
        except (ObjectDoesNotExist, OverflowError):
            return None

    def _is_key(self, text: str) -> bool:
        try:
            self.opts.pk.to_python(text)
        except ValidationError:
            return False
        return "\x00" not in text


def display(label: str) -> Callable[[CellMethod], CellMethod]:
    """Declare a method of a `BaseAdmin` as a column of its list."""

    def name(cell: CellMethod) -> CellMethod:
        cell.short_description = label  # type: ignore[attr-defined]
        return cell

    return name


def display_value(value: object, *, short: bool = False) -> SafeString | str:
    """Return a value as HTML in the same format as on other pages; `short` shortens ids."""
    if short and isinstance(value, UUID):
        return render_macro("macros/values.html", "short_id", value, copy=False)
    if isinstance(value, datetime):
        return render_macro("macros/times.html", "full_time", value)
    if isinstance(value, bool):
        return yes_no(value)
    if isinstance(value, date):
        return render_macro("macros/times.html", "day", value)
    if isinstance(value, list | tuple):
        value = ", ".join(map(str, value))
    if isinstance(value, Model):
        value = str(value)
    return render_macro("macros/values.html", "or_dash", value)


def capitalize_first(words: str) -> str:
    return words[:1].upper() + words[1:]


SPELLED_OUT: Final = {
    "id": "ID", "url": "URL", "npi": "NPI", "abn": "ABN", "iana": "IANA", "hrv": "HRV",
    "rem": "REM", "zip": "ZIP", "zipcode": "ZIP code", "dob": "date of birth", "email": "email",
    "lat": "latitude", "lng": "longitude", "hr": "heart rate", "heartrate": "heart rate",
    "avg": "average", "min": "lowest", "max": "highest", "tat": "turnaround", "org": "organization",
    "timezone": "time zone",
}  # fmt: skip
"""Words of column names as people write them."""


def column_label(name: str) -> str:
    """Return the label of a column: `Provider ID` for `provider id`."""
    words = gettext(name).split()
    return capitalize_first(" ".join(SPELLED_OUT.get(word, word) for word in words))


def admin_url(site: str, row: Model, page: str = "change") -> str:
    """Return the URL of an admin page about a row."""
    name = f"{row._meta.app_label}_{row._meta.model_name}"
    return reverse(f"{site}:{name}_{page}", args=[quote(row.pk)])


def defer_record(rows: QuerySet[Row]) -> QuerySet[Row]:
    """Defer the columns that no list shows."""
    names = {field.name for field in rows.model._meta.fields}
    return rows.defer(*names.intersection(("record", "content_hash")))
