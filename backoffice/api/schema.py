"""The OpenAPI document of the JSON API, derived from the declarations of each resource."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any, cast
from uuid import UUID

from django.contrib.postgres.fields import ArrayField
from django.db import models
from drf_spectacular.extensions import OpenApiAuthenticationExtension
from drf_spectacular.openapi import AutoSchema
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import (
    OpenApiExample,
    OpenApiParameter,
    OpenApiResponse,
    inline_serializer,
)
from rest_framework import serializers

if TYPE_CHECKING:
    from backoffice.api.resources import ChildRows, Resource

    ModelField = models.Field[Any, Any]
    SerializerField = serializers.Field[Any, Any, Any, Any]
    SerializerFields = dict[str, SerializerField]

_KINDS: dict[type, OpenApiTypes] = {
    str: OpenApiTypes.STR,
    UUID: OpenApiTypes.UUID,
    int: OpenApiTypes.INT,
    datetime: OpenApiTypes.DATETIME,
}

_FIELDS: tuple[tuple[type[ModelField], type[SerializerField]], ...] = (
    (models.UUIDField, serializers.UUIDField),
    (models.DateTimeField, serializers.DateTimeField),
    (models.DateField, serializers.DateField),
    (models.BooleanField, serializers.BooleanField),
    (models.FloatField, serializers.FloatField),
    (models.IntegerField, serializers.IntegerField),
    (models.JSONField, serializers.JSONField),
    (models.CharField, serializers.CharField),
    (models.TextField, serializers.CharField),
)


_ITEMS: dict[type[Resource], type[serializers.Serializer[Any]]] = {}


class ErrorBody(serializers.Serializer[Any]):
    """The body of every error of the API."""

    code = serializers.CharField()
    message = serializers.CharField()
    request_id = serializers.CharField(allow_blank=True)


_REFUSALS: dict[int, tuple[str, str]] = {
    400: ("A parameter makes no sense", "limit must be a whole number from 1 to 1000."),
    401: ("Nobody is logged in, or the token is no good", "This token is not known."),
    403: (
        "The roles of the account, or the scopes of the token, do not allow it",
        "Your roles must allow you to see result values. This token lacks results.view.",
    ),
    404: ("No such record", "There is no such record."),
    429: ("Too many requests; see Retry-After", "Too many requests. Go on in 12 seconds."),
    503: (
        "The access log cannot be written, so nothing is shown",
        "This cannot be shown now because the access log cannot be written.",
    ),
}
_CODES: dict[int, str] = {
    400: "bad_request",
    401: "authentication_failed",
    403: "permission_denied",
    404: "not_found",
    429: "throttled",
    503: "audit_unavailable",
}


def _example(status: int) -> OpenApiExample:
    body = {"code": _CODES[status], "message": _REFUSALS[status][1], "request_id": "0" * 32}
    return OpenApiExample(str(status), body, response_only=True, status_codes=[str(status)])


class TokenScheme(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]
    target_class = "backoffice.api.base.TokenAuthentication"
    name = "token"

    def get_security_definition(self, auto_schema: AutoSchema) -> dict[str, str]:
        return {
            "type": "apiKey",
            "in": "header",
            "name": "Authorization",
            "description": "`Token <token>`; made at System > API tokens, or by "
            "`manage.py createtoken NAME`.",
        }


class ResourceSchema(AutoSchema):
    """The two operations of a `Resource`, or the single operation of a `Search`."""

    @property
    def _resource(self) -> type[Resource]:
        return cast("type[Resource]", type(self.view))

    def get_operation_id(self) -> str:
        if self._resource.is_search:
            return f"{self._plural()}_search"
        return f"{self._plural()}_{'get' if self._is_item() else 'list'}"

    def get_tags(self) -> list[str]:
        return [self._plural().replace("_", "-")]

    def get_override_parameters(self) -> list[Any]:
        if self._is_item():
            kind = OpenApiTypes.STR if self._resource.key else self._key_type()
            return [OpenApiParameter("id", kind, OpenApiParameter.PATH)]
        if self._resource.is_search:
            return []
        return [
            OpenApiParameter(
                "limit", {"type": "integer", "minimum": 1, "maximum": 1000, "default": 100}
            ),
            OpenApiParameter("cursor", str, description="`next` of the page before"),
            *(
                OpenApiParameter(item.name, _KINDS[item.kind], description=item.help)
                for item in self._resource.filters
            ),
        ]

    def get_request_serializer(self) -> Any:
        if not self._resource.is_search:
            return None
        fields: SerializerFields = {
            "limit": serializers.RegexField(
                "^([1-9][0-9]{0,2}|1000)$", required=False, help_text="1 to 1000, 100 by default"
            ),
            "cursor": serializers.CharField(
                required=False, allow_blank=True, help_text="`next` of the page before"
            ),
        }
        for item in self._resource.filters:
            fields[item.name] = serializers.CharField(help_text=item.help)
        return inline_serializer(self._resource.__name__, fields)

    def get_response_serializers(self) -> Any:
        name = self._resource.__name__
        item = item_serializer(self._resource)
        if self._is_item():
            shape: Any = item(help_text=self._resource.__doc__ or "")
        else:
            shape = inline_serializer(
                f"{name}Page",
                {
                    "results": item(many=True),
                    "next": serializers.CharField(
                        allow_null=True, help_text="Cursor of the next page; null at the end"
                    ),
                },
            )
        error_status = 404 if self._is_item() else 400
        refusals = {
            status: OpenApiResponse(ErrorBody, words, examples=[_example(status)])
            for status, (words, _) in _REFUSALS.items()
            if status in (error_status, 401, 403, 429, 503)
        }
        return {200: shape, **refusals}

    def _is_item(self) -> bool:
        return "{id}" in self.path

    def _plural(self) -> str:
        path = self.path.strip("/").removesuffix("/{id}").removesuffix("/search")
        return path.rpartition("/")[2].replace("-", "_")

    def _key_type(self) -> OpenApiTypes | type[int]:
        pk = self._resource.model._meta.pk
        while isinstance(pk, models.ForeignKey):
            pk = pk.target_field
        for kind, key_type in ((models.UUIDField, OpenApiTypes.UUID), (models.IntegerField, int)):
            if isinstance(pk, kind):
                return key_type
        return OpenApiTypes.STR


def item_serializer(resource: type[Resource]) -> type[serializers.Serializer[Any]]:
    """Return a serializer class that describes one item. It never serializes anything."""
    # Return the same class each time: a second class of the same name would be a second component.
    if resource in _ITEMS:
        return _ITEMS[resource]
    pk = resource.model._meta.pk
    key = serializers.CharField() if resource.key else _serializer_field(pk)
    fields: SerializerFields = {"id": key}
    fields |= _columns(resource.model, resource.columns)
    if resource.mirrored:
        fields |= _envelope()
    fields |= {name: describe() for name, describe in resource.added.items()}
    for child in resource.children:
        fields[child.name] = _child(resource, child)
    serializer = type(f"{resource.__name__}Item", (serializers.Serializer,), fields)
    return _ITEMS.setdefault(resource, serializer)


def _child(resource: type[Resource], child: ChildRows) -> Any:
    if len(child.columns) == 1 and not child.record:
        value = _serializer_field(column(child.model, child.columns[0]), nullable=not child.many)
        return serializers.ListField(child=value) if child.many else value
    fields = _columns(child.model, child.columns)
    if child.record:
        fields |= _envelope()
    shape = type(f"{resource.__name__}{child.model.__name__}", (serializers.Serializer,), fields)
    return shape(many=True) if child.many else shape(allow_null=True)


def _envelope() -> SerializerFields:
    return {
        "record": serializers.DictField(
            allow_null=True, help_text="As received; null without the permission to see records"
        ),
        "as_of": serializers.DateTimeField(help_text="When this version was asked for"),
        "missing_since": serializers.DateTimeField(
            allow_null=True, help_text="When the service was found to no longer have it"
        ),
    }


def _columns(model: type[models.Model], names: tuple[str, ...]) -> SerializerFields:
    return {name: _serializer_field(column(model, name)) for name in names}


def column(model: type[models.Model], name: str) -> ModelField:
    for field in model._meta.concrete_fields:
        if name in (field.name, field.attname):
            return field
    raise LookupError(f"{model.__name__} has no column {name}")


def _serializer_field(field: ModelField, nullable: bool = False) -> SerializerField:
    """Return the serializer field of a column: type, help text, and whether it may be null."""
    options: dict[str, Any] = {"allow_null": field.null or nullable}
    if help_text := str(field.help_text):
        options["help_text"] = help_text
    while isinstance(field, models.ForeignKey):
        field = field.target_field
    if isinstance(field, ArrayField):
        return serializers.ListField(child=_serializer_field(field.base_field), **options)
    for column, kind in _FIELDS:
        if isinstance(field, column):
            return kind(**options)
    raise LookupError(f"no API type for {field}")
