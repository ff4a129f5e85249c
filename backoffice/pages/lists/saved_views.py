"""Saved views: filters, sort, columns and density under one name. Permissions are checked here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from django import forms
from django.core.cache import cache
from django.db import IntegrityError, transaction
from django.db.models import Max, Q, QuerySet
from django.forms.renderers import Jinja2
from django.utils import timezone
from django.utils.translation import gettext, gettext_lazy
from redis.exceptions import RedisError

from backoffice.accounts.access import ROLES, SERVICE_ACCOUNT, may, role_label, roles_of
from backoffice.core.prepared_queries import columns, read
from backoffice.core.urls import build_query
from backoffice.pages.lists.definition import ListPage
from backoffice.pages.lists.forms import SORTING, FilterForm
from backoffice.pages.models import SavedView
from backoffice.pages.paging.counts import capped_count

MAX_VIEWS: Final = 50
"""Most views of one user for one list."""
FRESH_SECONDS: Final = 60
"""Seconds after which a count is stale."""
CACHE_SECONDS: Final = 3_600


@dataclass(frozen=True, slots=True)
class TabCount:
    words: str
    stale: bool


class ViewForm(forms.Form):
    """The name of a view, and who sees it. Only users who may share views can choose a role."""

    default_renderer = Jinja2()
    """As that of the filters: each list page renders this form, too."""

    name = forms.CharField(max_length=60, label=gettext_lazy("Name"))
    shared = forms.BooleanField(
        required=False, label=gettext_lazy("Share with everyone whose role can use these filters")
    )
    opens_for = forms.ChoiceField(
        required=False, label=gettext_lazy("Open the list with this view")
    )

    def __init__(
        self,
        data: Any = None,
        *,
        shares: bool,
        mine: bool = True,
        opens_for: str = "",
        initial: Any = None,
    ) -> None:
        """Build the choices for this user and view.

        `shares`: the user may share views. `mine`: the view is the user's own, or a new one.
        `opens_for` is the stored value of the view.
        """
        super().__init__(data, initial=initial, auto_id="view_%s")
        field = self.fields["opens_for"]
        assert isinstance(field, forms.ChoiceField)
        field.choices = [("", gettext("Only when chosen"))]
        if mine:
            field.choices = [*field.choices, (SavedView.ME, gettext("For me"))]
        elif opens_for == SavedView.ME:
            field.choices = [*field.choices, (SavedView.ME, gettext("For its owner"))]
        if shares:
            roles = [role for role in ROLES if role != SERVICE_ACCOUNT]
            for_role = gettext("For everyone with the role %(role)s")
            field.choices = [
                *field.choices,
                *((role, for_role % {"role": role_label(role).lower()}) for role in roles),
            ]
        else:
            del self.fields["shared"]

    def clean_name(self) -> str:
        name = " ".join(self.cleaned_data["name"].split())
        if not name:
            raise forms.ValidationError(gettext("Enter a name for the view."))
        return name

    def clean(self) -> None:
        opens_for = self.cleaned_data.get("opens_for")
        if opens_for and opens_for != SavedView.ME and not self.cleaned_data.get("shared"):
            self.add_error("shared", gettext("A view that opens for a role must be shared."))


def view_form(
    user: Any, data: Any = None, *, view: SavedView | None = None, initial: Any = None
) -> ViewForm:
    """Return the form of a new view, or of `view`, for this user."""
    return ViewForm(
        data,
        shares=may(user, "views.share"),
        mine=view is None or view.owner_id == user.pk,
        opens_for=view.opens_for if view else "",
        initial=initial,
    )


def visible_views(list_page: ListPage, form: FilterForm, user: Any) -> list[SavedView]:
    """Return the user's own views and the shared views, in order. One query.

    Views with filters that the user's role may not use are left out. These may be the user's own
    views, from a time when they had another role.
    """
    views = read(SavedView, _VIEWS, [list_page.name, user.pk])
    return [view for view in views if form.may_open(view.query)]


_VIEWS: Final = (
    f"SELECT {columns(SavedView)} FROM pages_savedview"  # noqa: S608 - our names
    " WHERE listing = %s AND (owner_id = %s OR shared) ORDER BY position, id"
)


def get_view(list_page: ListPage, key: int, user: Any) -> SavedView | None:
    form = list_page.filters(build_query({}), user).form
    view = _theirs(list_page, user).filter(pk=key).first()
    return view if view is not None and form.may_open(view.query) else None


def _theirs(list_page: ListPage, user: Any) -> QuerySet[SavedView]:
    return SavedView.objects.filter(Q(owner=user.pk) | Q(shared=True), listing=list_page.name)


def may_change(view: SavedView, user: Any) -> bool:
    if view.owner_id == user.pk:
        return not view.shared or may(user, "views.share")
    return view.shared and may(user, "views.share")


def default_view(views: Sequence[SavedView], user: Any) -> SavedView | None:
    """Return the default view: the user's own choice, else that of one of the user's roles."""
    for view in views:
        if view.opens_for == SavedView.ME and view.owner_id == user.pk:
            return view
    roles = roles_of(user)
    return next((view for view in views if view.opens_for in roles), None)


def unknown_filters(view: SavedView, form: FilterForm) -> list[str]:
    """Return the names of a view's filters that the list no longer has."""
    return sorted(name for name in view.query if name not in form.fields)


