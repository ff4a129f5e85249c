"""Resources of the JSON API: the base class, and the declarations of children and filters."""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, ClassVar, Final
from uuid import UUID

import orjson
from django.core.exceptions import ValidationError as DjangoValidationError
from django.db import models
from django.db.models import Q, QuerySet
from django.http import Http404, HttpResponse
from django.urls import URLPattern, path
from rest_framework import serializers
from rest_framework.request import Request

from backoffice.accounts.access import may
from backoffice.accounts.models import User
from backoffice.api.base import BaseAPIView
from backoffice.api.errors import bad_request
from backoffice.api.schema import ResourceSchema, column
from backoffice.audit.recording import record_list, record_view
from backoffice.core.identifiers import same_identifier
from backoffice.core.text import is_storable

LIMIT_DEFAULT: Final = 100
LIMIT_MAX: Final = 1000
_UNREADABLE: Final = (
    ValueError,
    TypeError,
    RecursionError,
    binascii.Error,
    DjangoValidationError,
)
"""Exceptions that an invalid cursor can raise."""


@dataclass(frozen=True, slots=True)
class ChildRows:
    """Related rows of an item. One query reads them for all items of a page.

    A child with one column is the value of that column. A child with several columns is an object.
    With `many` it is a list, sorted by `order`. Without `many` it is null if there is no row.
    `record` adds the fields of a mirrored record: `record`, `as_of` and `missing_since`.
    """

    name: str
    model: type[models.Model]
    parent: str
    columns: tuple[str, ...]
    order: tuple[str, ...] = ()
    many: bool = True
    record: bool = False


@dataclass(frozen=True, slots=True)
class ResourceFilter:
    """One query parameter and its condition."""

    name: str
    kind: type[str | UUID | int]
    column: str
    help: str

    def parse(self, raw: str) -> Q:
        shape, words = _SHAPES[self.kind]
        if not shape.fullmatch(raw):
            raise bad_request(f"{self.name} must be {words}.")
        return Q(**{self.column: self.kind(raw)})


_SHAPES: Final[dict[type, tuple[re.Pattern[str], str]]] = {
    str: (re.compile(r"[^\0]*"), "text"),
    UUID: (re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.I | re.A), "a UUID"),
    int: (re.compile(r"-?[0-9]{1,18}"), "a whole number"),
}


@dataclass(frozen=True, slots=True)
class IdentifierFilter(ResourceFilter):
    """A filter by identifier that ignores case, width and invisible characters."""

    def parse(self, raw: str) -> Q:
        ResourceFilter.parse(self, raw)
        return same_identifier(self.column, raw)


def any_spelling(name: str, help: str) -> ResourceFilter:
    return IdentifierFilter(name, str, name, help)


def exactly(name: str, kind: type[str | UUID | int], help: str, column: str = "") -> ResourceFilter:
    return ResourceFilter(name, kind, column or name, help)


