"""Is a file a whole, harmless PDF, JPEG or PNG? Run as a script, in a process of its own.

    python -I -S examine.py < FILE  ->  {"kind": "application/pdf", "pages": 3}
                                    or  {"problem": "encrypted"}

Nothing here trusts the file: memory and processor time are limited before it is opened, and
whoever started this ends it after a while. Only the standard library is used. What is read is the
structure, never more than is needed to tell that the file is what it says, is complete, carries
nothing that acts, and ends where it ends.

Accepted: this process is not cut off from the network. The standard library can do that only from
Python 3.12 on; it opens no connection, and gets an empty environment without any secret.
"""

from __future__ import annotations

import json
import re
import resource
import sys
import zlib
from collections.abc import Callable, Iterator

MEMORY = 256 * 1024 * 1024
CPU_SECONDS = 5
PIXELS = 50_000_000
PAGES = 30
UNPACKED = 400 * 1024 * 1024
"""Bytes that all streams of a PDF may unpack to."""
LISTED = 32 * 1024 * 1024
"""Bytes that object streams, which must be read, may unpack to."""
DEPTH = 100
"""How deep a PDF may nest lists in lists."""
TRAILING = 1024
PIECE = 256 * 1024

PDF, JPEG, PNG = "application/pdf", "image/jpeg", "image/png"


class Problem(Exception):
    """Why a file is not taken; a word that the caller has a sentence for."""


def examine(content: bytes) -> dict[str, object]:
    """Kind of a file and, for a PDF, its pages; raises Problem."""
    if not content:
        raise Problem("empty")
    check: Callable[[bytes], int | None]
    if content.startswith(b"%PDF-"):
        check, kind = _pdf, PDF
    elif content.startswith(b"\xff\xd8\xff"):
        check, kind = _jpeg, JPEG
    elif content.startswith(b"\x89PNG\r\n\x1a\n"):
        check, kind = _png, PNG
    else:
        raise Problem("kind")
    if re.search(rb"<\s*(?:!doctype|html|head|body|script|svg|iframe)\b", content[:2048], re.I):
        raise Problem("two_kinds")
    if _is_archive(content):
        raise Problem("two_kinds")
    return {"kind": kind, "pages": check(content)}


def _is_archive(content: bytes) -> bool:
    """True when a ZIP reader would take the file: its end record reaches exactly to the end."""
    at = content.rfind(b"PK\x05\x06")
    while at >= 0 and len(content) - at <= 22 + 0xFFFF:
        comment = int.from_bytes(content[at + 20 : at + 22], "little")
        if at + 22 + comment == len(content):
            return True
        at = content.rfind(b"PK\x05\x06", 0, at)
    return False


# PDF

_WHITE = rb"[\x00\t\n\x0c\r ]"
_STREAM = re.compile(rb"(?<![A-Za-z])stream(?:\r\n|\n|\r)")
_OBJECT = re.compile(rb"(?<![0-9])(\d{1,10})" + _WHITE + rb"+(\d{1,5})" + _WHITE + rb"+obj\b")
_NAME = re.compile(rb"/([^\x00\t\n\x0c\r ()<>\[\]{}/%]*)")
_ESCAPED = re.compile(rb"#([0-9A-Fa-f]{2})")
_BRACKET = re.compile(rb"<<|>>|[\[\]]")
_COUNT = re.compile(rb"/Count" + _WHITE + rb"+(\d{1,9})")
_LIST = re.compile(rb"[\x00\t\n\x0c\r ]*(?:%|\Z|[+-]?\d+[\x00\t\n\x0c\r ]+(?:%|[+-]?\d))")
"""How the content of an object stream must begin, whatever its dictionary says."""
_TYPE = re.compile(rb"/Type" + _WHITE + rb"*/(\w+)")

ACTIVE = {
    b"JavaScript",
    b"JS",
    b"Launch",
    b"EmbeddedFile",
    b"EmbeddedFiles",
    b"EF",
    b"RichMedia",
    b"XFA",
    b"SubmitForm",
    b"ImportData",
    b"GoToE",
    b"GoToR",
    b"Rendition",
    b"Movie",
    b"Sound",
    b"3D",
}
"""Names of actions and of what carries other files; a scan or a lab's print has none of them."""


