"""Check that a file is a complete and harmless PDF, JPEG or PNG. Run as a script.

    python -I pdf_and_image_checks.py < FILE

It writes one of these:

    {"kind": "application/pdf", "pages": 3, "start": 0, "end": 941}
    {"problem": "encrypted"}
    {"problem": "other_kind", "found": "a HEIC picture"}

`start` and `end` are the bounds of the document in FILE, in bytes. The caller cuts off what a
phone, a printer or a mail program added before or after it. pypdf and Pillow read the document.
The file is not trusted: the script runs in its own process, memory and processor time are limited
before the file is opened, and the caller kills the process after a timeout.

Accepted risk: this process has access to the network. It opens no connection, and its environment
is empty, so it has no secrets.
"""

from __future__ import annotations

import json
import logging
import re
import resource
import sys
import warnings
import zlib
from collections.abc import Iterator
from io import BytesIO

from PIL import Image, UnidentifiedImageError
from pypdf import PdfReader
from pypdf.errors import LimitReachedError, PyPdfError
from pypdf.generic import ArrayObject, DictionaryObject, IndirectObject, NameObject, StreamObject

MEMORY = 1024 * 1024 * 1024
CPU_SECONDS = 10
PIXELS = 50_000_000
PAGES = 30
OBJECTS = 100_000
UNPACKED = 400 * 1024 * 1024
"""Most bytes to which all streams of a PDF may unpack."""
DEPTH = 100
"""Most levels of lists within lists in a PDF."""
HEAD = 4096
"""Most bytes that may precede a PDF, such as a printer's header."""
PIECE = 256 * 1024

PDF, JPEG, PNG = "application/pdf", "image/jpeg", "image/png"
PDF_MARK = b"%PDF-"
JPEG_MARK = b"\xff\xd8\xff"
PNG_MARK = b"\x89PNG\r\n\x1a\n"
WEB_PAGE = re.compile(rb"<\s*(?:!doctype|html|head|body|script|svg|iframe)\b", re.I)

OTHER_KINDS = (
    (rb"(?s).{4}ftyp(?:heic|heix|hevc|heim|heis|mif1|msf1)", "a HEIC picture"),
    (rb"(?s).{4}ftypavi[fs]", "an AVIF picture"),
    (rb"(?s).{4}ftyp", "a video"),
    (rb"PK\x03\x04|PK\x05\x06", "a ZIP archive or an Office document"),
    (rb"\xd0\xcf\x11\xe0", "an old Office document"),
    (rb"\{\\rtf", "a text document (RTF)"),
    (rb"II\*\x00|MM\x00\*", "a TIFF picture"),
    (rb"GIF8", "a GIF picture"),
    (rb"BM", "a bitmap picture (BMP)"),
    (rb"(?s)RIFF.{4}WEBP", "a WebP picture"),
    (rb"(?s).{128}DICM", "a DICOM picture"),
    (rb"%!PS", "a PostScript file"),
    (rb"\x1f\x8b|Rar!|7z\xbc\xaf", "a compressed archive"),
    (rb"MZ|\x7fELF|#!", "a program"),
)
"""The first bytes of files of other kinds, with their names for staff."""

ACTIVE = {
    *("/JavaScript", "/JS", "/Launch", "/EmbeddedFile", "/EmbeddedFiles", "/EF", "/RichMedia"),
    *("/XFA", "/SubmitForm", "/ImportData", "/GoToE", "/GoToR", "/Rendition", "/Movie", "/Sound"),
    "/3D",
}
"""Names of actions and of embedded files. Scans and prints of a lab have none of them."""


Image.MAX_IMAGE_PIXELS = None  # `PIXELS` is checked before anything is decoded.


class FileProblem(Exception):
    """The reason to reject a file: a code for which the caller has a sentence."""

    def __init__(self, word: str, other_kind: str = "") -> None:
        super().__init__(word)
        self.other_kind = other_kind


