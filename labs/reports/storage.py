"""Store the files of reports.

They are outside the web root, readable only by this system account, have random names, and are
encrypted with the name as context. Only files that passed the checks are written.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Final

from django.conf import settings

from backoffice.core.encryption import cipher

CHECK_SECONDS: Final = 20.0
_CHECK_SCRIPT: Final = Path(__file__).with_name("file_checks.py")

EXTENSIONS: Final[dict[str, str]] = {
    ".pdf": "application/pdf",
    ".jpg": "image/jpeg",
    ".jpeg": "image/jpeg",
    ".jpe": "image/jpeg",
    ".jfif": "image/jpeg",
    ".png": "image/png",
}
ENDINGS: Final[dict[str, str]] = {
    "application/pdf": ".pdf",
    "image/jpeg": ".jpg",
    "image/png": ".png",
}

PROBLEMS: Final[dict[str, str]] = {
    "empty": "is empty.",
    "other_kind": "is {found}, not a PDF, JPEG or PNG, whatever its name says. {way_out}",
    "kind": "is not a PDF, JPEG or PNG. What counts is what is in the file, not its name.",
    "two_kinds": "holds a second document of another kind. Print or scan the report again, and "
    "choose that.",
    "broken": "cannot be read: it is damaged. Save, print or scan the report again.",
    "truncated": "is not complete: its end is missing. Copy or scan it again.",
    "encrypted": "is protected by a password or encrypted. Save a copy without protection.",
    "active": "carries scripts, forms that send, or other files. Print it to a plain PDF first.",
    "hidden": "is built so that its content cannot be checked. Print it to a plain PDF first.",
    "bomb": "unpacks to far more than it should. Print or scan the report again.",
    "no_pages": "has no page.",
    "pages": "has more than 30 pages. Split it, or choose the pages with results.",
    "pixels": "has more than 50 million pixels. Scan it at a lower resolution.",
    "animated": "is an animation. Save it as a plain picture.",
    "unsafe": "could not be read safely. Print or scan the report again.",
}
"""Ends of the sentence "‹name› …"."""
WAYS_OUT: Final[dict[str, str]] = {
    "a HEIC picture": "On an iPhone choose Settings, Camera, Formats, Most Compatible, and take it "
    "again; or save the picture as JPEG.",
    "a ZIP archive or an Office document": "Unpack it, or save the document as PDF.",
    "an old Office document": "Save the document as PDF.",
    "a text document (RTF)": "Save the document as PDF.",
    "a web page": "Print the page to a PDF.",
    "a video": "Take a photo instead.",
}
DEFAULT_WAY_OUT: Final = "Save it as PDF, JPEG or PNG."


class FileRejected(Exception):
    """A rejected file. The text is for staff and does not have the name of the file."""


@dataclass(frozen=True, slots=True)
class StoredFile:
    """A stored file. `kind` is its media type from the content, `pages` the pages of a PDF."""

    stored_as: str
    size: int
    sha256: bytes
    kind: str = ""
    pages: int | None = None


@dataclass(frozen=True, slots=True)
class CheckedFile:
    """A file that passed the checks: media type, pages of a PDF, and content.

    The content excludes what a phone, a printer or a mail program added before or after it.
    """

    kind: str
    pages: int | None
    content: bytes


def check_file(
    content: bytes, *, script: Path = _CHECK_SCRIPT, seconds: float = CHECK_SECONDS
) -> CheckedFile:
    """Check a file. Raises FileRejected.

    A child process with limited memory and time reads it, and is killed after `seconds`.
    """
    command = [sys.executable, "-I", str(script)]
    try:
        process = subprocess.run(  # noqa: S603 - our own script
            command, input=content, capture_output=True, timeout=seconds, env={}
        )
        answer = json.loads(process.stdout) if process.returncode == 0 else {}
    except (subprocess.TimeoutExpired, ValueError):
        answer = {}
    if "kind" in answer:
        document = content[answer["start"] : answer["end"]]
        return CheckedFile(answer["kind"], answer["pages"], document)
    other_kind = answer.get("found", "")
    problem = PROBLEMS.get(answer.get("problem", ""), PROBLEMS["unsafe"])
    raise FileRejected(
        problem.format(found=other_kind, way_out=WAYS_OUT.get(other_kind, DEFAULT_WAY_OUT))
    )


def store(content: bytes, kind: str = "", pages: int | None = None) -> StoredFile:
    """Write a new file, encrypted and durably.

    Raises OSError if it cannot be written, and then leaves nothing behind.
    """
    name = secrets.token_hex(24)
    path = _path(name)
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    _write(path, cipher.encrypt_bytes(content, _context(name)))
    return StoredFile(name, len(content), hashlib.sha256(content).digest(), kind, pages)


def open_file(stored_as: str) -> BytesIO:
    """Return the content of a stored file.

    Raises FileNotFoundError if it is gone, DecryptionError if it was changed or its key is missing.
    """
    content = _path(stored_as).read_bytes()
    if cipher.is_encrypted(content):
        content = cipher.decrypt_bytes(content, _context(stored_as))
    return BytesIO(content)


def delete(names: Iterable[str]) -> None:
    for name in names:
        _path(name).unlink(missing_ok=True)


def orphaned_files(names_in_rows: Iterable[str], older_than: float) -> list[str]:
    """Return the names of files without a row, last written before `older_than` (Unix seconds).

    They are from uploads that were interrupted between writing the file and creating the row.
    """
    names = set(names_in_rows)
    return [
        path.name
        for path in _stored_files()
        if path.name not in names and path.stat().st_mtime < older_than
    ]


def _path(stored_as: str) -> Path:
    if not (len(stored_as) == 48 and set(stored_as) <= set("0123456789abcdef")):
        raise ValueError("not a name of a kept file")
    return Path(settings.REPORT_FOLDER) / stored_as[:2] / stored_as


def _context(stored_as: str) -> str:
    return f"reports:{stored_as}"


def _write(path: Path, content: bytes) -> None:
    """Write the whole file or nothing, also when replacing a file."""
    new = path.with_name(secrets.token_hex(24))
    try:
        with open(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        new.rename(path)
    except BaseException:
        new.unlink(missing_ok=True)
        raise


class StoredReportFiles:
    """The stored files, for key rotation."""

    name: Final = "files of reports"

    def count(self) -> Counter[int | None]:
        return Counter(_key_of(path) for path in _stored_files())

    def encrypt_again(self) -> Iterator[int]:
        for path in _stored_files():
            if _key_of(path) == cipher.current_key_id():
                continue
            try:
                content = open_file(path.name).getvalue()
            except (FileNotFoundError, cipher.DecryptionError):
                continue
            if path.exists():
                _write(path, cipher.encrypt_bytes(content, _context(path.name)))
            yield 1


def _stored_files() -> list[Path]:
    return sorted(Path(settings.REPORT_FOLDER).glob("??/*"))


def _key_of(path: Path) -> int | None:
    with path.open("rb") as file:
        return cipher.key_id_of(file.read(2))