def _pdf(content: bytes) -> int:
    if not re.match(rb"%PDF-[12]\.\d", content):
        raise Problem("broken")
    end = content.rfind(b"%%EOF")
    if end < 0 or b"startxref" not in content[max(0, end - 64) : end]:
        raise Problem("truncated")
    after = content[end + 5 :]
    if after.strip(b"\x00\t\n\x0c\r ") or len(after) > TRAILING:
        raise Problem("trailing")
    pages: set[int] = set()
    counts = [0]
    unpacked = 0
    for text, stream in _parts(content):
        _inspect(text, pages, counts)
        if stream is None:
            continue
        if _OBJECT.search(stream):
            raise Problem("hidden")  # A reader that follows offsets would find it there.
        about = _plain(text)
        listed = _lists_objects(about)
        if b"FlateDecode" in about or listed:
            inside, size = _unpacked(stream, about, listed)
            unpacked += size
            if unpacked > UNPACKED:
                raise Problem("bomb")
            if inside is not None:
                _refuse_active(_plain(inside))
                if b"/ObjStm" in about or (listed and _LIST.match(inside)):
                    if _STREAM.search(inside):
                        raise Problem("hidden")
                    _inspect_listed(inside, about, pages, counts)
    if not pages:
        raise Problem("no_pages")
    if max(len(pages), *counts) > PAGES:
        raise Problem("pages")
    return len(pages)


def _parts(content: bytes) -> Iterator[tuple[bytes, bytes | None]]:
    """What lies outside streams, each piece with the stream that follows it.

    A stream ends at the first `endstream`: whatever its length claims, what comes after is read
    like everything else.
    """
    at = 0
    for _ in range(200_000):
        start = _STREAM.search(content, at)
        if start is None:
            yield content[at:], None
            return
        end = content.find(b"endstream", start.end())
        if end < 0:
            raise Problem("truncated")
        yield content[at : start.start()], content[start.end() : end]
        at = end + len(b"endstream")
    raise Problem("bomb")


def _lists_objects(about: bytes) -> bool:
    """Whether a stream may hold objects: by its type, or by what only such a stream says.

    Anywhere since the stream before: where its own dictionary begins, a file can lie about.
    """
    return b"/ObjStm" in about or {b"First", b"N"} <= {name[1] for name in _NAME.finditer(about)}


def _plain(text: bytes) -> bytes:
    """With `#61` written as `a`, as names may hide it."""
    if b"#" not in text:
        return text
    return _ESCAPED.sub(lambda found: bytes([int(found[1], 16)]), text)


def _inspect(text: bytes, pages: set[int], counts: list[int]) -> None:
    """Names outside streams, strings and comments included: an object may hide in either."""
    text = _plain(text)
    _refuse_active(text)
    starts = list(_OBJECT.finditer(text))
    for start, following in zip(starts, [*starts[1:], None], strict=False):
        body = text[start.end() : following.start() if following else len(text)]
        _note(int(start[1]), body, pages, counts)


def _inspect_listed(inside: bytes, about: bytes, pages: set[int], counts: list[int]) -> None:
    """Objects of an object stream: numbers and offsets first, then the objects."""
    text = _plain(inside)
    _refuse_active(text)
    first = re.search(rb"/First" + _WHITE + rb"+(\d{1,9})", about)
    if first is None:
        raise Problem("broken")
    head = inside[: int(first[1])].split()
    try:
        numbers = [int(word) for word in head]
    except ValueError:
        raise Problem("broken") from None
    offsets = [*numbers[1::2], len(inside) - int(first[1])]
    for number, start, end in zip(numbers[::2], offsets, offsets[1:], strict=False):
        _note(number, _plain(inside[int(first[1]) + start : int(first[1]) + end]), pages, counts)


def _refuse_active(text: bytes) -> None:
    names = {name[1] for name in _NAME.finditer(text)}
    if b"Encrypt" in names:
        raise Problem("encrypted")
    if names & ACTIVE:
        raise Problem("active")


