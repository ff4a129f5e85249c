"""What a list says of itself."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar
from uuid import UUID

from django.db.models import QuerySet
from django.http import HttpRequest, QueryDict
from django.urls import reverse
from django.utils.safestring import SafeString

from backoffice.core.access import may
from backoffice.core.encryption.url_tokens import PersonalParameters
from backoffice.core.urls import page_url
from backoffice.models import User
from backoffice.pages.lists.forms import FilterForm
from backoffice.pages.paging.pages import Page, PagePosition, Sort, fetch_page

if TYPE_CHECKING:
    from backoffice.pages.lists.bulk import BulkAction
    from backoffice.pages.lists.context import ListContext


@dataclass(frozen=True, slots=True)
class ExportCell:
    """One column of a download: its head, and what it reads of a row.

    A value may be text, a number, a truth, a date, an instant (written in the staff member's zone,
    which the head names) or nothing.
    """

    header: str
    read: Callable[[Any], object]
    is_timestamp: bool = False


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a list. `key` is known to the template that draws its cells."""

    key: str
    label: str
    cells: tuple[ExportCell, ...] = ()
    sort: str = ""
    needs: str = ""
    """Permission without which it is neither shown nor offered."""
    shown: bool = True
    """Unless somebody chooses otherwise."""
    css: str = ""


@dataclass(frozen=True, slots=True)
class Preset:
    """A view that comes with the list."""

    key: str
    label: str
    query: Mapping[str, list[str]]
    needs: str = ""


@dataclass(frozen=True, slots=True)
class BulkPage:
    """A page elsewhere that does something with the chosen rows: it gets the form of the bulk bar,
    and reads it with `lists.pages.selected`."""

    label: str
    """On its button."""
    route: str
    needs: tuple[str, ...]


class ListPage:
    """A list of records. One object of each subclass, made where it is declared."""

    name: ClassVar[str]
    """The name of its saved views, and of the app whose addresses it has."""
    subject: ClassVar[str]
    """What one row is, in the log."""
    nouns: ClassVar[tuple[str, str]]
    needs: ClassVar[tuple[str, ...]]
    """Permissions to see it at all."""
    export_permission: ClassVar[str] = "lists.export"
    """Permission to download it."""
    columns: ClassVar[Sequence[Column]]
    """The first leads to the record, and is always shown first."""
    words: ClassVar = PersonalParameters("")
    """Filters that take words about a person: sealed in addresses."""
    presets: ClassVar[Sequence[Preset]] = ()
    bulk_actions: ClassVar[Sequence[BulkAction]] = ()
    bulk_pages: ClassVar[Sequence[BulkPage]] = ()

    def form(self, data: QueryDict, user: Any) -> FilterForm:
        """The form, bound: it refuses what `user` may not ask."""
        raise NotImplementedError

    def visible_rows(self, user: Any) -> QuerySet[Any]:
        """All rows `user` may see, with the columns that a row shows."""
        raise NotImplementedError

    def rows(self, form: FilterForm, user: Any) -> QuerySet[Any]:
        """The rows that a valid form asks for, as `page` takes them."""
        raise NotImplementedError

    def page(
        self,
        rows: QuerySet[Any],
        form: FilterForm,
        size: int,
        place: PagePosition,
        all_rows: QuerySet[Any] | None = None,
    ) -> Page[Any]:
        return fetch_page(rows, self.sort_for(form), size=size, all_rows=all_rows, **place)

    def sort_for(self, form: FilterForm) -> Sort:
        return form.keyset()

    def with_related(self, rows: list[Any], user: Any) -> list[Any]:
        """Rows of one page with what stands beside them, by a fixed number of queries."""
        return rows

    def render_rows(self, rows: list[Any], screen: ListContext) -> SafeString:
        """Dressed rows as HTML, in the columns of the screen."""
        raise NotImplementedError

    def patient_id_of(self, row: Any) -> UUID | None:
        raise NotImplementedError

    def labels_and_urls(self, keys: Iterable[UUID], user: Any) -> dict[UUID, tuple[str, str]]:
        """What a few records are called, for this person, and where their pages are."""
        raise NotImplementedError

    def url(self, route: str = "list", *args: Any) -> str:
        name = f"{self.name}:{route}"
        return reverse(name, args=args) if args else page_url(name)

    def columns_for(self, user: Any) -> list[Column]:
        """The columns this person may see."""
        return [column for column in self.columns if not column.needs or may(user, column.needs)]

    def words_of(self, user: Any) -> PersonalParameters:
        """The words that this person may open."""
        return replace(self.words, by_name=may(user, "patients.view"))

    def presets_for(self, user: Any) -> list[Preset]:
        return [preset for preset in self.presets if not preset.needs or may(user, preset.needs)]

    def bulk_actions_for(self, user: Any) -> tuple[BulkAction, ...]:
        return tuple(verb for verb in self.bulk_actions if may(user, *verb.needs))

    def bulk_pages_for(self, user: Any) -> tuple[BulkPage, ...]:
        return tuple(page for page in self.bulk_pages if may(user, *page.needs))


def staff_user(request: HttpRequest) -> User:
    assert isinstance(request.user, User)
    return request.user
