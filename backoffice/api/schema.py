"""The OpenAPI document of the JSON API, as far as drf-spectacular cannot read it from the views."""

from __future__ import annotations

from typing import Any

from django.forms import MultipleChoiceField
from drf_spectacular.contrib.django_filters import DjangoFilterExtension
from drf_spectacular.extensions import OpenApiAuthenticationExtension
from drf_spectacular.openapi import AutoSchema
from drf_spectacular.utils import OpenApiExample, OpenApiParameter, OpenApiResponse
from rest_framework import serializers


class ErrorBody(serializers.Serializer[Any]):
    """The body of every error of the API."""

    code = serializers.CharField()
    message = serializers.CharField()
    request_id = serializers.CharField(allow_blank=True)


_REFUSALS: dict[int, tuple[str, str]] = {
    400: ("A parameter makes no sense", "limit must be a whole number from 1 to 1000."),
    401: ("Nobody is signed in, or the token is no good", "This token is not known."),
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


class FilterBackendSchema(DjangoFilterExtension):
    """The parameters of filter sets: those with several values are arrays, one parameter each."""

    target_class = "backoffice.api.filters.StrictFilterBackend"
    priority = 1

    def resolve_filter_field(
        self, auto_schema: AutoSchema, model: Any, filterset_class: Any, name: str, one: Any
    ) -> list[dict[str, Any]]:
        parameters: list[dict[str, Any]] = super().resolve_filter_field(  # type: ignore[no-untyped-call]
            auto_schema, model, filterset_class, name, one
        )
        if isinstance(one.field, MultipleChoiceField):
            for parameter in parameters:
                parameter["schema"] = {"type": "array", "items": parameter["schema"]}
                parameter.update(explode=True, style="form")
        return parameters


class ResourceSchema(AutoSchema):
    """Operations such as `orders_list` and `orders_get`, with the errors that they answer."""

    def get_operation_id(self) -> str:
        return f"{self._resource()}_{'get' if self._is_item() else self._viewset.action}"

    def get_tags(self) -> list[str]:
        return [self._resource().replace("_", "-")]

    def get_override_parameters(self) -> list[Any]:
        if not self._is_item():
            return []
        key = self._viewset.get_serializer().fields["id"]
        schema = self._map_serializer_field(key, "response")  # type: ignore[no-untyped-call]
        schema = {name: schema[name] for name in ("type", "format") if name in schema}
        return [OpenApiParameter("id", schema, OpenApiParameter.PATH)]

    def get_response_serializers(self) -> Any:
        error_status = 404 if self._is_item() else 400
        refusals = {
            status: OpenApiResponse(ErrorBody, words, examples=[_example(status)])
            for status, (words, _) in _REFUSALS.items()
            if status in (error_status, 401, 403, 429, 503)
        }
        return {200: self._viewset.get_serializer(many=not self._is_item()), **refusals}

    def get_serializer_name(self, serializer: Any, direction: Any) -> str:
        if isinstance(serializer, self._viewset.serializer_class):
            return f"{self._resource().title().replace('_', '')}Item"
        return str(super().get_serializer_name(serializer, direction))

    def get_paginated_name(self, serializer_name: str) -> str:
        return f"{serializer_name.removesuffix('Item')}Page"

    @property
    def _viewset(self) -> Any:
        return self.view

    def _resource(self) -> str:
        return str(self._viewset.basename.removeprefix("api-").replace("-", "_"))

    def _is_item(self) -> bool:
        return bool(self._viewset.action == "retrieve")