def examine(content: bytes) -> dict[str, object]:
    """Return media type, bounds and, for a PDF, number of pages. Raises FileProblem."""
    if not content:
        raise FileProblem("empty")
    start, pages = 0, None
    if content.startswith(JPEG_MARK):
        kind, end = JPEG, _end_of_jpeg(content)
    elif content.startswith(PNG_MARK):
        kind, end = PNG, _end_of_png(content)
    elif (pdf_start := _start_of_pdf(content)) is not None:
        kind, start, end = PDF, pdf_start, _end_of_pdf(content, pdf_start)
    else:
        raise _other_kind(content)
    document = content[start:end]
    _refuse_two_kinds(document, content[end:])
    if kind == PDF:
        pages = _pages_of_pdf(document)
    else:
        _open_picture(document)
    return {"kind": kind, "pages": pages, "start": start, "end": end}


def _other_kind(content: bytes) -> FileProblem:
    for mark, kind in OTHER_KINDS:
        if re.match(mark, content):
            return FileProblem("other_kind", kind)
    if WEB_PAGE.search(content[:2048]):
        return FileProblem("other_kind", "a web page")
    return FileProblem("kind")


def _refuse_two_kinds(document: bytes, behind: bytes) -> None:
    """Reject a file with two documents of different kinds: it is not known which one is meant.

    Other data after the document, such as a video or padding, is cut off.
    """
    if WEB_PAGE.search(document[:2048]) or WEB_PAGE.search(behind[:2048]):
        raise FileProblem("two_kinds")
    if PDF_MARK in behind[:HEAD] or _is_archive(document) or _is_archive(document + behind):
        raise FileProblem("two_kinds")


def _is_archive(content: bytes) -> bool:
    """Whether a ZIP reader would accept the file: its end record is exactly at the end."""
    at = content.rfind(b"PK\x05\x06")
    while at >= 0 and len(content) - at <= 22 + 0xFFFF:
        comment = int.from_bytes(content[at + 20 : at + 22], "little")
        if at + 22 + comment == len(content):
            return True
        at = content.rfind(b"PK\x05\x06", 0, at)
    return False


# PDF

_WHITE = rb"[\x00\t\n\x0c\r ]"
_PREFIX = re.compile(rb"(?:\xef\xbb\xbf)?[\x00\t\n\x0c\r ]*(?:\x1b%-12345X(?:@PJL[^\n]*\n\s*)*)?")
"""Bytes that may precede a PDF: a byte-order mark, white space, a printer's header."""
_STREAM = re.compile(rb"(?<![A-Za-z])stream(?:\r\n|\n|\r)")
_OBJECT = re.compile(rb"(?<![0-9])\d{1,10}" + _WHITE + rb"+\d{1,5}" + _WHITE + rb"+obj\b")
_NAME = re.compile(rb"/[^\x00\t\n\x0c\r ()<>\[\]{}/%]*")
_ESCAPED = re.compile(rb"#([0-9A-Fa-f]{2})")
_BRACKET = re.compile(rb"<<|>>|[\[\]]")


def _start_of_pdf(content: bytes) -> int | None:
    start = content.find(PDF_MARK, 0, HEAD)
    if start < 0 or not _PREFIX.fullmatch(content, 0, start):
        return None
    return start


def _end_of_pdf(content: bytes, start: int) -> int:
    if not re.compile(rb"%PDF-[12]\.\d").match(content, start):
        raise FileProblem("broken")
    end = content.rfind(b"%%EOF", start)
    if end < 0 or b"startxref" not in content[max(start, end - 64) : end]:
        raise FileProblem("truncated")
    end += len(b"%%EOF")
    for line_end in (b"\r\n", b"\n", b"\r"):
        if content.startswith(line_end, end):
            return end + len(line_end)
    return end


