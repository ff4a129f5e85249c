"""Pages of the JSON API: `limit`, and a `cursor` that names the last row of the page before."""

from __future__ import annotations

import base64
import binascii
import json
from typing import Any, Final

from django.core.exceptions import ValidationError
from django.db.models import QuerySet
from rest_framework.pagination import BasePagination
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from backoffice.api.errors import bad_request
from backoffice.api.filters import list_parameters
from backoffice.core.text import is_storable

_UNREADABLE: Final = (ValueError, TypeError, RecursionError, binascii.Error, ValidationError)
"""Exceptions that an invalid cursor can raise."""


class CursorPagination(BasePagination):
    """Pages in the order of the primary key. No page counts or skips rows.

    The cursor of DRF is a position in any order with an offset among equal rows, and it stands in a
    link. This one is only a key, so that a client that reads all pages gets every row that exists
    the whole time exactly once.
    """

    page_size = 100
    max_page_size = 1000
    next_cursor: str | None = None

    def paginate_queryset(
        self, queryset: Any, request: Request, view: APIView | None = None
    ) -> list[Any]:
        parameters = list_parameters(request)
        limit = self.get_limit(parameters.get("limit"))
        label = self.get_label(queryset)
        after = None
        if cursor := parameters.get("cursor"):
            try:
                after = self.parse_position(queryset, decode_cursor(label, cursor))
            except _UNREADABLE as error:
                raise bad_request(
                    "This cursor is not one that this list has given; start again without it."
                ) from error
        rows = self.read_rows(queryset, after, limit + 1)
        if len(rows) > limit:
            self.next_cursor = encode_cursor(label, self.get_position(rows[limit - 1]))
        return rows[:limit]

    def get_limit(self, raw: str | None) -> int:
        if raw is None:
            return self.page_size
        is_number = raw.isascii() and raw.isdigit() and len(raw) <= 6
        if not (is_number and 1 <= int(raw) <= self.max_page_size):
            raise bad_request(f"limit must be a whole number from 1 to {self.max_page_size}.")
        return int(raw)

    def get_label(self, queryset: QuerySet[Any]) -> str:
        """Return what cursors of this list begin with, so that other lists refuse them."""
        return str(queryset.model._meta.label_lower)

    def get_position(self, row: Any) -> str:
        return str(row.pk)

    def parse_position(self, queryset: QuerySet[Any], position: str) -> Any:
        """Return the position as `read_rows` takes it. Raises ValueError or ValidationError."""
        return queryset.model._meta.pk.to_python(position)

    def read_rows(self, queryset: QuerySet[Any], after: Any, count: int) -> list[Any]:
        """Return the first `count` rows after a position; None is the beginning."""
        rows = queryset.order_by("pk")
        return list((rows if after is None else rows.filter(pk__gt=after))[:count])

    def get_paginated_response(self, data: Any) -> Response:
        return Response({"results": data, "next": self.next_cursor})

    # For the OpenAPI document

    def get_paginated_response_schema(self, schema: dict[str, Any]) -> dict[str, Any]:
        cursor = {
            "type": "string",
            "nullable": True,
            "description": "Cursor of the next page; null at the end",
        }
        properties = {"results": schema, "next": cursor}
        return {"type": "object", "properties": properties, "required": ["next", "results"]}

    def get_schema_operation_parameters(self, view: Any) -> list[dict[str, Any]]:
        if view.action != "list":
            return []  # a search: they are in its body
        limit = {
            "type": "integer",
            "minimum": 1,
            "maximum": self.max_page_size,
            "default": self.page_size,
        }
        return [
            {"name": "limit", "in": "query", "schema": limit},
            {
                "name": "cursor",
                "in": "query",
                "schema": {"type": "string"},
                "description": "`next` of the page before",
            },
        ]


def encode_cursor(label: str, position: str) -> str:
    text = json.dumps([label, position], separators=(",", ":"))
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def decode_cursor(label: str, cursor: str) -> str:
    """Return the position in a cursor. Raises one of `_UNREADABLE`."""
    padded = cursor.encode("ascii") + b"=" * (-len(cursor) % 4)
    cursor_label, position = json.loads(base64.b64decode(padded, altchars=b"-_", validate=True))
    if cursor_label != label or not isinstance(position, str) or not is_storable(position):
        raise ValueError("not a cursor of this list")
    return position
