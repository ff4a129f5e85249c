"""Import tables: encodings, separators, headers, surplus cells and spreadsheet damage."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backoffice.core.spreadsheets import damage_message, warning_message
from orders.placing import sheet_import
from orders.placing.table_reader import COLUMNS, ImportRow, UnusableTable, read

HEADER = "patient,test,sample_id"


@pytest.mark.parametrize(
    "header",
    [
        "Patient,TEST,Sample ID,Billing Type,Collection Method,Lab-Account,Physician NPI",
        " patient , Test,sample-id,billing-type,collection method,LAB_ACCOUNT,physician.npi",
        '"Patient","Test","Sample\nID",BillingType,collectionMethod,lab account,PhysicianNPI',
        "\u200bpatient,te\u00adst,Sample\u00a0ID,billing–type,collection__method,lab account:,npi?",
    ],
)
def test_headers_are_read_in_any_spelling(header: str) -> None:
    header = header.replace("npi?", "Physician npi ")
    (row,) = read(f"{header}\r\na,b,c,d,e,f,g\r\n".encode())
    assert row.cells == dict(zip(COLUMNS, "abcdefg", strict=True))


@pytest.mark.parametrize(
    ("column", "words"),
    [
        ("Biling Typ", "“Biling Typ” is not a column. Did you mean billing_type?"),
        ("Collected by", "“Collected by” is not a column."),
        ("account", "“account” is not a column. Did you mean lab_account?"),
        ("zzz", "“zzz” is not a column. Valid columns: patient, test,"),
        ("sample id", "These columns appear more than once: sample_id."),
        ("\x1b[31m", "“␣[31m” is not a column."),
    ],
)
def test_unknown_or_repeated_headers_are_refused_by_name(column: str, words: str) -> None:
    with pytest.raises(UnusableTable) as error:
        read(f'{HEADER},"{column}"\na,b,c,d\n'.encode())
    assert words in str(error.value)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (f"{HEADER}\na,b,c\nd,e,f,client_bill\n", "Line 3 has more cells"),
        (f"{HEADER},\na,b,c,left over\n", "“left over”"),
        (f"{HEADER},,\na,b,c,,\nd,e,f,,x\n", "Line 3"),
        ("patient;test;sample_id\na;b;c;d\n", "“d”"),
    ],
)
def test_surplus_cells_are_refused_by_name_and_line(text: str, words: str) -> None:
    with pytest.raises(UnusableTable) as error:
        read(text.encode())
    assert words in str(error.value)


def test_empty_columns_and_blank_lines_are_skipped() -> None:
    text = f"\r\n , ,\r\n{HEADER},,\r\n\r\na,b,c,,\r\n,,,,\r\nd,e,f\r\n\r\n"
    rows = read(text.encode())
    assert [(row.number, row.cells["sample_id"]) for row in rows] == [(5, "c"), (7, "f")]


@pytest.mark.parametrize(
    "encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "cp1252"]
)
def test_encodings_of_spreadsheets_are_read(encoding: str) -> None:
    (row,) = read("patient\ttest\tsample_id\nréf-1\tÉtude – 2\tS-1\n".encode(encoding))
    assert (row.cells["patient"], row.cells["test"]) == ("réf-1", "Étude – 2")


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        (b"PK\x03\x04rest", "spreadsheet file"),
        (b"\xd0\xcf\x11\xe0rest", "spreadsheet file"),
        (b"%PDF-1.7", "PDF"),
        (b"patient,test,sample_id\n\x81,b,c\n", "encoding is unknown"),
        (b"\xff\xfeabc", "encoding is unknown"),
        (b"patient,test,sample_id\na,\x00,c\n", "not a text table"),
    ],
)
def test_files_of_another_kind_are_refused_with_cause(raw: bytes, words: str) -> None:
    with pytest.raises(UnusableTable) as error:
        read(raw)
    assert words in str(error.value)


@pytest.mark.parametrize("separator", [",", ";", "\t"])
def test_separators_and_quoted_line_breaks_are_read(separator: str) -> None:
    column = separator.join(COLUMNS)
    line = separator.join(['"a, b; c"', '"two\nlines"', '"say ""x"""', "", "", "", ""])
    (row,) = read(f"{column}\n{line}\n".encode())
    assert list(row.cells.values())[:3] == ["a, b; c", "two\nlines", 'say "x"']
    (named,) = read(f"sep={separator}\r\n{column}\r\n{line}\r\n".encode())
    assert named.cells == row.cells and named.number == 3


@given(
    st.lists(
        st.lists(st.text(max_size=8), min_size=3, max_size=7).filter(
            lambda cells: bool("".join(cells).strip())
        ),
        min_size=1,
        max_size=4,
    )
)
def test_table_survives_round_trips_through_page(cells: list[list[str]]) -> None:
    rows = [
        ImportRow(
            number, dict(zip(COLUMNS, [*(cell.strip() for cell in line), *[""] * 4], strict=False))
        )
        for number, line in enumerate(cells, start=2)
    ]
    if any("\x00" in cell for row in rows for cell in row.cells.values()):
        return
    once = read(sheet_import.write_table(rows, reasons=False).encode("utf-8", "replace"))
    again = read(sheet_import.write_table(once, reasons=False).encode())
    assert [row.cells for row in again] == [row.cells for row in once]


DAMAGED = (
    *("1.23457E+11", "1,23457E+11", "2.19E+26", "1E+05", "1.2e-05", '="0012345"', "=A1+1"),
    *("'0012345", "3-Jan", "Jan-03", "03-Jan-26", "3. Mar", "Mar 3, 2026", "1/3/2026", "01.03.26"),
    *("2026-01-03", "2026-01-03 00:00:00", "1/3", "12345.0", "12345,00", "1,234,567", "12,345"),
    *("#N/A", "#REF!", "#########", "nan", "NULL", "TRUE", "8:30", "08:30:00 AM"),
    *("-", "---", "…", "."),
)
VALID = (
    *("12345", "0012345", "12E5001", "1E10", "MAR-0001", "DEC-12", "MADEUP-0003", "3-JAN-0004"),
    *("12-MARKER", "2026/45", "2026-0103", "12.345", "A1.0", "S-1/2", "K123456789", "1-2-3", "E+1"),
)


@pytest.mark.parametrize("text", DAMAGED)
def test_spreadsheet_damage_is_recognized(text: str) -> None:
    words = damage_message(text)
    assert f"“{text}”" in words and words.endswith(".")


@pytest.mark.parametrize("text", VALID)
def test_valid_sample_ids_are_no_damage(text: str) -> None:
    assert damage_message(text) == ""


def test_lost_digits_and_lookalike_letters_get_warnings() -> None:
    assert "Compare it with the paper" in warning_message("123456789012345000")
    assert "look like Latin ones" in warning_message("\u0410\u0412-0012")
    assert (
        not warning_message("\u0411\u0412-0012")
        and not warning_message("AB-0012")
        and not warning_message("0012")
    )
    assert not warning_message("123456789012345") and not warning_message("1234567890123450001")
