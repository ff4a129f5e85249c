"""Views of a list's saved views, columns and download."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

from django.contrib import messages
from django.core.exceptions import BadRequest, ValidationError
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBase, QueryDict
from django.shortcuts import redirect, render
from django.utils.translation import gettext
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from backoffice.accounts.access import staff_user
from backoffice.core.urls import build_query
from backoffice.pages.lists import saved_views as saved
from backoffice.pages.lists.bulk import key_field
from backoffice.pages.lists.context import DENSITIES, OWN, ListContext, url_of_view
from backoffice.pages.lists.definition import ListPage
from backoffice.pages.lists.export import download
from backoffice.pages.lists.filters import ListFilterSet
from backoffice.pages.lists.forms import SIZES, filters_in
from backoffice.pages.models import ListChoice, SavedView

LONG = 4_000
"""Most characters of a posted query string."""


@require_http_methods(["GET", "HEAD", "POST"])
def view_list(request: HttpRequest, *, list_page: ListPage) -> HttpResponse:
    """List the saved views of a list, or create one by POST."""
    if request.method != "POST":
        return _views_page(request, list_page)
    user = staff_user(request)
    form = saved.view_form(user, request.POST)
    query, columns, density = _posted(request, list_page)
    if form.is_valid():
        view = SavedView(listing=list_page.name, owner=user, query=query, columns=columns,
                         density=density)  # fmt: skip
        _set_fields(view, form)
        problem = saved.save(view)
        if not problem:
            messages.success(request, gettext("Saved as “%(name)s”.") % {"name": view.name})
            return redirect(url_of_view(list_page, view))
        form.add_error("name", problem)
    fields = [("query", urlencode(query, doseq=True)), ("density", density)]
    more = {"new": form, "state_fields": [*fields, *(("column", key) for key in columns)]}
    return _views_page(request, list_page, 422, **more)


@require_GET
def open_view(request: HttpRequest, key: int, *, list_page: ListPage) -> HttpResponse:
    """Redirect to the list with the filters of a saved view in its URL."""
    view = saved.get_view(list_page, key, request.user)
    if view is None:
        messages.warning(
            request, gettext("This view was deleted, or your role cannot use its filters.")
        )
        return redirect(list_page.url())
    return redirect(url_of_view(list_page, view))


@require_POST
def change_view(request: HttpRequest, key: int, *, list_page: ListPage) -> HttpResponse:
    """Rename, share, move or delete a view, or store the current state of the list in it."""
    user = staff_user(request)
    view = saved.get_view(list_page, key, user)
    if view is None:
        raise Http404
    if not saved.may_change(view, user):
        messages.error(
            request, gettext("Only its owner or someone who can share views can change it.")
        )
        return redirect(list_page.url("views"))
    action = request.POST.get("do", "")
    if action == "delete":
        view.delete()
        messages.success(request, gettext("“%(name)s” deleted.") % {"name": view.name})
    elif action in ("up", "down"):
        saved.move(list_page, view, user, action == "up")
    elif action == "update":
        view.query, view.columns, view.density = _posted(request, list_page)
        saved.save(view)
        messages.success(request, gettext("“%(name)s” updated.") % {"name": view.name})
        return redirect(url_of_view(list_page, view))
    elif action == "change":
        form = saved.view_form(user, request.POST, view=view)
        problem = ""
        if form.is_valid():
            _set_fields(view, form)
            problem = saved.save(view)
            if not problem:
                messages.success(request, gettext("“%(name)s” saved.") % {"name": view.name})
                return redirect(list_page.url("views"))
            form.add_error("name", problem)
        return _views_page(request, list_page, 422, changed=(key, form))
    else:
        raise BadRequest("There is no such action for a view.")
    return redirect(list_page.url("views"))


@require_GET
def view_counts(request: HttpRequest, *, list_page: ListPage) -> HttpResponse:
    """Return the fragment of the view tabs with current counts."""
    user = staff_user(request)
    form = list_page.filters(request.GET, user).form
    form.is_valid()
    views = saved.visible_views(list_page, form, user)
    queries: dict[str, Any] = {
        f"{list_page.name}:{one.key}": dict(one.query) for one in list_page.presets_for(user)
    }
    queries |= {f"{list_page.name}:{one.pk}": one.query for one in views}
    saved.refresh_counts(list_page, queries, user)
    screen = ListContext.of(request, list_page, form)
    screen.has_stale_counts = False
    return render(request, "lists/_view_tabs.html", {"list": screen})


@require_POST
def columns(request: HttpRequest, *, list_page: ListPage) -> HttpResponse:
    """Store this user's columns and their order, the row height, and the page size."""
    user = staff_user(request)
    chosen = _columns(request, list_page)
    way, _, key = request.POST.get("move", "").partition(":")
    if key in chosen:
        index = chosen.index(key)
        other_index = index - 1 if way == "up" else index + 1
        if 0 <= other_index < len(chosen):
            chosen[index], chosen[other_index] = chosen[other_index], chosen[index]
    density = request.POST.get("density", "")
    size = request.POST.get("size", "")
    if "reset" in request.POST:
        ListChoice.objects.filter(user=user, listing=list_page.name).delete()
    else:
        ListChoice.objects.update_or_create(
            user=user,
            listing=list_page.name,
            defaults={
                "columns": chosen,
                "density": density if density in DENSITIES else "",
                "size": int(size) if size in map(str, SIZES) else None,
            },
        )
    back = _posted_query(request)
    back.pop("size", None)
    back.pop("panel", None)
    if "view" in back:
        # The filters of the view stay. The user's own columns replace its columns.
        back["columns"] = OWN
    if key:
        back["panel"] = "columns"
    return redirect(f"{list_page.url()}?{back.urlencode()}" if back else list_page.url())


