"""The template context of a list page for one user: columns, density, saved views, notices."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final, Self, TypedDict
from urllib.parse import urlencode
from uuid import UUID

from django.http import HttpRequest, QueryDict
from django.utils.translation import gettext, gettext_noop

from backoffice.accounts.access import may, staff_user
from backoffice.core.encryption.url_tokens import encrypted_query
from backoffice.core.prepared_queries import columns, read
from backoffice.core.urls import build_query
from backoffice.pages.lists import saved_views as saving
from backoffice.pages.lists.definition import BulkPage, Column, ListPage
from backoffice.pages.lists.forms import PLACE, SIZE, SIZES, FilterForm, filters_in
from backoffice.pages.models import BulkRun, ListChoice, SavedView
from backoffice.pages.paging.counts import Count
from backoffice.pages.paging.pages import Page

DENSITIES: Final = {
    "compact": gettext_noop("Compact"),
    "default": gettext_noop("Normal"),
    "touch": gettext_noop("Tall, for touch"),
}
OWN: Final = "own"
"""Value of the parameter `columns`: use the user's own columns, not those of the view."""
NO_VIEW: Final = "all"
"""Value of the parameter `view`: use no view, not even the default view."""
OWN_NAMES: Final = PLACE | {"view", "columns", "run", "panel"}
"""Parameters of a list's URL that are not filters."""
MAX_NAMED: Final = 5
LONGEST_NAME: Final = 40
_CHOICE: Final = (
    f"SELECT {columns(ListChoice)} FROM pages_listchoice"  # noqa: S608 - our names
    " WHERE user_id = %s AND listing = %s"
)


@dataclass(frozen=True, slots=True)
class ViewTab:
    """A saved view or a preset as a tab."""

    label: str
    url: str
    current: bool
    shared: bool = False
    count: saving.TabCount | None = None


class PagerContext(TypedDict):
    """The position of a page in the list. Row numbers begin with one."""

    page: Page[Any]
    first: int
    last: int
    next_at: int
    previous_at: int
    total: Count | None
    noun: str


