"""The declaration of a list: its columns, presets, bulk actions and queries."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar
from uuid import UUID

from django.db.models import QuerySet
from django.http import QueryDict
from django.urls import reverse
from django.utils.translation import gettext

from backoffice.accounts.access import may
from backoffice.core.encryption.url_tokens import PersonalParameters
from backoffice.core.urls import page_url
from backoffice.pages.lists.filters import ListFilterSet
from backoffice.pages.paging.counts import Count
from backoffice.pages.paging.filtered_page import count_and_page
from backoffice.pages.paging.pages import Page, PagePosition, Sort, fetch_page

if TYPE_CHECKING:
    from backoffice.pages.lists.bulk import BulkAction
    from backoffice.pages.models import BulkRun


@dataclass(frozen=True, slots=True)
class ExportCell:
    """One column of a download: its header, and a function that reads its value from a row.

    A value may be text, a number, a boolean, a date, a datetime or None. A datetime is written in
    the staff member's time zone, which the header names.
    """

    header: str
    read: Callable[[Any], object]
    is_timestamp: bool = False


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a list.

    The macro with the name `key` in the `row_macros` of the list renders the content of its cells.
    """

    key: str
    label: str
    cells: tuple[ExportCell, ...] = ()
    sort: str = ""
    needs: str = ""
    """Permission that a user needs to see or choose the column."""
    shown: bool = True
    """Whether it is shown by default."""
    css: str = ""
    """The CSS class of its header."""
    cell_css: str = ""
    macro: str = ""
    """The name of its macro, if that is not its key."""


@dataclass(frozen=True, slots=True)
class Preset:
    """A predefined view of a list."""

    key: str
    label: str
    query: Mapping[str, list[str]]
    needs: str = ""


@dataclass(frozen=True, slots=True)
class BulkPage:
    """A page of its own for an action on the selected rows.

    The form of the bulk bar is posted to it. It reads the form with
    `lists.views.saved_views.selected_rows`.
    """

    label: str
    """The text of its button."""
    route: str
    needs: tuple[str, ...]


