"""Answers: JSON by orjson, PDF in small chunks."""

from __future__ import annotations

from collections.abc import Iterator

import orjson
from django.http import HttpResponse, StreamingHttpResponse

JSON = "application/json"
PDF = "application/pdf"

_CHUNK_BYTES = 4096


def json_response(value: object, status: int = 200) -> HttpResponse:
    """`value` as JSON; times as ISO 8601 with offset, uuids as text."""
    return json_bytes_response(orjson.dumps(value), status)


def json_bytes_response(body: bytes, status: int = 200) -> HttpResponse:
    """A body that is JSON already; with its length, so that a cut one shows."""
    answer = HttpResponse(body, content_type=JSON, status=status)
    answer["Content-Length"] = str(len(body))
    return answer


def error_response(status: int, detail: object) -> HttpResponse:
    """The error body every refusal shares: `{"detail": ...}`."""
    return json_response({"detail": detail}, status)


def pdf_response(document: bytes, filename: str) -> StreamingHttpResponse:
    """A document, streamed."""

    def chunks() -> Iterator[bytes]:
        for start in range(0, len(document), _CHUNK_BYTES):
            yield document[start : start + _CHUNK_BYTES]

    answer = StreamingHttpResponse(chunks(), content_type=PDF)
    answer["Content-Disposition"] = f'inline; filename="{filename}"'
    return answer
