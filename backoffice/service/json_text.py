"""Repair of JSON text that a strict parser or PostgreSQL rejects, without decoding its values.

For an ordinary answer only `needs_replacing` runs. The other functions run for a body or record
that could not be decoded, or that contains characters to replace.
"""

from __future__ import annotations

import re
from typing import Any, Final, TypeAlias

JsonObject: TypeAlias = dict[str, Any]
"""A parsed JSON object. The specification names its keys, and values may have any type."""

DEEPEST: Final = 64
"""Levels of nesting that are read; the records of the interface have fewer than ten."""

REPLACEMENT: Final = "\N{REPLACEMENT CHARACTER}"
OVERRIDES: Final = ("\u202d".encode(), "\u202e".encode())
"""Direction overrides: they reverse the order in which the text after them is shown.

A value of 410 would look like 014.
"""
_REPLACED: Final = (
    (b"\\", (rb"\u0000", rb"\u202d", rb"\u202e", rb"\u202D", rb"\u202E")),
    (OVERRIDES[0][:1], OVERRIDES),
)
"""Sequences to replace, by their first byte.

JSON allows them, but stored text must not contain them. The first bytes are rare, and a search for
one byte is much faster.
"""

_ESCAPE: Final = re.compile(
    rb"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|\\u([0-9a-fA-F]{4})|\\.",
    re.DOTALL,
)
_CONTROL: Final = re.compile(rb"[\x00-\x1f]")
_TOKEN: Final = re.compile(rb'"(?:[^"\\]|\\.)*"|-?(?:Infinity|NaN)|[\[{]|[\]}]', re.DOTALL)


def needs_replacing(raw: bytes) -> bool:
    """Return whether the JSON may contain a NUL character or a direction override."""
    return any(first in raw and any(odd in raw for odd in odds) for first, odds in _REPLACED)


def replace_unstorable(raw: bytes) -> bytes:
    """Return the JSON with U+FFFD for characters that cannot be stored.

    These are NUL characters, half surrogate pairs, and direction overrides.
    """
    return _ESCAPE.sub(_storable_escape, _without_overrides(raw))


def make_decodable(body: bytes) -> bytes:
    """Return the JSON in a form that strict parsers accept.

    Invalid UTF-8, unescaped control characters, NUL, and half surrogate pairs become U+FFFD. `NaN`
    and `Infinity` become text, which fits no number. Values nested deeper than `DEEPEST` become the
    text "nested too deep".
    """
    text = _without_overrides(body.decode("utf-8", "replace").encode())
    parts: list[bytes] = []
    depth = place = 0
    cut = -1
    for token in _TOKEN.finditer(text):
        token_bytes = token[0]
        if token_bytes in (b"[", b"{"):
            depth += 1
            if depth == DEEPEST + 1 and cut < 0:
                parts.append(text[place : token.start()])
                cut = depth
        elif token_bytes in (b"]", b"}"):
            if depth == cut:
                parts.append(b'"nested too deep"')
                place, cut = token.end(), -1
            depth -= 1
        elif cut < 0:
            parts += [text[place : token.start()], _storable_token(token_bytes)]
            place = token.end()
    if cut < 0:
        parts.append(text[place:])
    return b"".join(parts)


def replace_in_text(text: str) -> str:
    """Return the text with U+FFFD for characters that PostgreSQL or UTF-8 cannot store."""
    if text.isascii():
        return text.replace("\x00", REPLACEMENT)
    return (
        text.replace("\x00", REPLACEMENT)
        .encode("utf-16", "surrogatepass")
        .decode("utf-16", "replace")
    )


def _without_overrides(raw: bytes) -> bytes:
    for override in OVERRIDES:
        raw = raw.replace(override, REPLACEMENT.encode())
    return raw


def _storable_token(token: bytes) -> bytes:
    if not token.startswith(b'"'):
        return b'"' + token + b'"'
    if b"\\" in token:
        token = replace_unstorable(token)
    return _CONTROL.sub(_storable_control, token)


def _storable_escape(match: re.Match[bytes]) -> bytes:
    if match[1] is None:
        return match[0]
    code = int(match[1], 16)
    replaced = code in (0, 0x202D, 0x202E) or 0xD800 <= code <= 0xDFFF
    return rb"\ufffd" if replaced else match[0]


def _storable_control(match: re.Match[bytes]) -> bytes:
    return rb"\ufffd" if match[0] == b"\x00" else rb"\u00%02x" % match[0][0]