@require_POST
def export(request: HttpRequest, *, list_page: ListPage) -> HttpResponseBase:
    """Download the matching rows of the list, or the selected ones, as a CSV file."""
    user = staff_user(request)
    filters, rows = selected_rows(request, list_page)
    if filters is None:
        messages.error(request, gettext("Some filters are invalid. Correct them first."))
        return redirect(f"{list_page.url()}?{_posted_query(request).urlencode()}")
    chosen_columns = _columns(request, list_page)
    known = {column.key: column for column in list_page.columns_for(user)}
    lead, rest = list_page.columns[0], [known[key] for key in chosen_columns if key in known]
    if not chosen_columns:
        rest = [column for column in known.values() if column.shown]
    chosen = [lead, *(column for column in rest if column.key != lead.key)]
    return download(request, list_page, filters, rows, chosen, bom="bom" in request.POST)


def selected_rows(request: HttpRequest, list_page: ListPage) -> tuple[ListFilterSet | None, Any]:
    """Return the filters and the selected rows of a posted selection.

    That is the checked rows, or all rows that match. The filters are None if they are invalid.
    """
    filters = list_page.filters(QueryDict(_text(request, "query")), staff_user(request))
    if not filters.is_valid():
        return None, filters.queryset.none()
    if request.POST.get("everything"):
        return filters, filters.qs
    return filters, filters.queryset.filter(pk__in=selected_keys(request, list_page))


def selected_keys(request: HttpRequest, list_page: ListPage) -> list[Any]:
    """Return the primary keys of the checked rows. Raise BadRequest for one that cannot be."""
    field = key_field(list_page.visible_rows(staff_user(request)))
    try:
        return [field.clean(key, None) for key in request.POST.getlist("key")[:200]]
    except ValidationError as error:
        raise BadRequest(gettext("A selected row is not in this list.")) from error


def _views_page(
    request: HttpRequest, list_page: ListPage, status: int = 200, **more: Any
) -> HttpResponse:
    user = staff_user(request)
    form = list_page.filters(QueryDict(), user).form
    changed = more.pop("changed", (0, None))
    views = saved.visible_views(list_page, form, user)
    rows = [
        {
            "view": one,
            "mine": one.owner_id == user.pk,
            "may_change": saved.may_change(one, user),
            "words": _filter_descriptions(list_page, one, user),
            "unknown": saved.unknown_filters(one, form),
            "form": changed[1]
            if changed[0] == one.pk
            else saved.view_form(
                user,
                view=one,
                initial={"name": one.name, "shared": one.shared, "opens_for": one.opens_for},
            ),
            "open": changed[0] == one.pk,
        }
        for one in views
    ]
    context = {"list_page": list_page, "rows": rows, "address": list_page.url(), **more}
    return render(request, "lists/views.html", context, status=status)


def _filter_descriptions(list_page: ListPage, view: SavedView, user: Any) -> list[str]:
    data = build_query(view.query)
    form = list_page.filters(data, user).form
    words = [each["label"] for each in form.active_filters(data)]
    if chosen := data.get(form.TAB_FIELD):
        words.append(str(chosen).replace("-", " "))
    return words


def _set_fields(view: SavedView, form: saved.ViewForm) -> None:
    view.name = form.cleaned_data["name"]
    view.shared = form.cleaned_data.get("shared", False)
    view.opens_for = form.cleaned_data["opens_for"]


def _posted(
    request: HttpRequest, list_page: ListPage
) -> tuple[dict[str, list[str]], list[str], str]:
    """Return the posted filters, columns and density of the page."""
    data = QueryDict(_text(request, "query"))
    query = filters_in(data, list_page.filters(data, staff_user(request)).form)
    density = request.POST.get("density", "")
    return query, _columns(request, list_page), density if density in DENSITIES else ""


def _columns(request: HttpRequest, list_page: ListPage) -> list[str]:
    known = {column.key for column in list_page.columns_for(request.user)}
    return [key for key in dict.fromkeys(request.POST.getlist("column")) if key in known]


def _posted_query(request: HttpRequest) -> QueryDict:
    return QueryDict(_text(request, "here"), mutable=True)


def _text(request: HttpRequest, name: str) -> str:
    text = request.POST.get(name, "").replace("\x00", "")
    if len(text) > LONG:
        # Without its end, it would select more rows than the page showed.
        raise BadRequest(gettext("The filters are too long."))
    return text