def _pages_of_pdf(document: bytes) -> int:
    _scan(document)
    try:
        reader = PdfReader(BytesIO(document))
        if reader.is_encrypted:
            raise FileProblem("encrypted")
        pages = len(reader.pages)
        if pages > PAGES:
            raise FileProblem("pages")
        if not pages:
            raise FileProblem("no_pages")
        _inspect_objects(reader)
    except LimitReachedError:
        raise FileProblem("bomb") from None
    except (PyPdfError, ValueError, KeyError, TypeError, AttributeError, IndexError, OSError):
        raise FileProblem("broken") from None
    except RecursionError:
        raise FileProblem("bomb") from None
    return pages


def _scan(document: bytes) -> None:
    """Check everything that a PDF reader could find without the table of objects.

    These are names outside of streams and objects inside of streams. The unpacked size of the
    streams is added up while they are unpacked.
    """
    unpacked = 0
    for text, stream in _parts(document):
        text = _unescape(text)
        names = {name[0] for name in _NAME.finditer(text)}
        if b"/Encrypt" in names:
            raise FileProblem("encrypted")
        if names & _ACTIVE_BYTES:
            raise FileProblem("active")
        depth = 0
        for bracket in _BRACKET.finditer(text):
            depth = depth + 1 if bracket[0] in (b"<<", b"[") else max(0, depth - 1)
            if depth > DEPTH:
                raise FileProblem("bomb")
        if stream is None:
            continue
        if _OBJECT.search(stream):
            raise FileProblem("hidden")
        if b"/FlateDecode" in names or b"/Fl" in names:
            unpacked += _unpacked_size(stream)
            if unpacked > UNPACKED:
                raise FileProblem("bomb")


_ACTIVE_BYTES = {name.encode() for name in ACTIVE}


def _parts(document: bytes) -> Iterator[tuple[bytes, bytes | None]]:
    """Yield the text before each stream, with the stream.

    A stream ends at the first `endstream`, whatever its declared length is. The bytes after that
    are checked like all others.
    """
    at = 0
    for _ in range(OBJECTS):
        start = _STREAM.search(document, at)
        if start is None:
            yield document[at:], None
            return
        end = document.find(b"endstream", start.end())
        if end < 0:
            raise FileProblem("truncated")
        yield document[at : start.start()], document[start.end() : end]
        at = end + len(b"endstream")
    raise FileProblem("bomb")


def _unescape(text: bytes) -> bytes:
    """Return the text with escapes in names resolved: `#61` is `a`."""
    if b"#" not in text:
        return text
    return _ESCAPED.sub(lambda match: bytes([int(match[1], 16)]), text)


def _unpacked_size(stream: bytes) -> int:
    decoder, size, data = zlib.decompressobj(), 0, stream
    try:
        while data and not decoder.eof:
            piece = decoder.decompress(data, PIECE)
            data = decoder.unconsumed_tail
            size += len(piece)
            if size > UNPACKED:
                raise FileProblem("bomb")
            if not piece and not data:
                break
    except zlib.error:
        pass  # This is image data, or data that no reader needs. pypdf reads the rest.
    return size


def _inspect_objects(reader: PdfReader) -> None:
    """Reject active content in any object that the table lists, also in object streams."""
    keys = {(number, generation) for generation, rows in reader.xref.items() for number in rows}
    keys |= {(number, 0) for number in reader.xref_objStm}
    if len(keys) > OBJECTS:
        raise FileProblem("bomb")
    for number, generation in keys:
        _refuse_active(IndirectObject(number, generation, reader).get_object())
    _refuse_active(reader.trailer)


def _refuse_active(pdf_object: object, depth: int = 0) -> None:
    if depth > DEPTH:
        raise FileProblem("bomb")
    if isinstance(pdf_object, NameObject) and pdf_object in ACTIVE:
        raise FileProblem("active")
    if isinstance(pdf_object, DictionaryObject):
        if isinstance(pdf_object, StreamObject) and "/First" in pdf_object and "/N" in pdf_object:
            _refuse_active_names(pdf_object)
        for key, value in pdf_object.items():
            _refuse_active(key, depth + 1)
            _refuse_active(value, depth + 1)
    elif isinstance(pdf_object, ArrayObject):
        for value in pdf_object:
            _refuse_active(value, depth + 1)


