"""Check and merge PDF documents of the service. pypdf runs in a child process.

Other programs on the computers of the clinic open these documents next. So only documents that
pypdf can open are shown, stored or merged.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from backoffice.service.json_text import JsonObject

_SCRIPT: Final = Path(__file__).with_name("pdf_child.py")
CHECK_SECONDS: Final = 15.0
MERGE_SECONDS: Final = 60.0


class NotReadable(Exception):
    """Documents that could not be read or merged."""


def page_counts(documents: Sequence[bytes]) -> list[int | None]:
    """Return the number of pages of each document; None for one that cannot be opened as PDF."""
    if not documents:
        return []
    try:
        answer, _ = _run({"mode": "check"}, documents, CHECK_SECONDS)
    except NotReadable:
        # One of them ended the process. Check each in its own process.
        if len(documents) == 1:
            return [None]
        return [page_counts([document])[0] for document in documents]
    pages: list[int | None] = answer["pages"]
    return pages


def merge(documents: Sequence[bytes], titles: Sequence[str], new_sheet: bool) -> tuple[int, bytes]:
    """Merge documents into one. Return its number of pages and its content.

    Raises NotReadable.
    """
    head = {"mode": "merge", "titles": list(titles), "new_sheet": new_sheet}
    answer, content = _run(head, documents, MERGE_SECONDS)
    return answer["pages"], content


def _run(head: JsonObject, documents: Sequence[bytes], seconds: float) -> tuple[JsonObject, bytes]:
    line = json.dumps({**head, "sizes": [len(document) for document in documents]}).encode()
    try:
        process = subprocess.run(  # noqa: S603 - our own script
            [sys.executable, "-I", str(_SCRIPT)],
            input=b"".join((line, b"\n", *documents)),
            capture_output=True,
            timeout=seconds,
            env={},
        )
    except subprocess.TimeoutExpired as error:
        raise NotReadable from error
    if process.returncode:
        raise NotReadable
    answer, _, content = process.stdout.partition(b"\n")
    del process  # Free the memory of one copy of a large document.
    try:
        return json.loads(answer), content
    except ValueError as error:
        raise NotReadable from error