def _note(number: int, body: bytes, pages: set[int], counts: list[int]) -> None:
    depth = 0
    for bracket in _BRACKET.finditer(body):
        depth += 1 if bracket[0] in (b"<<", b"[") else -1
        if depth > DEPTH:
            raise Problem("bomb")
    kind = _TYPE.search(body)
    if kind is None:
        return
    kinds = {found[1] for found in _TYPE.finditer(body)}
    if b"Page" in kinds:
        pages.add(number)
    if b"Pages" in kinds:
        counts.extend(int(found[1]) for found in _COUNT.finditer(body))


def _unpacked(stream: bytes, about: bytes, listed: bool) -> tuple[bytes | None, int]:
    """Size of a packed stream, and its content when it lists objects or looks as if it did."""
    filters = re.findall(rb"/(\w+Decode|Crypt)\b", about)
    if listed:
        if filters not in ([b"FlateDecode"], []) or re.search(rb"/Predictor\s+(?!1\b)\d", about):
            raise Problem("hidden")
        if not filters:
            return stream, len(stream)
    elif filters[:1] != [b"FlateDecode"]:
        return None, 0
    decoder = zlib.decompressobj()
    kept: list[bytes] = []
    size = 0
    data = stream
    strict = listed
    try:
        while data and not decoder.eof:
            piece = decoder.decompress(data, PIECE)
            data = decoder.unconsumed_tail
            size += len(piece)
            if size == len(piece):
                listed = listed or bool(_LIST.match(piece))
            if listed:
                kept.append(piece)
            if size > (LISTED if listed else UNPACKED):
                raise Problem("bomb")
            if not piece and not data:
                break
    except zlib.error:
        if strict:
            raise Problem("broken") from None
    return (b"".join(kept) if listed else None), size


# JPEG

_STANDALONE = {0x01, *range(0xD0, 0xD8)}
_FRAMES = {0xC0, 0xC1, 0xC2}


def _jpeg(content: bytes) -> None:
    end, several = _one_jpeg(content, 0)
    # Phones add further pictures of the same shot, announced in the first one.
    for _ in range(8):
        if not several or content[end : end + 3] != b"\xff\xd8\xff":
            break
        end, _ignored = _one_jpeg(content, end)
    if len(content) - end > TRAILING:
        raise Problem("trailing")


def _one_jpeg(content: bytes, start: int) -> tuple[int, bool]:
    """Where a JPEG that begins at `start` ends, and whether it announces further ones."""
    at = start + 2
    size = several = scanned = False
    tables: set[int] = set()
    while True:
        if at + 4 > len(content) and content[at : at + 2] != b"\xff\xd9":
            raise Problem("truncated")
        if content[at] != 0xFF:
            raise Problem("broken")
        marker = content[at + 1]
        if marker == 0xFF:
            at += 1
            continue
        if marker == 0xD9:
            if not (size and scanned):
                raise Problem("broken")
            return at + 2, several
        if marker in _STANDALONE:
            at += 2
            continue
        length = int.from_bytes(content[at + 2 : at + 4], "big")
        body = content[at + 4 : at + 2 + length]
        if length < 2 or len(body) != length - 2:
            raise Problem("truncated")
        at += 2 + length
        if marker == 0xE2 and body.startswith(b"MPF\x00"):
            several = True
        elif marker in (0xC4, 0xDB):
            tables.add(marker)
        elif marker in _FRAMES:
            _check_frame(body)
            size = True
        elif 0xC3 <= marker <= 0xCF and marker != 0xC8 and marker != 0xCC:
            raise Problem("broken")
        elif marker == 0xDA:
            if not size or tables != {0xC4, 0xDB}:
                raise Problem("broken")
            scanned = True
            at = _end_of_scan(content, at)


def _check_frame(body: bytes) -> None:
    if len(body) < 6 or body[0] not in (8, 12) or len(body) != 6 + 3 * body[5] or not body[5]:
        raise Problem("broken")
    _check_size(int.from_bytes(body[3:5], "big"), int.from_bytes(body[1:3], "big"))