def _refuse_active_names(listing: StreamObject) -> None:
    """Reject active content in an object stream, also in objects that no table lists."""
    try:
        text = _unescape(listing.get_data())
    except LimitReachedError:
        raise FileProblem("bomb") from None
    except (PyPdfError, NotImplementedError, ValueError, zlib.error):
        raise FileProblem("hidden") from None
    if {name[0] for name in _NAME.finditer(text)} & _ACTIVE_BYTES:
        raise FileProblem("active")


# Pictures


def _open_picture(document: bytes) -> None:
    """Decode the whole picture. The service could not read what Pillow cannot."""
    try:
        with Image.open(BytesIO(document), formats=("JPEG", "PNG")) as picture:
            if picture.width * picture.height > PIXELS:
                raise FileProblem("pixels")
            if picture.format == "PNG" and getattr(picture, "is_animated", False):
                raise FileProblem("animated")
            if picture.format != "PNG":
                picture.draft("L", (picture.width // 8 or 1, picture.height // 8 or 1))
            picture.load()
    except UnidentifiedImageError:
        raise FileProblem("broken") from None
    except MemoryError:
        raise FileProblem("bomb") from None
    except OSError as error:
        raise FileProblem("truncated" if "truncated" in str(error) else "broken") from None
    except (SyntaxError, ValueError, EOFError, IndexError, TypeError, zlib.error):
        raise FileProblem("broken") from None


_STANDALONE = {0x01, *range(0xD0, 0xD8)}


def _end_of_jpeg(content: bytes) -> int:
    """Return where the first picture ends, by its markers. Comments and previews are skipped."""
    at = 2
    while True:
        marker = content[at : at + 2]
        if len(marker) < 2:
            raise FileProblem("truncated")
        if marker[0] != 0xFF:
            raise FileProblem("broken")
        if marker[1] == 0xFF:
            at += 1
        elif marker[1] == 0xD9:
            return at + 2
        elif marker[1] in _STANDALONE:
            at += 2
        else:
            length = int.from_bytes(content[at + 2 : at + 4], "big")
            if length < 2 or at + 2 + length > len(content):
                raise FileProblem("truncated")
            at += 2 + length
            if marker[1] == 0xDA:
                at = _end_of_scan(content, at)


def _end_of_scan(content: bytes, at: int) -> int:
    """Return the position of the marker after a scan.

    Inside of a scan, 0xFF is followed by 0 or a restart marker.
    """
    marker = re.compile(rb"\xff+[^\x00\xd0-\xd7\xff]").search(content, at)
    if marker is None:
        raise FileProblem("truncated")
    return marker.end() - 2


def _end_of_png(content: bytes) -> int:
    at = len(PNG_MARK)
    while True:
        head = content[at : at + 8]
        length, name = int.from_bytes(head[:4], "big"), head[4:]
        if len(head) < 8 or at + 12 + length > len(content):
            raise FileProblem("truncated")
        data = content[at + 4 : at + 8 + length]
        if zlib.crc32(data).to_bytes(4, "big") != content[at + 8 + length : at + 12 + length]:
            raise FileProblem("broken")
        at += 12 + length
        if name == b"IEND":
            return at
        if not name[0] & 0x20 and name not in (b"IHDR", b"PLTE", b"IDAT"):
            raise FileProblem("broken")  # A critical chunk that no reader knows.


def main() -> int:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    # Log messages of the libraries may quote the file.
    logging.disable()
    warnings.simplefilter("ignore")
    try:
        answer = examine(sys.stdin.buffer.read())
    except FileProblem as problem:
        answer = {"problem": str(problem), "found": problem.other_kind}
    sys.stdout.write(json.dumps(answer))
    return 0


if __name__ == "__main__":
    sys.exit(main())
