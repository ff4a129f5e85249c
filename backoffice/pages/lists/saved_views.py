"""Saved views: filters, sort, columns and density under one name, with one check of permission."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from django import forms
from django.core.cache import cache
from django.db import IntegrityError, transaction
from django.db.models import Max, Q, QuerySet
from django.utils import timezone
from redis.exceptions import RedisError

from backoffice.core.access import ROLES, SERVICE_ACCOUNT, may, roles_of
from backoffice.core.prepared_queries import columns, read
from backoffice.core.urls import build_query
from backoffice.pages.lists.definition import ListPage
from backoffice.pages.lists.forms import SORTING, FilterForm
from backoffice.pages.lists.models import SavedView
from backoffice.pages.paging.counts import capped_count

MOST: Final = 50
"""Views of one person on one list."""
FRESH: Final = 60
"""Seconds for which a count is called current."""
KEPT: Final = 3_600


@dataclass(frozen=True, slots=True)
class TabCount:
    words: str
    stale: bool


class ViewForm(forms.Form):
    """What a view is called and for whom it is. Roles only where views may be shared."""

    name = forms.CharField(max_length=60, label="Name")
    shared = forms.BooleanField(
        required=False, label="Share it with everybody whose role may use its filters"
    )
    opens_for = forms.ChoiceField(required=False, label="The list opens with it")

    def __init__(
        self,
        data: Any = None,
        *,
        shares: bool,
        mine: bool = True,
        opens_for: str = "",
        initial: Any = None,
    ) -> None:
        """`shares`: who fills it in may share views. `mine`: the view is their own, or a new one;
        `opens_for` is what it opens for until now."""
        super().__init__(data, initial=initial, auto_id="view_%s")
        field = self.fields["opens_for"]
        assert isinstance(field, forms.ChoiceField)
        field.choices = [("", "Never by itself")]
        if mine:
            field.choices = [*field.choices, (SavedView.ME, "For me")]
        elif opens_for == SavedView.ME:
            field.choices = [*field.choices, (SavedView.ME, "For its owner")]
        if shares:
            roles = [role for role in ROLES if role != SERVICE_ACCOUNT]
            field.choices = [*field.choices, *((role, f"For each {role}") for role in roles)]
        else:
            del self.fields["shared"]

    def clean_name(self) -> str:
        name = " ".join(self.cleaned_data["name"].split())
        if not name:
            raise forms.ValidationError("Give the view a name.")
        return name

    def clean(self) -> None:
        opens_for = self.cleaned_data.get("opens_for")
        if opens_for and opens_for != SavedView.ME and not self.cleaned_data.get("shared"):
            self.add_error("shared", "A view that opens for a role must be shared.")


def view_form(
    user: Any, data: Any = None, *, view: SavedView | None = None, initial: Any = None
) -> ViewForm:
    """The form of a new view, or of `view`, for this person."""
    return ViewForm(
        data,
        shares=may(user, "views.share"),
        mine=view is None or view.owner_id == user.pk,
        opens_for=view.opens_for if view else "",
        initial=initial,
    )


def visible_views(list_page: ListPage, form: FilterForm, user: Any) -> list[SavedView]:
    """The person's own views and those shared with them, in order: one query.

    A view that asks for what their role does not show is not there for them, be it their own from
    the days of another role.
    """
    found = read(SavedView, _VIEWS, [list_page.name, user.pk])
    return [view for view in found if form.may_open(view.query)]


_VIEWS: Final = (
    f"SELECT {columns(SavedView)} FROM backoffice_savedview"  # noqa: S608 - our names
    " WHERE listing = %s AND (owner_id = %s OR shared) ORDER BY position, id"
)


def get_view(list_page: ListPage, key: int, user: Any) -> SavedView | None:
    form = list_page.form(build_query({}), user)
    view = _theirs(list_page, user).filter(pk=key).first()
    return view if view is not None and form.may_open(view.query) else None


def _theirs(list_page: ListPage, user: Any) -> QuerySet[SavedView]:
    return SavedView.objects.filter(Q(owner=user.pk) | Q(shared=True), listing=list_page.name)


def may_change(view: SavedView, user: Any) -> bool:
    if view.owner_id == user.pk:
        return not view.shared or may(user, "views.share")
    return view.shared and may(user, "views.share")


def default_view(views: Sequence[SavedView], user: Any) -> SavedView | None:
    """The view a list opens with: the person's own choice, else that of a role of theirs."""
    for view in views:
        if view.opens_for == SavedView.ME and view.owner_id == user.pk:
            return view
    roles = roles_of(user)
    return next((view for view in views if view.opens_for in roles), None)


def unknown_filters(view: SavedView, form: FilterForm) -> list[str]:
    """Filters of a view that the list no longer has."""
    return sorted(name for name in view.query if name not in form.fields)


def is_same_query(query: dict[str, list[str]], view: SavedView) -> bool:
    """Whether an address asks for what the view does, whatever the order of values."""

    def told(one: dict[str, list[str]]) -> dict[str, list[str]]:
        return {name: sorted(values) for name, values in one.items() if name not in SORTING}

    return told(query) == told(view.query) and all(
        query.get(name) == view.query.get(name) for name in SORTING
    )


def save(view: SavedView) -> str:
    """Write a view; words where that cannot be."""
    others = SavedView.objects.filter(listing=view.listing)
    if view.pk is None:
        mine = others.filter(owner=view.owner_id)
        if mine.count() >= MOST:
            return f"You have {MOST} views of this list. Delete one first."
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
        return "There is a view of this name already. Choose another name."
    return ""


def move(list_page: ListPage, view: SavedView, user: Any, up: bool) -> None:
    """Change places with the neighbour, among the views this person may change."""
    with transaction.atomic():
        # One after the other: two clicks at once would give two views one place.
        rows = _theirs(list_page, user).select_for_update().order_by("position", "pk")
        mine = [one for one in rows if may_change(one, user)]
        keys = [one.pk for one in mine]
        if view.pk not in keys:
            return
        here = keys.index(view.pk)
        there = here - 1 if up else here + 1
        if not 0 <= there < len(mine):
            return
        mine[here], mine[there] = mine[there], mine[here]
        for position, one in enumerate(mine, start=1):
            one.position = position
        SavedView.objects.bulk_update(mine, ["position"])


def cached_counts(keys: Sequence[str], user: Any) -> dict[str, TabCount]:
    """Counts as they were last taken for this person; none where nothing is known of them."""
    if not keys:
        return {}
    try:
        found = cache.get_many([_key(key, user) for key in keys])
    except (RedisError, OSError):
        return {}
    now = timezone.now().timestamp()
    return {
        key: TabCount(told[0], now - told[1] > FRESH)
        for key in keys
        if (told := found.get(_key(key, user))) is not None
    }


def refresh_counts(list_page: ListPage, queries: dict[str, Any], user: Any) -> dict[str, TabCount]:
    """Count what each query finds, as far as a list counts, and keep it for a while."""
    found: dict[str, TabCount] = {}
    for key, query in queries.items():
        form = list_page.form(build_query(query), user)
        if form.is_valid():
            found[key] = TabCount(str(capped_count(list_page.rows(form, user))), False)
    now = timezone.now().timestamp()
    try:
        cache.set_many({_key(key, user): (one.words, now) for key, one in found.items()}, KEPT)
    except (RedisError, OSError):
        return found
    return found


def _key(key: str, user: Any) -> str:
    """Counts are each person's own: "mine", days and what a role shows differ."""
    return f"view-count:{user.pk}:{key}"