class Resource(BaseAPIView):
    """One resource of the API. Subclasses declare its model, columns, children and filters."""

    model: ClassVar[type[models.Model]]
    columns: ClassVar[tuple[str, ...]]
    children: ClassVar[tuple[ChildRows, ...]] = ()
    filters: ClassVar[tuple[ResourceFilter, ...]] = ()
    key: ClassVar[tuple[str, ...]] = ()
    """Columns of the natural key, if the service gives no id."""
    patient: ClassVar[str | None] = None
    """Member of an item that has the patient's id. Reads of such a resource are audited."""
    guarded: ClassVar[Mapping[str, str]] = MappingProxyType({})
    """Columns that need an extra permission, mapped to it. Without it the column is null."""
    mirrored: ClassVar[bool] = True
    added: ClassVar[Mapping[str, Callable[[], serializers.Field[Any, Any, Any, Any]]]] = (
        MappingProxyType({})
    )
    """Members that a subclass adds to its items, with their fields for the schema."""

    is_search: ClassVar[bool] = False

    schema = ResourceSchema()

    def get(self, request: Request, id: str | None = None) -> HttpResponse:
        if id is not None:
            return self._item(request, id)
        return self._list(request, request.query_params)

    def _list(self, request: Request, parameters: Mapping[str, str]) -> HttpResponse:
        rows, next_cursor = self._page(parameters)
        items = self._items(request, rows)
        if self.patient is not None:
            keys = [item["id"] for item in items]
            record_list(
                request._request,
                self.name(),
                keys,
                self.patients_of(items),
                searched=self.is_search,
            )
        return _json({"results": items, "next": next_cursor})

    def patients_of(self, items: Iterable[dict[str, Any]]) -> Iterable[UUID | None]:
        return (item[self.patient or ""] for item in items)

    @classmethod
    def name(cls) -> str:
        return str(cls.model._meta.verbose_name)

    @classmethod
    def sources(cls) -> tuple[str, ...]:
        """Return the columns to read for an item: the primary key, then those shown."""
        envelope_columns = ("record", "as_of", "missing_since") if cls.mirrored else ()
        return ("pk", *cls.columns, *envelope_columns)

    def _item(self, request: Request, id: str) -> HttpResponse:
        rows = list(self._rows().filter(self._identified(id))[:1])
        if not rows:
            raise Http404
        items = self._items(request, rows)
        if self.patient is not None:
            record_view(request._request, self.name(), [id], self.patients_of(items))
        return _json(items[0])

    def _rows(self) -> QuerySet[Any, tuple[Any, ...]]:
        return self.model._default_manager.order_by("pk").values_list(*self.sources())

    def _identified(self, id: str) -> Q:
        names = self.key or (self.model._meta.pk.attname,)
        parts = id.split(":", len(names) - 1)
        if len(parts) != len(names) or "\x00" in id:
            raise Http404
        condition = Q()
        for name, part in zip(names, parts, strict=True):
            try:
                value = column(self.model, name).to_python(part)
            except DjangoValidationError as error:
                raise Http404 from error
            condition &= Q(**{name: value})
        return condition

    def _page(self, parameters: Mapping[str, str]) -> tuple[list[tuple[Any, ...]], str | None]:
        names = {"limit", "cursor"} | {item.name for item in self.filters}
        for name in parameters:
            if name not in names:
                raise bad_request(
                    "There is no parameter of that name here. These are known:"
                    f" {', '.join(sorted(names))}."
                )
        limit = _limit(parameters.get("limit"))
        rows = self._rows()
        for item in self.filters:
            if (raw := parameters.get(item.name)) is not None:
                rows = rows.filter(item.parse(raw))
        if cursor := parameters.get("cursor"):
            rows = rows.filter(pk__gt=self._after(cursor))
        page = list(rows[: limit + 1])
        if len(page) <= limit:
            return page, None
        return page[:limit], self._cursor(page[limit - 1][0])

    def _cursor(self, last: object) -> str:
        text = json.dumps([self.model._meta.label_lower, str(last)], separators=(",", ":"))
        return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")

    def _after(self, cursor: str) -> object:
        try:
            padded = cursor.encode("ascii") + b"=" * (-len(cursor) % 4)
            label, last = json.loads(base64.b64decode(padded, altchars=b"-_", validate=True))
            if label != self.model._meta.label_lower or not isinstance(last, str):
                raise ValueError(label)
            if not is_storable(last):
                raise ValueError("no text")
            return self.model._meta.pk.to_python(last)
        except _UNREADABLE as error:
            raise bad_request(
                "This cursor is not one that this list has given; start again without it."
            ) from error

    def _items(self, request: Request, rows: Sequence[tuple[Any, ...]]) -> list[dict[str, Any]]:
        shows_record = isinstance(request.user, User) and may(request.user, "records.view")
        names = self.sources()[1:]
        hidden = [name for name, needed in self.guarded.items() if not may(request.user, needed)]
        items = []
        for row in rows:
            item = {"id": row[0], **dict(zip(names, row[1:], strict=True))}
            item.update(dict.fromkeys(hidden))
            if self.key:
                item["id"] = ":".join(str(item[name]) for name in self.key)
            if self.mirrored:
                item["record"] = _as_received(item["record"]) if shows_record else None
            items.append(item)
        keys = [row[0] for row in rows]
        for child in self.children:
            children_by_key = _children(child, keys, shows_record)
            for key, item in zip(keys, items, strict=True):
                item[child.name] = children_by_key.get(key, [] if child.many else None)
        return items


class Search(Resource):
    """A search by POST, because words about people must not be in a URL.

    The body is a JSON object with the query parameters of the list, all of them text. `search` is
    required. A subclass also inherits from the resource that it searches.
    """

    http_method_names = ["post"]
    is_search = True

    def post(self, request: Request) -> HttpResponse:
        body = request.data
        if not isinstance(body, dict) or not all(
            isinstance(value, str) and is_storable(value) for value in body.values()
        ):
            raise bad_request("The body must be a JSON object, and its values text.")
        if not body.get("search"):
            raise bad_request("search is missing.")
        return self._list(request, body)


def routes(name: str, resource: type[Resource]) -> list[URLPattern]:
    """Return the two URLs of a resource: its list and its items."""
    view = resource.as_view()
    return [
        path(f"{name}/", view, name=f"api-{name}"),
        path(f"{name}/<path:id>/", view, name=f"api-{name}-one"),
    ]


def _limit(raw: str | None) -> int:
    if raw is None:
        return LIMIT_DEFAULT
    if not (raw.isascii() and raw.isdigit() and len(raw) <= 6 and 1 <= int(raw) <= LIMIT_MAX):
        raise bad_request(f"limit must be a whole number from 1 to {LIMIT_MAX}.")
    return int(raw)


def _children(child: ChildRows, keys: list[object], shows_record: bool) -> dict[object, Any]:
    envelope_columns = ("record", "as_of", "missing_since") if child.record else ()
    names = (*child.columns, *envelope_columns)
    rows = (
        child.model._default_manager.filter(**{f"{child.parent}__in": keys})
        .order_by(*child.order)
        .values_list(child.parent, *names)
    )
    values_by_key: dict[object, Any] = {}
    for key, *values in rows:
        if len(names) == 1:
            value = values[0]
        else:
            value = dict(zip(names, values, strict=True))
            if child.record:
                value["record"] = _as_received(value["record"]) if shows_record else None
        if child.many:
            values_by_key.setdefault(key, []).append(value)
        else:
            values_by_key[key] = value
    return values_by_key


def _as_received(record: str) -> orjson.Fragment:
    return orjson.Fragment(record)


def _json(body: object) -> HttpResponse:
    text = orjson.dumps(body, option=orjson.OPT_UTC_Z)
    return HttpResponse(text, content_type="application/json")
