"""Variants of the cases B01 to B03, each through the page: headers, damage, spellings."""

from __future__ import annotations

from html import unescape

import pytest

from backoffice.outbox.models import CommandRecord
from patients.models import Demographics, Patient
from tests.outbox.harness import OutboxHarness
from tests.outbox.test_import_cases import case_records, rows_of, upload

__all__ = ["case_records"]
PATIENT, TEST = "clinic-0000063", "Heart Kit"

HEADERS = [
    "\ufeffPATIENT,TEST,SAMPLE ID,BILLING TYPE,COLLECTION METHOD",
    "Patient,Test,Sample\u00a0ID,Billing\u00a0Type,Collection\u00a0Method",
    "patient_,_test,sample__id,billing__type,collection__method",
    "patient,test,sampleId,billingType,collectionMethod",
    " Patient : , Test : , Sample-ID: , Billing—Type: , Collection–Method: ",
    '"Patient","Test","Sample\r\nID","Billing\nType","Collection Method "',
    "\u200bpatient,te\u00adst,sample\u2060id,billing\u200dtype,collection\u200cmethod",
    "ｐａｔｉｅｎｔ,ｔｅｓｔ,ｓａｍｐｌｅ＿ｉｄ,billing type,collection method",
    "Patient*,Test*,Sample ID*,Billing.Type,Collection/Method",
    "sep=,\r\nPatient,Test,Sample Id,Billing_Type,Collection_Method",
]


@pytest.mark.parametrize("header", HEADERS)
def test_header_variants_set_payer_and_method(
    harness: OutboxHarness, case_records: Patient, header: str
) -> None:
    raw = f"{header}\r\n{PATIENT},{TEST},ODD-1,commercial_insurance,at_home_phlebotomy\r\n"
    page = upload(harness.client("clinician"), raw.encode())
    (row,) = rows_of(page)
    assert row.order_request is not None
    assert row.order_request.billing_type == "commercial_insurance"
    assert row.order_request.method == "at_home_phlebotomy"
    assert {choice.label: choice.is_default for choice in row.choices} == {
        "Billing": False, "Collection": False, "Lab account": True, "Physician": True,
    }  # fmt: skip
    text = page.content.decode()
    for choice in row.choices:
        assert f">{choice.label}</th>" in text and choice.text in unescape(text)


REFUSED = [
    ("Payer type", "“Payer type” is not a column.", ""),
    ("Bill type", "“Bill type” is not a column.", "billing_type"),
    ("Billing Type (required)", "“Billing Type (required)” is not a column.", "billing_type"),
    ("Colection Metod", "“Colection Metod” is not a column.", "collection_method"),
    ("method", "“method” is not a column.", "collection_method"),
    ("Account", "“Account” is not a column.", "lab_account"),
    ("NPI", "“NPI” is not a column.", "physician_npi"),
    ("Physican NPI", "“Physican NPI” is not a column.", "physician_npi"),
    ("Sample", "“Sample” is not a column.", "sample_id"),
    ("Unnamed: 3", "“Unnamed: 3” is not a column.", ""),
]


@pytest.mark.parametrize(("column", "words", "suggestion"), REFUSED)
def test_unknown_header_is_refused_with_a_suggestion(
    harness: OutboxHarness, case_records: Patient, column: str, words: str, suggestion: str
) -> None:
    raw = f"patient,test,sample_id,{column}\r\n{PATIENT},{TEST},ODD-1,x\r\n"
    page = upload(harness.client("clinician"), raw.encode(), "import")
    text = unescape(page.content.decode())
    assert page.status_code == 422 and words in text
    assert not suggestion or f"Did you mean {suggestion}?" in text
    assert not CommandRecord.objects.exists()


DAMAGE = [
    ("1.23457E+11", "digits are lost"),
    ("2.2E+09", "digits are lost"),
    ("1,23457E+11", "digits are lost"),
    ('="0012345"', "Enter only 0012345"),
    ("=CONCAT(A1;B1)", "formula"),
    ("'0012345", "text mark"),
    ("3-Jan", "date"),
    ("2026-11-03", "date"),
    ("11/3/26", "date"),
    ("#REF!", "spreadsheet error"),
    ("#N/A", "spreadsheet error"),
    ("########", "spreadsheet error"),
    ("12345.0", "turned into a number"),
    ("1,234,567", "turned into a number"),
    ("TRUE", "yes/no"),
]


