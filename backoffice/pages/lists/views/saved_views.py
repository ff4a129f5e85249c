"""Pages of a list's saved views, its columns, and its download."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode
from uuid import UUID

from django.contrib import messages
from django.core.exceptions import BadRequest
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBase, QueryDict
from django.shortcuts import redirect, render
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from backoffice.core.urls import build_query
from backoffice.pages.lists import saved_views as saved
from backoffice.pages.lists.context import DENSITIES, OWN, ListContext, url_of_view
from backoffice.pages.lists.definition import ListPage, staff_user
from backoffice.pages.lists.export import download
from backoffice.pages.lists.forms import SIZES, FilterForm, filters_in
from backoffice.pages.lists.models import ListChoice, SavedView

LONG = 4_000
"""Letters of an address that is kept."""


@require_http_methods(["GET", "HEAD", "POST"])
def views(request: HttpRequest, *, listing: ListPage) -> HttpResponse:
    """All saved views of a list; a new one is posted here."""
    if request.method != "POST":
        return _views_page(request, listing)
    user = staff_user(request)
    form = saved.view_form(user, request.POST)
    query, columns, density = _posted(request, listing)
    if form.is_valid():
        view = SavedView(listing=listing.name, owner=user, query=query, columns=columns,
                         density=density)  # fmt: skip
        _named(view, form)
        trouble = saved.save(view)
        if not trouble:
            messages.success(request, f"Saved as “{view.name}”.")
            return redirect(url_of_view(listing, view))
        form.add_error("name", trouble)
    held = [("query", urlencode(query, doseq=True)), ("density", density)]
    more = {"new": form, "held": [*held, *(("column", key) for key in columns)]}
    return _views_page(request, listing, 422, **more)


@require_GET
def view(request: HttpRequest, key: int, *, listing: ListPage) -> HttpResponse:
    """Open a view: the list, with what it says standing in the address."""
    found = saved.get_view(listing, key, request.user)
    if found is None:
        messages.warning(request, "That view is gone, or your role may not use its filters.")
        return redirect(listing.url())
    return redirect(url_of_view(listing, found))


@require_POST
def change_view(request: HttpRequest, key: int, *, listing: ListPage) -> HttpResponse:
    """Rename, share, move, delete a view, or make it what the list shows now."""
    user = staff_user(request)
    found = saved.get_view(listing, key, user)
    if found is None:
        raise Http404
    if not saved.may_change(found, user):
        messages.error(request, "Only its owner, or who may share views, can change it.")
        return redirect(listing.url("views"))
    asked = request.POST.get("do", "")
    if asked == "delete":
        found.delete()
        messages.success(request, f"“{found.name}” is deleted.")
    elif asked in ("up", "down"):
        saved.move(listing, found, user, asked == "up")
    elif asked == "update":
        found.query, found.columns, found.density = _posted(request, listing)
        saved.save(found)
        messages.success(request, f"“{found.name}” now shows this.")
        return redirect(url_of_view(listing, found))
    elif asked == "change":
        form = saved.view_form(user, request.POST, view=found)
        trouble = ""
        if form.is_valid():
            _named(found, form)
            trouble = saved.save(found)
            if not trouble:
                messages.success(request, f"“{found.name}” is changed.")
                return redirect(listing.url("views"))
            form.add_error("name", trouble)
        return _views_page(request, listing, 422, changed=(key, form))
    else:
        raise BadRequest("There is nothing of this kind to do with a view.")
    return redirect(listing.url("views"))


@require_GET
def counts(request: HttpRequest, *, listing: ListPage) -> HttpResponse:
    """The tabs of the saved views with what they count now."""
    user = staff_user(request)
    form = listing.form(request.GET, user)
    form.is_valid()
    found = saved.visible_views(listing, form, user)
    queries: dict[str, Any] = {
        f"{listing.name}:{one.key}": dict(one.query) for one in listing.presets_for(user)
    }
    queries |= {f"{listing.name}:{one.pk}": one.query for one in found}
    saved.refresh_counts(listing, queries, user)
    screen = ListContext.of(request, listing, form)
    screen.has_stale_counts = False
    return render(request, "lists/_view_tabs.html", {"list": screen})


@require_POST
def columns(request: HttpRequest, *, listing: ListPage) -> HttpResponse:
    """Remember which columns this person wants, in which order, how high and how many rows."""
    user = staff_user(request)
    chosen = _columns(request, listing)
    way, _, key = request.POST.get("move", "").partition(":")
    if key in chosen:
        here = chosen.index(key)
        there = here - 1 if way == "up" else here + 1
        if 0 <= there < len(chosen):
            chosen[here], chosen[there] = chosen[there], chosen[here]
    density = request.POST.get("density", "")
    size = request.POST.get("size", "")
    if "reset" in request.POST:
        ListChoice.objects.filter(user=user, listing=listing.name).delete()
    else:
        ListChoice.objects.update_or_create(
            user=user,
            listing=listing.name,
            defaults={
                "columns": chosen,
                "density": density if density in DENSITIES else "",
                "size": int(size) if size in map(str, SIZES) else None,
            },
        )
    back = _here(request)
    back.pop("size", None)
    back.pop("panel", None)
    if "view" in back:
        # The filters of the view stay; only its columns give way to one's own.
        back["columns"] = OWN
    if key:
        back["panel"] = "columns"
    return redirect(f"{listing.url()}?{back.urlencode()}" if back else listing.url())


@require_POST
def export(request: HttpRequest, *, listing: ListPage) -> HttpResponseBase:
    """What the list shows, or the chosen rows of it, as a CSV file."""
    user = staff_user(request)
    form, rows = selected_rows(request, listing)
    if form is None:
        messages.error(request, "These filters cannot be read any more: correct them first.")
        return redirect(f"{listing.url()}?{_here(request).urlencode()}")
    wanted = _columns(request, listing)
    known = {column.key: column for column in listing.columns_for(user)}
    lead, rest = listing.columns[0], [known[key] for key in wanted if key in known]
    if not wanted:
        rest = [column for column in known.values() if column.shown]
    chosen = [lead, *(column for column in rest if column.key != lead.key)]
    return download(request, listing, form, rows, chosen, bom="bom" in request.POST)


def selected_rows(request: HttpRequest, listing: ListPage) -> tuple[FilterForm | None, Any]:
    """The form and the rows that a posted choice means: ticked rows by their keys, everything by
    its filter. No form where the filter cannot be read."""
    user = staff_user(request)
    form = listing.form(QueryDict(_text(request, "query")), user)
    if not form.is_valid():
        return None, listing.visible_rows(user).none()
    if request.POST.get("everything"):
        return form, listing.rows(form, user)
    return form, listing.visible_rows(user).filter(pk__in=selected_keys(request))


def selected_keys(request: HttpRequest) -> list[UUID]:
    try:
        return [UUID(key) for key in request.POST.getlist("key")[:200]]
    except ValueError as error:
        raise BadRequest("That is no row of this list.") from error


def _views_page(
    request: HttpRequest, listing: ListPage, status: int = 200, **more: Any
) -> HttpResponse:
    user = staff_user(request)
    form = listing.form(QueryDict(), user)
    changed = more.pop("changed", (0, None))
    found = saved.visible_views(listing, form, user)
    rows = [
        {
            "view": one,
            "mine": one.owner_id == user.pk,
            "may_change": saved.may_change(one, user),
            "words": _in_words(listing, one, user),
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
        for one in found
    ]
    context = {"listing": listing, "rows": rows, "address": listing.url(), **more}
    return render(request, "lists/views.html", context, status=status)


def _in_words(listing: ListPage, view: SavedView, user: Any) -> list[str]:
    data = build_query(view.query)
    form = listing.form(data, user)
    words = [chip["label"] for chip in form.active_filters(data)]
    words += [str(data[name]).replace("-", " ") for name in form.TAB_FIELDS if data.get(name)]
    return words


def _named(view: SavedView, form: saved.ViewForm) -> None:
    view.name = form.cleaned_data["name"]
    view.shared = form.cleaned_data.get("shared", False)
    view.opens_for = form.cleaned_data["opens_for"]


def _posted(request: HttpRequest, listing: ListPage) -> tuple[dict[str, list[str]], list[str], str]:
    """Filters, columns and density as the page that was left had them."""
    data = QueryDict(_text(request, "query"))
    query = filters_in(data, listing.form(data, staff_user(request)))
    density = request.POST.get("density", "")
    return query, _columns(request, listing), density if density in DENSITIES else ""


def _columns(request: HttpRequest, listing: ListPage) -> list[str]:
    known = {column.key for column in listing.columns_for(request.user)}
    return [key for key in dict.fromkeys(request.POST.getlist("column")) if key in known]


def _here(request: HttpRequest) -> QueryDict:
    return QueryDict(_text(request, "here"), mutable=True)


def _text(request: HttpRequest, name: str) -> str:
    return request.POST.get(name, "").replace("\x00", "")[:LONG]
