"""Check PDF documents, or merge them into one. Run as a script, in a process of its own.

    python -I pdf_child.py < INPUT

INPUT is a line of JSON, then the documents one after the other. `sizes` has their lengths in bytes:

    {"mode": "check", "sizes": [941, 12]}  ->  {"pages": [3, null]}
    {"mode": "merge", "sizes": [941, 800], "titles": ["…", "…"], "new_sheet": true}
                                           ->  {"pages": 4}, a line break, and the merged PDF

`null` is a document that is no PDF, or one that cannot be opened. With `new_sheet`, each document
begins on an odd page, for printing on both sides. The documents are not trusted: memory and
processor time are limited first, and the parent process kills this one after a timeout.
"""

from __future__ import annotations

import json
import logging
import resource
import sys
import warnings
from io import BytesIO
from typing import Any

from pypdf import PdfReader, PdfWriter

MEMORY = 1024 * 1024 * 1024
CPU_SECONDS = 60
PAGES = 500
MARK = b"%PDF-"
END = b"%%EOF"
MARK_RANGE = 1024
"""Number of bytes at the beginning that must include the PDF header, and of bytes at the end that
must include the end marker.
"""


def open_pdf(content: bytes) -> PdfReader:
    """Return a reader of a whole document. Raises ValueError or an error of pypdf."""
    start = content[:MARK_RANGE].find(MARK)
    if start < 0 or END not in content[-MARK_RANGE:]:
        raise ValueError("not a whole PDF")
    reader = PdfReader(BytesIO(content[start:]))
    if reader.is_encrypted and not reader.decrypt(""):
        raise ValueError("protected by a password")
    return reader


def page_count(content: bytes) -> int | None:
    """Return the number of pages; None where the document cannot be opened."""
    try:
        reader = open_pdf(content)
        count = len(reader.pages)
        if not 1 <= count <= PAGES:
            return None
        for page in reader.pages:
            page.mediabox.width  # noqa: B018 - read to see that it can be
            page.get_contents()
    except Exception:
        # pypdf may raise anything for a broken document. The document is not printed.
        return None
    return count


def merge_documents(
    documents: list[bytes], titles: list[str], new_sheet: bool
) -> tuple[int, bytes]:
    """Return the number of pages and one document with a bookmark for each part."""
    writer = PdfWriter()
    for document, title in zip(documents, titles, strict=True):
        if new_sheet and len(writer.pages) % 2:
            writer.add_blank_page()
        writer.append(open_pdf(document), outline_item=title, import_outline=False)
    writer.metadata = {"/Title": "Documents of orders"}
    out = BytesIO()
    writer.write(out)
    return len(writer.pages), out.getvalue()


def answer(head: dict[str, Any], content: bytes) -> bytes:
    documents, start = [], 0
    for size in head["sizes"]:
        documents.append(content[start : start + size])
        start += size
    if head["mode"] == "check":
        return json.dumps({"pages": [page_count(document) for document in documents]}).encode()
    pages, whole = merge_documents(documents, head["titles"], head["new_sheet"])
    return json.dumps({"pages": pages}).encode() + b"\n" + whole


def main() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")
    head = json.loads(sys.stdin.buffer.readline())
    sys.stdout.buffer.write(answer(head, sys.stdin.buffer.read()))


if __name__ == "__main__":
    main()
