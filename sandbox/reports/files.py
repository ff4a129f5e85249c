"""The type of an upload by its bytes, and whether it is accepted (errors-and-limits.md 7.1)."""

from __future__ import annotations

import os
import re
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from sandbox.api.errors import Refusal

ONE_FILE = int(os.environ.get("SANDBOX_REPORT_MAX_BYTES", str(10 * 1024 * 1024)))
TOGETHER = int(os.environ.get("SANDBOX_REPORTS_MAX_BYTES", str(30 * 1024 * 1024)))
MOST_FILES = 8
MOST_PAGES = 30
PDF, JPEG, PNG = "application/pdf", "image/jpeg", "image/png"
TYPES = (PDF, JPEG, PNG)
KINDS = {PDF: "pdf", JPEG: "jpeg", PNG: "png"}

_PNG_HEAD = b"\x89PNG\r\n\x1a\n"
_INFLATED = 8 * 1024 * 1024  # of a page tree or an image, at most


@dataclass(frozen=True, slots=True)
class Upload:
    """One part as sent; `declared` is its content type."""

    declared: str
    content: bytes


@dataclass(frozen=True, slots=True)
class Report:
    """An accepted upload."""

    kind: str
    pages: int


class Unreadable(Exception):
    """The bytes do not have the format of their signature."""


def check_uploads(uploads: Sequence[Upload]) -> Report:
    """Return the accepted report, or refuse it: 413 for its size, 400 for anything else."""
    if len(uploads) > MOST_FILES:
        raise Refusal(400, f"At most {MOST_FILES} files can be uploaded")
    for upload in uploads:
        if not upload.content:
            raise Refusal(400, "The file is empty")
        if len(upload.content) > ONE_FILE:
            raise Refusal(413, f"The file is larger than {ONE_FILE} bytes")
    if sum(len(upload.content) for upload in uploads) > TOGETHER:
        raise Refusal(413, f"The files together are larger than {TOGETHER} bytes")
    found = [_type_of(upload) for upload in uploads]
    if len(found) > 1 and PDF in found:
        raise Refusal(400, "A PDF is uploaded alone; several files are JPEG or PNG")
    pages = 0
    for upload, kind in zip(uploads, found, strict=True):
        pages += _pages(upload.content, kind)
    return Report(KINDS[found[0]], pages)


def signature(content: bytes) -> str | None:
    """Return the content type by the first bytes."""
    if content.startswith(b"%PDF-"):
        return PDF
    if content.startswith(b"\xff\xd8\xff"):
        return JPEG
    if content.startswith(_PNG_HEAD):
        return PNG
    return None


def _type_of(upload: Upload) -> str:
    declared = upload.declared.partition(";")[0].strip().lower()
    found = signature(upload.content)
    if found is None or declared not in TYPES:
        raise Refusal(400, "Unsupported file type: PDF, JPEG and PNG are taken")
    if declared != found:
        raise Refusal(400, "The declared content type does not match the file")
    return found


def _pages(content: bytes, kind: str) -> int:
    try:
        if kind != PDF:
            (_check_png if kind == PNG else _check_jpeg)(content)
            return 1
        pages = _count_pages(content)
    except Unreadable:
        what = "PDF is broken" if kind == PDF else "image cannot be decoded"
        raise Refusal(400, f"The {what}") from None
    if pages > MOST_PAGES:
        raise Refusal(400, f"The PDF has more than {MOST_PAGES} pages")
    return pages


def _count_pages(content: bytes) -> int:
    """Page objects, also those in compressed object streams."""
    if b"%%EOF" not in content[-1024:] or b"startxref" not in content[-2048:]:
        raise Unreadable
    pages = _page_objects(content)
    for text in _streams(content):
        pages += _page_objects(text)
    if not pages:
        raise Unreadable
    return pages


def _page_objects(text: bytes) -> int:
    return len(re.findall(rb"/Type\s*/Page(?![A-Za-z])", text))


def _streams(content: bytes) -> Iterator[bytes]:
    """Object streams, inflated; altogether no more than any honest page tree takes."""
    left = _INFLATED
    for match in re.finditer(rb"/ObjStm.{0,300}?stream\r?\n", content, re.DOTALL):
        try:
            text = zlib.decompressobj().decompress(memoryview(content)[match.end() :], left)
        except zlib.error:
            raise Unreadable from None
        left -= len(text)
        if left <= 0:
            raise Unreadable
        yield text


def _check_png(content: bytes) -> None:
    """Chunks with right checksums from IHDR to IEND, and pixels that can be inflated."""
    at = len(_PNG_HEAD)
    names: list[bytes] = []
    pixels = zlib.decompressobj()
    size = 0
    while at + 12 <= len(content):
        length = int.from_bytes(content[at : at + 4])
        name, body = content[at + 4 : at + 8], content[at + 8 : at + 8 + length]
        if zlib.crc32(name + body) != int.from_bytes(content[at + 8 + length : at + 12 + length]):
            raise Unreadable
        names.append(name)
        if name == b"IDAT" and size < _INFLATED:
            try:
                size += len(pixels.decompress(body, _INFLATED))
            except zlib.error:
                raise Unreadable from None
        at += 12 + length
        if name == b"IEND":
            break
    if not names or names[0] != b"IHDR" or names[-1] != b"IEND" or not size:
        raise Unreadable


def _check_jpeg(content: bytes) -> None:
    """Segments up to the first scan with a frame before it, and the end mark."""
    at = 2
    framed = False
    while at + 4 <= len(content):
        if content[at] != 0xFF:
            raise Unreadable
        mark = content[at + 1]
        if mark == 0xFF:
            at += 1
            continue
        if mark == 0xDA:
            if framed and content.rstrip(b"\x00").endswith(b"\xff\xd9"):
                return
            raise Unreadable
        framed = framed or (0xC0 <= mark <= 0xCF and mark not in (0xC4, 0xC8, 0xCC))
        at += 2 + int.from_bytes(content[at + 2 : at + 4])
    raise Unreadable
