"""Store the files of reports.

They are outside the web root, readable only by this system account, have random names, and are
encrypted with the name as context. Only files that passed `file_checks.py` are written.
"""

from __future__ import annotations

import hashlib
import os
import secrets
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Final

from django.conf import settings

from backoffice.core.encryption import cipher

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


@dataclass(frozen=True, slots=True)
class StoredFile:
    """A stored file. `kind` is its media type from the content, `pages` the pages of a PDF."""

    stored_as: str
    size: int
    sha256: bytes
    kind: str = ""
    pages: int | None = None


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
