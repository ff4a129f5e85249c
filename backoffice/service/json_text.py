"""Repair of JSON text that a strict reader or PostgreSQL refuses, without reading it into values.

Of this only `needs_replacing` runs for ordinary answers. The rest is for a body or record that
could not be decoded, and for one that holds characters to replace.
"""

from __future__ import annotations

import re
from typing import Final

DEEPEST: Final = 64
"""Levels of nesting that are read; the interface's own records have less than ten."""

REPLACEMENT: Final = "\N{REPLACEMENT CHARACTER}"
OVERRIDES: Final = ("\u202d".encode(), "\u202e".encode())
"""Characters that turn the order of those behind them around: a value of 410 would read 014."""
_REPLACED: Final = (
    (b"\\", (rb"\u0000", rb"\u202d", rb"\u202e", rb"\u202D", rb"\u202E")),
    (OVERRIDES[0][:1], OVERRIDES),
)
"""By first byte, which is found much faster and is rare: what JSON allows and no text may hold."""

_ESCAPE: Final = re.compile(
    rb"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|\\u([0-9a-fA-F]{4})|\\.",
    re.DOTALL,
)
_CONTROL: Final = re.compile(rb"[\x00-\x1f]")
_TOKEN: Final = re.compile(rb'"(?:[^"\\]|\\.)*"|-?(?:Infinity|NaN)|[\[{]|[\]}]', re.DOTALL)


def needs_replacing(raw: bytes) -> bool:
    """Whether the JSON may hold a NUL character or one that turns the order of others around."""
    return any(first in raw and any(odd in raw for odd in odds) for first, odds in _REPLACED)


def replace_unstorable(raw: bytes) -> bytes:
    """The same JSON with U+FFFD for a NUL character, half a surrogate pair, or a character that
    turns the order of others around."""
    return _ESCAPE.sub(_storable_escape, _without_overrides(raw))


def make_decodable(body: bytes) -> bytes:
    """The same JSON in a form that strict readers take: bytes that are no UTF-8, bare control
    characters, NUL and half surrogate pairs become U+FFFD, `NaN` and `Infinity` become text (which
    fits no number), and what is nested deeper than `DEEPEST` becomes the text "nested too deep".
    """
    text = _without_overrides(body.decode("utf-8", "replace").encode())
    parts: list[bytes] = []
    depth = place = 0
    cut = -1
    for token in _TOKEN.finditer(text):
        found = token[0]
        if found in (b"[", b"{"):
            depth += 1
            if depth == DEEPEST + 1 and cut < 0:
                parts.append(text[place : token.start()])
                cut = depth
        elif found in (b"]", b"}"):
            if depth == cut:
                parts.append(b'"nested too deep"')
                place, cut = token.end(), -1
            depth -= 1
        elif cut < 0:
            parts += [text[place : token.start()], _storable_token(found)]
            place = token.end()
    if cut < 0:
        parts.append(text[place:])
    return b"".join(parts)


def replace_in_text(text: str) -> str:
    """A text as PostgreSQL and UTF-8 can hold it."""
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
