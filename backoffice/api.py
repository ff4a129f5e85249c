"""The JSON API: what every resource under `/api/` shares.

A resource is one class that names its model, columns, children and filters; it answers
`GET /api/<resource>/?limit=&cursor=` with `{"results": [...], "next": cursor or null}` and
`GET /api/<resource>/<id>/` with one item. Each item carries

- `id`: the service's id; a record without one has its natural key, joined by ":";
- the promoted columns under the service's names (nested names joined by "_"); a column the
  reader's roles do not show is null;
- `as_of`: when this version was asked for; `missing_since`: when the service was found to no
  longer have it; `superseded_at`, where the service shows only the latest: when it was replaced;
- `record`: the record byte for byte as received, null for readers without `records.view`.

Lists are ordered by the primary key and paged by it: nothing is counted or skipped, and a row
that exists during the whole walk is met exactly once. Errors are `{code, message, request_id}`.
"""

from __future__ import annotations

import base64
import binascii
import json
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from types import MappingProxyType
from typing import Any, ClassVar, Final, NoReturn, cast
from uuid import UUID

import orjson
from django.core.exceptions import PermissionDenied as DjangoPermissionDenied
from django.core.exceptions import ValidationError as DjangoValidationError
from django.db import models
from django.db.models import Q, QuerySet
from django.http import Http404, HttpRequest, HttpResponse
from django.urls import URLPattern, path
from redis.exceptions import RedisError
from rest_framework import exceptions, serializers
from rest_framework.authentication import (
    BaseAuthentication,
    SessionAuthentication,
    get_authorization_header,
)
from rest_framework.parsers import JSONParser
from rest_framework.renderers import JSONRenderer
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.throttling import UserRateThrottle
from rest_framework.views import APIView, exception_handler

from backoffice import audit
from backoffice.access import PERMISSIONS, DeclaredPermission, declaration, may
from backoffice.api_schema import ResourceSchema, column
from backoffice.models import ApiToken, User
from backoffice.requests import id_of

LIMIT_DEFAULT: Final = 100
LIMIT_MAX: Final = 1000
_UNREADABLE: Final = (
    ValueError,
    TypeError,
    RecursionError,
    binascii.Error,
    DjangoValidationError,
)
"""What a cursor that was made up can cause."""
_TOKEN_NOTED_EVERY: Final = timedelta(minutes=1)

logger = logging.getLogger(__name__)


# Who asks


class TokenAuthentication(BaseAuthentication):
    """`Authorization: Token <token>`, looked up by the SHA-256 digest of the token."""

    def authenticate(self, request: Request) -> tuple[User, ApiToken] | None:
        scheme, _, token = get_authorization_header(request).decode("latin-1").partition(" ")
        if scheme.lower() != "token":
            return None
        found = (
            ApiToken.objects.select_related("user")
            .filter(digest=ApiToken.digest_of(token.strip()), user__is_active=True)
            .first()
        )
        if found is None:
            raise exceptions.AuthenticationFailed("This token is not known or no longer valid.")
        now = datetime.now(UTC)
        if found.last_used_at is None or now - found.last_used_at > _TOKEN_NOTED_EVERY:
            ApiToken.objects.filter(pk=found.pk).update(last_used_at=now)
        return found.user, found

    def authenticate_header(self, request: Request) -> str:
        return 'Token realm="api"'


class ReadRate(UserRateThrottle):
    """Keeps one runaway script from starving staff; without Redis nobody is held back."""

    scope = "api"
    rate = "6000/min"

    def allow_request(self, request: Request, view: APIView) -> bool:
        try:
            return super().allow_request(request, view)
        except (RedisError, OSError):
            return True


# Errors


def error_body(code: str, message: str, request: Request | HttpRequest) -> dict[str, str]:
    return {"code": code, "message": message, "request_id": id_of(request)}


