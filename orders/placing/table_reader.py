"""The reader of an import table: encodings, separators, column names.

No typed text is dropped: a cell without a column is an error that quotes it.
"""

from __future__ import annotations

import codecs
import csv
import io
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Final

from django.utils.translation import gettext, gettext_noop, ngettext

from backoffice.core.identifiers import visible
from backoffice.outbox.models import CommandRecord
from backoffice.pages.lists.formulas import unescape_formula
from orders.placing.order_request import OrderRequest

MAX_ROWS: Final = 200
MAX_BYTES: Final = 256 * 1024
COLUMNS: Final = (
    "patient",
    "test",
    "sample_id",
    "billing_type",
    "collection_method",
    "lab_account",
    "physician_npi",
)
NEEDED: Final = COLUMNS[:3]
REASON: Final = "reason"
"""A column of the tables that this product returns. It is ignored."""
SEPARATORS: Final = ",;\t"
"""The possible separators. Text pasted from a spreadsheet has tabs."""
_MIN_SIMILARITY: Final = 0.5
"""Least similarity (difflib) for which a column name is proposed."""
_MIN_PART_LETTERS: Final = 3
"""Fewest letters with which a part of its name proposes a column."""
_MAX_SHOWN: Final = 5
"""Most column names or cells in one message."""
_LETTERS_SHOWN: Final = 40
_UTF16: Final = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_SPREADSHEET: Final = gettext_noop(
    "This is a spreadsheet file, not a CSV file. Save it as “CSV UTF-8”."
)
_NOT_TEXT: Final = {
    b"PK\x03\x04": _SPREADSHEET,
    b"\xd0\xcf\x11\xe0": _SPREADSHEET,
    b"%PDF-": gettext_noop("This is a PDF, not a CSV file."),
}


class UnusableTable(Exception):
    """The whole table cannot be read. The message is for staff."""


@dataclass(frozen=True, slots=True)
class RowChoice:
    """One value of a row, as it will be sent. `origin`: its source if nothing was typed."""

    label: str
    text: str
    origin: str = ""

    @property
    def is_default(self) -> bool:
        return bool(self.origin)


@dataclass(slots=True)
class ImportRow:
    """One line: its typed cells, their meaning, and its errors."""

    number: int
    """The line of the file where the row begins."""
    cells: dict[str, str]
    order_request: OrderRequest | None = None
    faults: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    """Values to compare with the paper. They do not prevent the import of the row."""
    notes: list[str] = field(default_factory=list)
    """Notes on what could not be checked."""
    choices: list[RowChoice] = field(default_factory=list)
    command: CommandRecord | None = None
    """The command of the row after it was enqueued."""

    @property
    def is_importable(self) -> bool:
        return self.command is not None or (self.order_request is not None and not self.faults)


def too_large_message() -> str:
    return gettext("The table is too large. The limit is %(size)s KB.") % {
        "size": MAX_BYTES // 1024
    }


def read(raw: bytes) -> list[ImportRow]:
    """Return the rows of a table with a header line. Raises UnusableTable.

    The separator is a comma, semicolon or tab. The encoding is UTF-8, UTF-16 or Windows-1252.
    """
    if len(raw) > MAX_BYTES:
        raise UnusableTable(too_large_message())
    text = _decoded(raw)
    if "\x00" in text:
        raise UnusableTable(gettext("This file is not a text table. Save it as “CSV UTF-8”."))
    named, text = _named_separator(text)
    first = next((line for line in text.splitlines() if line.strip()), "")
    separator = named or max(SEPARATORS, key=first.count)
    try:
        lines = [
            (number + bool(named), line)
            for number, line in _lines(text, separator)
            if any(cell.strip() for cell in line)
        ]
    except csv.Error as error:
        raise UnusableTable(
            gettext("The table cannot be read: %(error)s.") % {"error": error}
        ) from error
    if not lines:
        raise UnusableTable(gettext("The table is empty."))
    names = _columns(lines[0][1])
    rows = [ImportRow(number, _cells(names, number, line)) for number, line in lines[1:]]
    if not rows:
        raise UnusableTable(gettext("The table has no rows below its header."))
    if len(rows) > MAX_ROWS:
        raise UnusableTable(
            gettext("The table has %(count)s rows. The limit is %(limit)s.")
            % {"count": len(rows), "limit": MAX_ROWS}
        )
    return rows


def squeezed(text: str) -> str:
    """Return a column name or value without case, spaces, dashes and the like.

    “Billing Type” becomes `billingtype`.
    """
    folded = unicodedata.normalize("NFKD", text).casefold()
    return "".join(mark for mark in folded if mark.isalnum())


