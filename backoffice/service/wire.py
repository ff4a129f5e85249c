"""Encoding of request values, and parsing of headers and error texts of answers."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, date, datetime
from email.utils import parsedate_to_datetime
from typing import NamedTuple, TypeAlias
from urllib.parse import quote
from uuid import UUID

import httpx
import msgspec

from backoffice.service import errors
from backoffice.service.json_text import JsonObject

QueryValue: TypeAlias = str | float | UUID | date | None
"""A value of a query (`float` includes `int` and `bool`, `date` includes `datetime`)."""
Query: TypeAlias = Mapping[str, QueryValue | Sequence[QueryValue]]
Pairs: TypeAlias = list[tuple[str, str | int | float | bool | None]]

MESSAGE_CHARS = 500
"""The most characters stored of an error message of the service."""

_ECHOES = frozenset(("input", "ctx", "loc", "type", "url", "traceback", "user_id"))
"""Parts of an error body that staff must not see, because they may echo personal data."""


class ParsedError(NamedTuple):
    """The text of an error body.

    ``existing`` is the id of the record that conflicts with a new one.
    """

    message: str = ""
    fields: tuple[errors.FieldError, ...] = ()
    existing: UUID | None = None


def parse_error_body(body: bytes) -> ParsedError:
    """Parse an error body in any documented shape; otherwise return all text in it."""
    try:
        sent = msgspec.json.decode(body)
    except (ValueError, RecursionError):
        return ParsedError(_clean(re.sub(r"<[^<>]*>", " ", body.decode(errors="replace"))))
    documented = _documented_body(sent.get("detail", sent) if isinstance(sent, dict) else sent)
    return (
        documented
        if documented.message or documented.fields
        else ParsedError(_clean(" ".join(_texts(sent))))
    )


def _documented_body(detail: object) -> ParsedError:
    if isinstance(detail, list):
        fields = tuple(field for field in map(_field, detail) if field is not None)
        rest = [entry for entry in detail if _field(entry) is None]
        return ParsedError(_clean(" ".join(_texts(rest))), fields)
    if isinstance(detail, dict):
        for name in ("error_message", "message", "error"):
            if isinstance(detail.get(name), str) and (message := _clean(detail[name])):
                return ParsedError(message, (), _existing(detail))
    return ParsedError(_clean(detail) if isinstance(detail, str) else "")


def _field(entry: object) -> errors.FieldError | None:
    if not isinstance(entry, dict) or not isinstance(entry.get("msg"), str):
        return None
    loc = tuple(str(part) for part in _as_sequence(entry.get("loc")))
    return errors.FieldError(loc, _clean(entry["msg"]))


def _existing(detail: JsonObject) -> UUID | None:
    """Return the id of the user who already has the reference (users, chapter 2)."""
    try:
        return UUID(detail["user_id"]) if "error_type" in detail else None
    except (KeyError, ValueError, TypeError, AttributeError):
        return None


def _texts(value: object, depth: int = 0) -> Iterator[str]:
    """Yield all texts of a value in order, without echoes and without deeply nested values."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, (list, dict)) and depth < 20:
        if isinstance(value, dict):
            value = [item for name, item in value.items() if name not in _ECHOES]
        for item in value:
            yield from _texts(item, depth + 1)


def _as_sequence(value: object) -> Sequence[object]:
    return value if isinstance(value, list) else [value] if isinstance(value, (str, int)) else []


def _clean(text: str) -> str:
    """Return printable text on one line, cut to `MESSAGE_CHARS`."""
    plain = "".join(c if c.isprintable() else " " for c in text)
    return " ".join(plain.split())[:MESSAGE_CHARS]


def backoff(attempt: int) -> float:
    """Return the wait in seconds before the next attempt.

    It starts at 0.25 s and doubles up to 4 s. Half of it is random, so that clients spread out.
    """
    return min(0.25 * 2.0 ** (attempt - 1), 4.0) * random.uniform(0.5, 1.0)  # noqa: S311


def retry_after(response: httpx.Response, now: datetime) -> float | None:
    """Return the wait in seconds that the service asked for; None without a valid header."""
    try:
        wait = float(response.headers["retry-after-ms"]) / 1000
    except (KeyError, ValueError):
        header = response.headers.get("retry-after", "").strip()
        try:
            wait = float(header)
        except ValueError:
            moment = http_date(header)
            if moment is None:
                return None
            # Compare with the clock of the service when it is sent, because ours may be wrong.
            wait = max(
                0.0, (moment - (http_date(response.headers.get("date")) or now)).total_seconds()
            )
    return wait if 0 <= wait < float("inf") else None


def http_date(text: str | None) -> datetime | None:
    """Return an HTTP date in aware UTC."""
    if not text:
        return None
    try:
        moment = parsedate_to_datetime(text)
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)


def content_type(response: httpx.Response) -> str:
    sent: str = response.headers.get("content-type", "")
    return sent.partition(";")[0].strip().lower()


def request_id(response: httpx.Response) -> str:
    sent: str = response.headers.get("x-request-id", "")
    return sent if re.fullmatch(r"[A-Za-z0-9._:-]{1,128}", sent) else ""


def is_utf8(body: bytes) -> bool:
    if body.isascii():
        return True
    try:
        body.decode()
    except UnicodeDecodeError:
        return False
    return True


def slash_redirect_target(url: httpx.URL, location: str) -> str | None:
    """Return the URL with or without its final slash, if the redirect changes nothing else."""
    try:
        target = url.join(location)
    except (httpx.InvalidURL, ValueError):
        return None
    same_place = (url.scheme, url.host, url.port) == (target.scheme, target.host, target.port)
    same_path = url.path.rstrip("/") == target.path.rstrip("/") and url.path != target.path
    if not (location and same_place and same_path) or target.query not in (b"", url.query):
        return None
    if target.userinfo:
        return None
    plain = str(url.copy_with(query=None))
    return plain.rstrip("/") if plain.endswith("/") else plain + "/"


def fill_route(route: str, values: Mapping[str, object]) -> str:
    """Return the path of a route with its values escaped.

    The escapes keep a value from changing other parts of the path.
    """

    def put(match: re.Match[str]) -> str:
        value = str(values[match[1]])
        if not value:
            raise ValueError(f"empty path value {match[1]}")
        escaped = quote(value, safe="")
        return escaped if escaped.strip(".") else escaped.replace(".", "%2E")

    return re.sub(r"\{(\w+)\}", put, route)


def query_pairs(query: Query) -> Pairs:
    pairs: Pairs = []
    for name, value in query.items():
        if value is None or isinstance(value, (str, float, int, UUID, date)):
            value = [value]
        pairs += [(name, _query_text(item)) for item in value if item is not None]
    return pairs


def _query_text(value: str | float | UUID | date | datetime) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, datetime):
        moment = value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)
        return moment.replace(tzinfo=None).isoformat() + "Z"
    if isinstance(value, date):
        return value.isoformat()
    return str(value)


def number(raw: msgspec.Raw) -> int | None:
    """Return a count sent as a number or as text; None when it is absent or neither."""
    try:
        return int(bytes(raw).strip(b'" '))
    except ValueError:
        return None


def word(raw: msgspec.Raw) -> str | None:
    try:
        value = msgspec.json.decode(raw)
    except ValueError:
        return None
    if isinstance(value, bool) or not isinstance(value, (str, int)):
        return None
    return str(value) or None