def _end_of_scan(content: bytes, at: int) -> int:
    """The marker after a scan: 0xFF is followed by 0 inside of one."""
    begin = at
    while True:
        at = content.find(b"\xff", at)
        if at < 0 or at + 1 >= len(content):
            raise Problem("truncated")
        if content[at + 1] == 0 or 0xD0 <= content[at + 1] <= 0xD7:
            at += 2
        elif content[at + 1] == 0xFF:
            at += 1
        elif at == begin:
            raise Problem("truncated")
        else:
            return at


# PNG

_CHANNELS = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}
_DEPTHS = {0: {1, 2, 4, 8, 16}, 2: {8, 16}, 3: {1, 2, 4, 8}, 4: {8, 16}, 6: {8, 16}}
_PASSES = (
    (0, 0, 8, 8),
    (4, 0, 8, 8),
    (0, 4, 4, 8),
    (2, 0, 4, 4),
    (0, 2, 2, 4),
    (1, 0, 2, 2),
    (0, 1, 1, 2),
)


def _png(content: bytes) -> None:
    at = 8
    rows: list[int] = []
    data: list[bytes] = []
    seen: list[bytes] = []
    while True:
        head = content[at : at + 8]
        if len(head) < 8:
            raise Problem("truncated")
        length, name = int.from_bytes(head[:4], "big"), head[4:]
        body = content[at + 8 : at + 8 + length]
        if len(body) != length or len(content) < at + 12 + length:
            raise Problem("truncated")
        if zlib.crc32(name + body) != int.from_bytes(
            content[at + 8 + length : at + 12 + length], "big"
        ):
            raise Problem("broken")
        if (name == b"IHDR") != (not seen):
            raise Problem("broken")
        at += 12 + length
        if name == b"IHDR":
            rows = _rows_of(body)
        elif name == b"IDAT":
            if data and seen[-1] != b"IDAT":
                raise Problem("broken")
            data.append(body)
        elif name == b"acTL":
            raise Problem("animated")
        elif name == b"IEND":
            break
        elif name != b"PLTE" and not name[0] & 0x20:
            raise Problem("broken")  # a chunk that readers must know, and none does
        seen.append(name)
    if at != len(content):
        raise Problem("trailing")
    _check_pixels(b"".join(data), rows)


def _rows_of(header: bytes) -> list[int]:
    """Bytes of each stored row, the filter byte included."""
    if len(header) != 13:
        raise Problem("broken")
    width, height = int.from_bytes(header[:4], "big"), int.from_bytes(header[4:8], "big")
    depth, colour, packing, filtering, interlaced = header[8:]
    if depth not in _DEPTHS.get(colour, ()) or packing or filtering or interlaced > 1:
        raise Problem("broken")
    _check_size(width, height)
    bits = depth * _CHANNELS[colour]
    if not interlaced:
        return [1 + (width * bits + 7) // 8] * height
    rows: list[int] = []
    for left, top, across, down in _PASSES:
        wide, high = -(-(width - left) // across), -(-(height - top) // down)
        if wide > 0 and high > 0:
            rows += [1 + (wide * bits + 7) // 8] * high
    return rows


def _check_pixels(packed: bytes, rows: list[int]) -> None:
    """Unpack piece by piece: exactly the rows announced, each with a filter that exists."""
    decoder = zlib.decompressobj()
    expected = sum(rows)
    row, left_in_row, total = 0, 0, 0
    data = packed
    try:
        while not decoder.eof:
            piece = decoder.decompress(data, PIECE)
            data = decoder.unconsumed_tail
            if not piece and not data:
                break
            total += len(piece)
            if total > expected:
                raise Problem("bomb")
            at = left_in_row
            while at < len(piece):
                if piece[at] > 4:
                    raise Problem("broken")
                at += rows[row]
                row += 1
            left_in_row = at - len(piece)
    except zlib.error:
        raise Problem("broken") from None
    if not decoder.eof or total != expected:
        raise Problem("truncated")


def _check_size(width: int, height: int) -> None:
    if not width or not height:
        raise Problem("broken")
    if width * height > PIXELS:
        raise Problem("pixels")


def main() -> int:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    try:
        answer = examine(sys.stdin.buffer.read())
    except Problem as problem:
        answer = {"problem": str(problem)}
    sys.stdout.write(json.dumps(answer))
    return 0


if __name__ == "__main__":
    sys.exit(main())