def error_response(exc: Exception, context: dict[str, Any]) -> Response | None:
    """DRF exception handler: every error is `{code, message, request_id}`."""
    request: Request = context["request"]
    if isinstance(exc, Http404):
        exc = exceptions.NotFound("There is no such record.")
    elif isinstance(exc, DjangoPermissionDenied):
        exc = exceptions.PermissionDenied()
    response = exception_handler(exc, context)
    if response is None:
        logger.error("unexpected error in %s", type(context["view"]).__name__, exc_info=exc)
        body = error_body("error", "The back office could not answer this request.", request)
        return Response(body, status=500)
    code, message = "error", str(exc)
    if isinstance(exc, exceptions.APIException) and isinstance(exc.detail, exceptions.ErrorDetail):
        code, message = exc.detail.code or code, str(exc.detail)
    response.data = error_body(code, message, request)
    return response


def bad_request(message: str) -> exceptions.ParseError:
    return exceptions.ParseError(message, code="bad_request")


# Resources


@dataclass(frozen=True, slots=True)
class Child:
    """What belongs to an item, read by one query for the whole page.

    A child of one column is that column's value, of several an object of them. `many` makes a
    list of it, in the order of `order`; without it the value is null where there is no row.
    `record` adds the envelope of a mirrored record.
    """

    name: str
    model: type[models.Model]
    parent: str
    columns: tuple[str, ...]
    order: tuple[str, ...] = ()
    many: bool = True
    record: bool = False


@dataclass(frozen=True, slots=True)
class Filter:
    """One query parameter and the condition it stands for."""

    name: str
    kind: type[str | UUID | int]
    column: str
    help: str

    def parse(self, raw: str) -> Q:
        return Q(**{self.column: self._value(raw)})

    def _value(self, raw: str) -> object:
        try:
            if self.kind is str and "\x00" in raw:
                raise ValueError(raw)
            return cast(Callable[[str], object], self.kind)(raw)
        except ValueError as error:
            raise bad_request(f"{self.name} must be {_KIND_WORDS[self.kind]}.") from error


_KIND_WORDS: Final[dict[type, str]] = {
    str: "text",
    UUID: "a UUID",
    int: "a whole number",
}


def exactly(name: str, kind: type[str | UUID | int], help: str, column: str = "") -> Filter:
    return Filter(name, kind, column or name, help)