_COLUMN_BY_KEY: Final = {squeezed(name): name for name in (*COLUMNS, REASON)}


def _decoded(raw: bytes) -> str:
    for beginning, words in _NOT_TEXT.items():
        if raw.startswith(beginning):
            raise UnusableTable(gettext(words))
    try:
        if raw.startswith(_UTF16):
            return raw.decode("utf-16")
        if raw[1::2].count(0) > len(raw) / 4:
            return raw.decode("utf-16-le")
        if raw[::2].count(0) > len(raw) / 4:
            return raw.decode("utf-16-be")
        try:
            return raw.decode("utf-8-sig")
        except UnicodeDecodeError:
            return raw.decode("cp1252")
    except UnicodeDecodeError as error:
        raise UnusableTable(
            gettext("The encoding is unknown. Save the table as “CSV UTF-8”.")
        ) from error


def _named_separator(text: str) -> tuple[str, str]:
    """Return the separator that a first line such as `sep=;` names, and the rest of the text.

    Some spreadsheets write this line.
    """
    first, _, rest = text.partition("\n")
    first = first.strip('\r "')
    if first.lower().startswith("sep=") and first[4:] in tuple(SEPARATORS):
        return first[4:], rest
    return "", text


def _lines(text: str, separator: str) -> Iterator[tuple[int, list[str]]]:
    """Yield each record with the line where it begins. A cell may have several lines."""
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator, strict=True)
    begins = 1
    for line in reader:
        yield begins, line
        begins = reader.line_num + 1


def _columns(headers: Sequence[str]) -> list[str]:
    """Return the column for each name in the first line; empty for an unknown name."""
    names = [_COLUMN_BY_KEY.get(squeezed(header), "") for header in headers]
    unknown = [
        header for header, name in zip(headers, names, strict=True) if header.strip() and not name
    ]
    lacking = [name for name in NEEDED if name not in names]
    troubles = []
    if unknown:
        troubles.append(" ".join(map(_unknown_column_message, unknown[:_MAX_SHOWN])))
        if len(unknown) > _MAX_SHOWN:
            more = len(unknown) - _MAX_SHOWN
            troubles.append(
                ngettext(
                    "%(count)s more column is unknown.", "%(count)s more columns are unknown.", more
                )
                % {"count": more}
            )
    if lacking:
        troubles.append(
            gettext("The first line must contain the column names. Missing: %(columns)s.")
            % {"columns": ", ".join(lacking)}
        )
    twice = sorted({name for name in names if name and names.count(name) > 1})
    if twice:
        troubles.append(
            gettext("These columns appear more than once: %(columns)s.")
            % {"columns": ", ".join(twice)}
        )
    if unknown:
        troubles.append(gettext("Valid columns: %(columns)s.") % {"columns": ", ".join(COLUMNS)})
    if troubles:
        raise UnusableTable(" ".join(troubles))
    return names


def _unknown_column_message(header: str) -> str:
    word = squeezed(header)
    near = get_close_matches(word, _COLUMN_BY_KEY, n=1, cutoff=_MIN_SIMILARITY)
    near = near or [key for key in _COLUMN_BY_KEY if len(word) >= _MIN_PART_LETTERS and word in key]
    words = gettext("“%(name)s” is not a column.") % {"name": _short(header)}
    if not near:
        return words
    proposal = gettext("Did you mean %(column)s?") % {"column": _COLUMN_BY_KEY[near[0]]}
    return f"{words} {proposal}"


def _cells(names: Sequence[str], number: int, line: Sequence[str]) -> dict[str, str]:
    surplus = [
        cell
        for place, cell in enumerate(line)
        if cell.strip() and not (place < len(names) and names[place])
    ]
    if surplus:
        named = ", ".join(f"“{_short(cell)}”" for cell in surplus[:_MAX_SHOWN])
        raise UnusableTable(
            gettext(
                "Line %(line)s has more cells than the header: %(cells)s. Add the missing column "
                "names, or put text that contains a separator in quotation marks."
            )
            % {"line": number, "cells": named}
        )
    cells = dict(zip(names, line, strict=False))
    return {name: unescape_formula(cells.get(name, "").strip()) for name in COLUMNS}


def _short(text: str) -> str:
    text = visible(text.strip())
    return text if len(text) <= _LETTERS_SHOWN else f"{text[:_LETTERS_SHOWN]}…"