@dataclass(slots=True)
class ListContext:
    """The variable `list` of a list's templates."""

    list_page: ListPage
    form: FilterForm
    user: Any
    columns: list[Column]
    available_columns: list[Column]
    """Columns that this user may see, the chosen ones first."""
    density: str
    size: int
    view: SavedView | None
    is_changed: bool
    """Whether the filters or columns of the page differ from those of its view."""
    may_change_view: bool
    views: list[SavedView]
    tabs: list[ViewTab]
    has_stale_counts: bool
    """Whether counts on the tabs are missing or old. Then the page requests new ones."""
    clear_url: str
    """URL of the list without filters, in the same tab if a filter is active."""
    query: str
    """The active filters, tab and sort as a query string."""
    current_query: str
    """The whole query string of this page, to return to it."""
    at: int
    """Number of the first row of the page, as far as it is known."""
    run: BulkRun | None
    redirect_url: str
    """URL of the default view, if the request has no parameters; else empty."""
    notices: list[str] = field(default_factory=list)

    @classmethod
    def of(cls, request: HttpRequest, list_page: ListPage, form: FilterForm) -> Self:
        """Return the context for a validated form. Two queries, and one more for a bulk run."""
        user = staff_user(request)
        parameters = request.GET
        saved = saving.visible_views(list_page, form, user)
        choice = next(iter(read(ListChoice, _CHOICE, [user.pk, list_page.name])), None)
        view = next((one for one in saved if str(one.pk) == parameters.get("view")), None)
        query = filters_in(parameters, form)
        own = view is None or parameters.get("columns") == OWN
        chosen = (choice.columns if choice else []) if own or view is None else view.columns
        allowed = list_page.columns_for(user)
        columns = _chosen(allowed, chosen)
        density = (choice.density if choice else "") if own or view is None else view.density
        size = form.cleaned_data.get("size") if form.is_valid() else None
        opened = saving.default_view(saved, user)
        is_bare = not request.META.get("QUERY_STRING")
        screen = cls(
            list_page=list_page,
            form=form,
            user=user,
            columns=columns,
            available_columns=[*columns, *(one for one in allowed if one not in columns)],
            density=density if density in DENSITIES else user.density,
            size=size or (choice.size if choice else None) or SIZE,
            view=view,
            is_changed=view is not None
            and (parameters.get("columns") == OWN or not saving.is_same_query(query, view)),
            may_change_view=view is not None and saving.may_change(view, user),
            views=saved,
            tabs=[],
            has_stale_counts=False,
            clear_url=_clear_url(list_page, form, {"view": NO_VIEW} if opened else {}),
            query=_encoded(query),
            current_query=parameters.urlencode(),
            at=_number(parameters.get("at")),
            run=_run(parameters.get("run"), user),
            redirect_url=url_of_view(list_page, opened) if opened and is_bare else "",
        )
        screen._tabs(query)
        if view is not None and (unknown := saving.unknown_filters(view, form)):
            screen.notices.append(
                gettext(
                    "The view “%(view)s” uses filters that this list no longer has: %(names)s. "
                    "They are ignored, so more rows may be shown than intended."
                )
                % {"view": view.name, "names": ", ".join(unknown)}
            )
        if unread := _unread(parameters, form):
            screen.notices.append(
                gettext(
                    "This list has no filter called %(names)s. It is ignored, so more rows may be "
                    "shown than intended."
                )
                % {"names": unread}
            )
        view_key = parameters.get("view", "")
        if view_key not in ("", NO_VIEW) and view is None:
            screen.notices.append(
                gettext("This view was deleted, or your role cannot use its filters.")
            )
        return screen

    def _tabs(self, query: dict[str, list[str]]) -> None:
        presets = self.list_page.presets_for(self.user)
        keys = [*(one.key for one in presets), *(str(one.pk) for one in self.views)]
        counts = saving.cached_counts([f"{self.list_page.name}:{key}" for key in keys], self.user)
        named = {key: counts.get(f"{self.list_page.name}:{key}") for key in keys}
        self.has_stale_counts = any(one is None or one.stale for one in named.values())
        filters = {name: values for name, values in query.items() if name != "order_direction"}
        for preset in presets:
            current = self.view is None and filters == dict(preset.query)
            url = f"?{urlencode(dict(preset.query), doseq=True)}"
            self.tabs.append(ViewTab(gettext(preset.label), url, current, count=named[preset.key]))
        for view in self.views:
            self.tabs.append(
                ViewTab(
                    view.name,
                    self.list_page.url("view", view.pk),
                    view == self.view,
                    view.shared,
                    named[str(view.pk)],
                )
            )

    @property
    def densities(self) -> tuple[tuple[str, str], ...]:
        return tuple((key, gettext(label)) for key, label in DENSITIES.items())

    @property
    def sizes(self) -> tuple[int, ...]:
        return SIZES

    @property
    def noun(self) -> str:
        return self.list_page.noun()

    @property
    def zone(self) -> str:
        return str(self.user.time_zone)

    @property
    def sort(self) -> str:
        return self.form.sort[0] if self.form.is_valid() else ""

    @property
    def direction(self) -> str:
        return self.form.sort[1] if self.form.is_valid() else ""

    @property
    def falling(self) -> frozenset[str]:
        return self.form.DESCENDING_FIRST

    @property
    def column_keys(self) -> set[str]:
        return {column.key for column in self.columns}

    @property
    def bulk_pages(self) -> tuple[BulkPage, ...]:
        return self.list_page.bulk_pages_for(self.user)

    @property
    def bulk_actions(self) -> tuple[Any, ...]:
        return self.list_page.bulk_actions_for(self.user)

    def new_view_form(self) -> saving.ViewForm:
        """Return the form to save the page as a view. Not every user may share one."""
        return saving.ViewForm(shares=may(self.user, "views.share"))

    def state_fields(self) -> list[tuple[str, str]]:
        """Return the hidden fields that the filter form needs to keep the state of the page."""
        # An unknown tab would make each further filter an error, too.
        tab = "" if self.form.TAB_FIELD in self.form.errors else self.form.TAB_FIELD
        fields = [(name, self._parameter(name)) for name in (tab, "order_key",
                "order_direction", "size")]  # fmt: skip
        if self.view is not None:
            fields.append(("view", str(self.view.pk)))
            fields.append(("columns", OWN if "columns=own" in self.current_query else ""))
        elif f"view={NO_VIEW}" in self.clear_url:
            fields.append(("view", NO_VIEW))
        return [(name, value) for name, value in fields if value]

    def _parameter(self, name: str) -> str:
        return str(self.form.data.get(name) or "")

    def pager(self, page: Page[Any], total: Count | None) -> PagerContext:
        """Return the values for `1–50 of 1,240` and the row numbers of the neighboring pages."""
        first = 1 if page.previous is None else max(self.at, 2)
        last = first + len(page.rows) - 1
        if total is not None and page.next is None and page.rows:
            # This is the last page, so count back from the end. Rows may have come or gone since.
            if total.capped:
                total = Count(last)
            first, last = max(total.value - len(page.rows) + 1, 1), total.value
        elif total is not None and total.capped:
            total = Count(max(total.value, last), capped=True)
        return {
            "page": page,
            "first": first,
            "last": last,
            "next_at": last + 1,
            "previous_at": max(first - self.size, 1),
            "total": total,
            "noun": self.list_page.noun(2 if total is None else total.value),
        }


def url_of_view(list_page: ListPage, view: SavedView) -> str:
    """Return the URL of the list with the filters of a view. Personal text is encrypted."""
    query = build_query({"view": [str(view.pk)], **view.query})
    return f"{list_page.url()}?{encrypted_query(query, list_page.words).urlencode()}"


def _clear_url(list_page: ListPage, form: FilterForm, query: dict[str, str]) -> str:
    if form.is_valid() and form.is_filtered() and (chosen := form.data.get(form.TAB_FIELD)):
        query[form.TAB_FIELD] = chosen
    return f"{list_page.url()}?{urlencode(query)}" if query else list_page.url()


def _encoded(query: dict[str, list[str]]) -> str:
    return urlencode(query, doseq=True)


def _chosen(allowed: list[Column], keys: list[str]) -> list[Column]:
    """Return the chosen columns in their order; the default columns if none were chosen."""
    known = {column.key: column for column in allowed}
    lead = allowed[0]
    chosen = [known[key] for key in dict.fromkeys(keys) if key in known and key != lead.key]
    if not keys:
        chosen = [column for column in allowed[1:] if column.shown]
    return [lead, *chosen]


def _unread(data: QueryDict, form: FilterForm) -> str:
    """Return the names of unknown parameters, as text for a notice."""
    names = [name for name in data if name not in form.fields and name not in OWN_NAMES]
    quoted = [f"“{name[:LONGEST_NAME]}”" for name in names[:MAX_NAMED]]
    return ", ".join([*quoted, "…"] if len(names) > MAX_NAMED else quoted)


def _number(text: str | None) -> int:
    return int(text) if text and text.isascii() and text.isdigit() and len(text) < 9 else 1


def _run(key: str | None, user: Any) -> BulkRun | None:
    try:
        return BulkRun.objects.filter(pk=UUID(key or ""), asked_by=user.pk).first()
    except ValueError:
        return None