def is_same_query(query: dict[str, list[str]], view: SavedView) -> bool:
    """Return whether a query is that of the view. The order of filter values does not count."""

    def comparable(one: dict[str, list[str]]) -> dict[str, list[str]]:
        return {name: sorted(values) for name, values in one.items() if name not in SORTING}

    return comparable(query) == comparable(view.query) and all(
        query.get(name) == view.query.get(name) for name in SORTING
    )


def save(view: SavedView) -> str:
    """Save a view. Return an error message, empty on success."""
    others = SavedView.objects.filter(listing=view.listing)
    if view.pk is None:
        mine = others.filter(owner=view.owner_id)
        if mine.count() >= MAX_VIEWS:
            return gettext("You have %(count)d views of this list. Delete one first.") % {
                "count": MAX_VIEWS
            }
        view.position = (mine.aggregate(last=Max("position"))["last"] or 0) + 1
    view.changed_at = timezone.now()
    try:
        with transaction.atomic():
            if view.opens_for == SavedView.ME:
                others.filter(owner=view.owner_id, opens_for=SavedView.ME).exclude(
                    pk=view.pk
                ).update(opens_for="")
            elif view.opens_for:
                others.filter(opens_for=view.opens_for).exclude(pk=view.pk).update(opens_for="")
            view.save()
    except IntegrityError:
        return gettext("A view with this name already exists. Choose another name.")
    return ""


def move(list_page: ListPage, view: SavedView, user: Any, up: bool) -> None:
    """Swap a view with its neighbor, among the views that this user may change."""
    with transaction.atomic():
        # Lock the rows: two simultaneous clicks could give two views the same position.
        rows = _theirs(list_page, user).select_for_update().order_by("position", "pk")
        own_views = [one for one in rows if may_change(one, user)]
        keys = [one.pk for one in own_views]
        if view.pk not in keys:
            return
        index = keys.index(view.pk)
        other_index = index - 1 if up else index + 1
        if not 0 <= other_index < len(own_views):
            return
        own_views[index], own_views[other_index] = own_views[other_index], own_views[index]
        for position, one in enumerate(own_views, start=1):
            one.position = position
        SavedView.objects.bulk_update(own_views, ["position"])


def cached_counts(keys: Sequence[str], user: Any) -> dict[str, TabCount]:
    """Return the cached counts of this user. Keys without a cached count are left out."""
    if not keys:
        return {}
    try:
        entries = cache.get_many([_key(key, user) for key in keys])
    except (RedisError, OSError):
        return {}
    now = timezone.now().timestamp()
    return {
        key: TabCount(entry[0], now - entry[1] > FRESH_SECONDS)
        for key in keys
        if (entry := entries.get(_key(key, user))) is not None
    }


def refresh_counts(list_page: ListPage, queries: dict[str, Any], user: Any) -> dict[str, TabCount]:
    """Count the rows of each query, up to the cap of lists, and cache the counts."""
    counts: dict[str, TabCount] = {}
    for key, query in queries.items():
        filters = list_page.filters(build_query(query), user)
        if filters.is_valid():
            counts[key] = TabCount(str(capped_count(filters.qs)), False)
    now = timezone.now().timestamp()
    try:
        cache.set_many(
            {_key(key, user): (one.words, now) for key, one in counts.items()}, CACHE_SECONDS
        )
    except (RedisError, OSError):
        return counts
    return counts


def _key(key: str, user: Any) -> str:
    """Return the cache key of a user's count. "Mine", days and visible rows depend on the user."""
    return f"view-count:{user.pk}:{key}"