class ListPage:
    """A list of records. Each subclass has one instance, created where it is declared."""

    name: ClassVar[str]
    """The key of its saved views, and the namespace of its URLs."""
    subject: ClassVar[str]
    """The name of one row in the audit trail."""
    title: ClassVar[str]
    """The heading of its page."""
    template: ClassVar[str] = "lists/page.html"
    """The template of its page, which extends `lists/page.html`."""
    nouns: ClassVar[tuple[str, str]]
    """What one row and several rows are called, in English, as all of these texts."""
    needs: ClassVar[tuple[str, ...]]
    """Permissions that a user needs to see the list."""
    needs_recent_authentication: ClassVar[bool] = False
    """Whether a user must have authenticated recently to use the list."""
    export_permission: ClassVar[str] = "lists.export"
    """Permission that a user needs to download the list."""
    columns: ClassVar[Sequence[Column]]
    """The columns. The first one links to the record, and is always shown first."""
    row_macros: ClassVar[str] = ""
    """The Jinja template with the macros of the columns. `lists/_rows.html` describes them."""
    filter_set: ClassVar[type[ListFilterSet]]
    patient_column: ClassVar[str] = ""
    """The column with the patient of a row, for the audit trail. Empty: rows have no patient."""
    presets: ClassVar[Sequence[Preset]] = ()
    detail_route: ClassVar[str] = ""
    """The route of the page of a row, by its key. Empty: rows have none."""
    bulk_actions: ClassVar[Sequence[BulkAction]] = ()
    bulk_pages: ClassVar[Sequence[BulkPage]] = ()

    def filters(self, data: QueryDict, user: Any) -> ListFilterSet:
        """Return the filters of a URL. They reject those that `user` may not use."""
        return self.filter_set(data, self.visible_rows(user), user=user)

    def visible_rows(self, user: Any) -> QuerySet[Any]:
        """Return all rows that `user` may see, with the database columns that a row shows."""
        raise NotImplementedError

    def page(
        self, rows: QuerySet[Any], filters: ListFilterSet, size: int, place: PagePosition
    ) -> Page[Any]:
        return fetch_page(rows, self.sort_for(filters), size=size, **place)

    def count_and_page(
        self, filters: ListFilterSet, size: int, place: PagePosition, number: int | None = None
    ) -> tuple[Count, Page[Any]]:
        """Return how many rows match valid filters, up to the cap, and a page of them.

        `number` is their exact number where it is known.
        """
        return count_and_page(
            filters.qs, filters.queryset, self.sort_for(filters), size, place, number
        )

    def sort_for(self, filters: ListFilterSet) -> Sort:
        return filters.form.keyset()

    def with_related(self, rows: list[Any], user: Any) -> list[Any]:
        """Return the rows of one page with their related data, one for each of `rows`.

        The number of queries is fixed.
        """
        return rows

    def row_context(self, user: Any, column_keys: Set[str]) -> Any:
        """Return values that are the same for all rows of a page, for the macros of the columns.

        `column_keys`: the shown columns.
        """
        return None

    def with_open_tab(self, parameters: QueryDict, user: Any) -> QueryDict:
        """Return the parameters of a URL, with the tab that the page opens if it names none.

        Only a list whose first tab changes needs this: its links keep the tab.
        """
        return parameters

    def notices(self, filters: ListFilterSet) -> list[str]:
        """Return sentences to show above the rows of valid filters."""
        return []

    def page_context(self, filters: ListFilterSet) -> dict[str, Any]:
        """Return what the template of this list needs besides the context of all lists."""
        return {}

    def shown_patients(self, rows: Iterable[Any], filters: ListFilterSet) -> Iterable[UUID | None]:
        """Return the patients whom a page shows, for the audit trail."""
        return self.exported_patients(rows)

    def exported_patients(self, rows: Iterable[Any]) -> Iterable[UUID | None]:
        """Return the patients whom rows of a download are about, for the audit trail."""
        return [self.patient_id_of(row) for row in rows]

    def patient_id_of(self, row: Any) -> UUID | None:
        """Return the patient whom a row is about, for the audit trail."""
        return getattr(row, self.patient_column) if self.patient_column else None

    def row_label(self, row: Any, user: Any) -> str:
        """Return what a row is called beside its checkbox and on the pages of bulk actions.

        The user's roles limit it.
        """
        return self._key_label(row.pk)

    def labels_and_urls(self, keys: Iterable[object], user: Any) -> dict[str, tuple[str, str]]:
        """Return labels and URLs of a few records, by their key as text. A URL may be empty."""
        labels = {str(key): (self._key_label(key), "") for key in keys}
        for row in self.visible_rows(user).filter(pk__in=list(labels)):
            labels[str(row.pk)] = self.label_and_url(row, user)
        return labels

    def label_and_url(self, row: Any, user: Any) -> tuple[str, str]:
        address = reverse(self.detail_route, args=[row.pk]) if self.detail_route else ""
        return self.row_label(row, user), address

    def _key_label(self, key: object) -> str:
        return f"{gettext(self.subject.capitalize())} {str(key)[:8]}"

    def url(self, route: str = "list", *args: Any) -> str:
        name = f"{self.name}:{route}"
        return reverse(name, args=args) if args else page_url(name)

    def noun(self, count: int = 2) -> str:
        """Return what so many rows are called, translated."""
        return gettext(self.nouns[count != 1])

    def run_title(self, run: BulkRun) -> str:
        """Return the title of a bulk run of this list, translated."""
        return gettext(run.title)

    def columns_for(self, user: Any) -> list[Column]:
        """Return the columns that this user may see."""
        return [column for column in self.columns if not column.needs or may(user, column.needs)]

    @property
    def words(self) -> PersonalParameters:
        """Filters that take personal text, which is encrypted in URLs."""
        return self.filter_set.form_class().WORDS

    def personal_parameters(self, user: Any) -> PersonalParameters:
        """Return the parameters with personal text that this user may decrypt."""
        return replace(self.words, by_name=may(user, "patients.view"))

    def presets_for(self, user: Any) -> list[Preset]:
        return [preset for preset in self.presets if not preset.needs or may(user, preset.needs)]

    def bulk_actions_for(self, user: Any) -> tuple[BulkAction, ...]:
        return tuple(verb for verb in self.bulk_actions if may(user, *verb.needs))

    def bulk_pages_for(self, user: Any) -> tuple[BulkPage, ...]:
        return tuple(page for page in self.bulk_pages if may(user, *page.needs))