@pytest.mark.parametrize(("sample", "words"), DAMAGE)
def test_damaged_sample_ids_are_never_sent(
    harness: OutboxHarness, case_records: Patient, sample: str, words: str
) -> None:
    cell = '"' + sample.replace('"', '""') + '"'
    raw = f"patient,test,sample_id\r\n{PATIENT},{TEST},{cell}\r\n"
    (row,) = rows_of(upload(harness.client("clinician"), raw.encode(), "import"))
    assert not row.is_importable and words in " ".join(row.faults)
    assert not CommandRecord.objects.exists()


@pytest.mark.parametrize(
    ("samples", "expected"),
    [
        (["0012345", "0012346", "12347"], ["12347"]),
        (["0012345", "12346"], ["12346"]),
        (["9012345", "9012346", "12347"], ["12347"]),
        (["12345", "12346", "12347"], []),
        (["12345", "A-1", "B-22"], []),
        (["0012345", "0012346"], []),
        (["1", "22", "333", "4444"], []),
    ],
)
def test_lost_leading_zeros_get_a_warning(
    harness: OutboxHarness, case_records: Patient, samples: list[str], expected: list[str]
) -> None:
    lines = "".join(f"{PATIENT},{TEST},{sample}\r\n" for sample in samples)
    page = upload(harness.client("clinician"), f"patient,test,sample_id\r\n{lines}".encode())
    rows = rows_of(page)
    assert [row.cells["sample_id"] for row in rows if row.warnings] == expected
    assert all(row.is_importable for row in rows), [row.faults for row in rows]
    if expected:
        assert (
            "zeros" in page.content.decode() and "compare with the paper" in page.content.decode()
        )


SAME_SAMPLE = [
    "madeup-0003",
    " MADEUP-0003 ",
    "MADEUP\u20110003",
    "MADEUP–0003",
    "MADEUP-\u200b0003",
    "\ufeffMADEUP-0003",
    "MADEUP-0003\u00a0",
    "ＭＡＤＥＵＰ－０００３",
    "MADEUP-000\u0663",
    "MA\u00adDEUP-0003",
    "MADEUP-0003\u200e",
]


@pytest.mark.parametrize("spelling", SAME_SAMPLE)
def test_other_spellings_are_the_same_sample(
    harness: OutboxHarness, case_records: Patient, spelling: str
) -> None:
    raw = (
        f"patient,test,sample_id\r\n{PATIENT},{TEST},MADEUP-0003\r\n"
        f'{PATIENT},{TEST},"{spelling}"\r\n'
    )
    first, second = rows_of(upload(harness.client("clinician"), raw.encode(), "import"))
    assert first.is_importable and second.faults == ["Line 2 has the same sample ID."]
    assert CommandRecord.objects.count() == 1
    assert CommandRecord.objects.get().payload["body"]["sample_id"] == "MADEUP-0003"


UNUSABLE = [
    ("MADEUP\n-0003", "Character 7", "a line break"),
    ("MADEUP\t-0003", "Character 7", "a tab"),
    ("MADEUP\x1b-0003", "Character 7", "U+001B"),
    ("MADEUP\x7f-0003", "Character 7", "U+007F"),
    ("MADEUP\u202e-0003", "Character 7", "U+202E"),
    ("MADEUP\u2066-0003", "Character 7", "U+2066"),
    ("MADEUP\ufffd-0003", "Character 7", "damaged"),
    ("M\u0410DEUP-0003", "Character 2", "not a Latin letter"),
    ("MADEUP\ue000-0003", "Character 7", "U+E000"),
    ("MADEUP\U000e0041-0003", "Character 7", "U+E0041"),
]


@pytest.mark.parametrize(("sample", "place", "description"), UNUSABLE)
def test_unusable_characters_are_refused_with_position(
    harness: OutboxHarness,
    case_records: Patient,
    person: Demographics,
    sample: str,
    place: str,
    description: str,
) -> None:
    client = harness.client("clinician")
    raw = f'patient,test,sample_id\r\n{PATIENT},{TEST},"{sample}"\r\n'
    page = upload(client, raw.encode(), "import")
    (row,) = rows_of(page)
    faults = " ".join(row.faults)
    assert not row.is_importable and faults.count(place) == 1 and description in faults
    assert place in page.content.decode()
    assert not CommandRecord.objects.exists()