class Resource(APIView):
    """One resource of the API; subclasses are data."""

    model: ClassVar[type[models.Model]]
    columns: ClassVar[tuple[str, ...]]
    children: ClassVar[tuple[Child, ...]] = ()
    filters: ClassVar[tuple[Filter, ...]] = ()
    key: ClassVar[tuple[str, ...]] = ()
    """Columns of the natural key where the service gives no id."""
    patient: ClassVar[str | None] = None
    """Item member that names the patient; a page of such a resource is recorded."""
    guarded: ClassVar[Mapping[str, str]] = MappingProxyType({})
    """Columns that need a permission of their own, which is its value; null without it."""
    mirrored: ClassVar[bool] = True
    added: ClassVar[Mapping[str, Callable[[], serializers.Field[Any, Any, Any, Any]]]] = (
        MappingProxyType({})
    )
    """Members that a subclass adds to its items, as the schema describes them."""

    authentication_classes = (TokenAuthentication, SessionAuthentication)
    permission_classes = (DeclaredPermission,)
    throttle_classes = (ReadRate,)
    renderer_classes = (JSONRenderer,)
    parser_classes = (JSONParser,)
    http_method_names = ["get", "head"]  # noqa: RUF012
    schema = ResourceSchema()

    def get(self, request: Request, id: str | None = None) -> HttpResponse:
        if id is not None:
            return self._one(request, id)
        rows, following = self._page(request)
        items = self._items(request, rows)
        if self.patient is not None:
            keys = [item["id"] for item in items]
            audit.listed(request._request, self.name(), keys, self.patients_of(items))
        return _json({"results": items, "next": following})

    def patients_of(self, items: Iterable[dict[str, Any]]) -> Iterable[UUID | None]:
        return (item[self.patient or ""] for item in items)

    @classmethod
    def name(cls) -> str:
        return str(cls.model._meta.verbose_name)

    @classmethod
    def sources(cls) -> tuple[str, ...]:
        """Columns read for an item: the primary key first, then those shown."""
        own = ("record", "as_of", "missing_since") if cls.mirrored else ()
        return ("pk", *cls.columns, *own)

    def _one(self, request: Request, id: str) -> HttpResponse:
        rows = list(self._rows().filter(self._identified(id))[:1])
        if not rows:
            raise Http404
        items = self._items(request, rows)
        if self.patient is not None:
            audit.viewed(request._request, self.name(), [id], self.patients_of(items))
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

    def _page(self, request: Request) -> tuple[list[tuple[Any, ...]], str | None]:
        asked = request.query_params
        known = {"limit", "cursor"} | {each.name for each in self.filters}
        for name in asked:
            if name not in known:
                raise bad_request(
                    f"There is no parameter of that name here; known are {sorted(known)}."
                )
        limit = _limit(asked.get("limit"))
        rows = self._rows()
        for each in self.filters:
            if (raw := asked.get(each.name)) is not None:
                rows = rows.filter(each.parse(raw))
        if cursor := asked.get("cursor"):
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
            if label != self.model._meta.label_lower or not isinstance(last, str) or "\x00" in last:
                raise ValueError(label)
            last.encode()  # half a surrogate pair is no text
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
            found = _children(child, keys, shows_record)
            for key, item in zip(keys, items, strict=True):
                item[child.name] = found.get(key, [] if child.many else None)
        return items

    # DRF's hooks

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        if (request.method or "").lower() not in self.http_method_names:
            raise exceptions.MethodNotAllowed(request.method or "")
        super().initial(request, *args, **kwargs)

    def permission_denied(
        self, request: Request, message: str | None = None, code: str | None = None
    ) -> NoReturn:
        if request.authenticators and not request.successful_authenticator:
            raise exceptions.NotAuthenticated("Log in, or send a token: Authorization: Token ...")
        needed = ("api.read", *(declaration(type(self)) or ()))
        allowed = " and to ".join(PERMISSIONS[name] for name in needed)
        raise exceptions.PermissionDenied(f"Your roles must allow you to {allowed}.")

    def get_exception_handler(self) -> Callable[..., Response | None]:
        return error_response

    def finalize_response(self, request: Request, response: Any, *args: Any, **kwargs: Any) -> Any:
        response = super().finalize_response(request, response, *args, **kwargs)
        response.headers["Cache-Control"] = "no-store, private"
        return response


def routes(name: str, resource: type[Resource]) -> list[URLPattern]:
    """The two addresses of a resource."""
    view = resource.as_view()
    return [
        path(f"{name}/", view, name=f"api-{name}"),
        path(f"{name}/<path:id>/", view, name=f"api-{name}-one"),
    ]


def _limit(raw: str | None) -> int:
    if raw is None:
        return LIMIT_DEFAULT
    if not (raw.isascii() and raw.isdigit() and 1 <= int(raw[:6]) <= LIMIT_MAX):
        raise bad_request(f"limit must be a whole number from 1 to {LIMIT_MAX}.")
    return int(raw)


def _children(child: Child, keys: list[Any], shows_record: bool) -> dict[Any, Any]:
    own = ("record", "as_of", "missing_since") if child.record else ()
    names = (*child.columns, *own)
    rows = (
        child.model._default_manager.filter(**{f"{child.parent}__in": keys})
        .order_by(*child.order)
        .values_list(child.parent, *names)
    )
    found: dict[Any, Any] = {}
    for key, *values in rows:
        if len(names) == 1:
            value = values[0]
        else:
            value = dict(zip(names, values, strict=True))
            if child.record:
                value["record"] = _as_received(value["record"]) if shows_record else None
        if child.many:
            found.setdefault(key, []).append(value)
        else:
            found[key] = value
    return found


def _as_received(record: str) -> orjson.Fragment:
    return orjson.Fragment(record)


def _json(body: object) -> HttpResponse:
    text = orjson.dumps(body, option=orjson.OPT_UTC_Z)
    return HttpResponse(text, content_type="application/json")
