"""Names, places, tests and results of the generated data set."""

from __future__ import annotations

from typing import Any, Final

_ONSETS: Final = (
    "Al", "Bel", "Cá", "Da", "É", "Fi", "Ga", "Hé", "In", "Jo", "Ka", "Li", "Mi", "Nu", "Ol",
    "Pé", "Ro", "Sa", "Tö", "Ul", "Vi", "Wa", "Xi", "Ye", "Zo", "Łu", "Ø", "Sha", "Bri", "Che",
)  # fmt: skip
_ENDS: Final = (
    "na", "ra", "lia", "mé", "rin", "dor", "vis", "tan", "bel", "ro", "nia", "sa", "lo", "min",
    "ka", "ten", "ley", "do", "ría", "cy",
)  # fmt: skip
_STEMS: Final = (
    "Sample", "Madeup", "Testper", "Fixtu", "Mockle", "Demo", "Pretén", "Invent", "Notre",
    "Dummy", "Núñe", "Placeh", "Imagin", "Exampl", "O'Sampl", "Van Test", "Sølv", "Prób", "Ersatz",
    "Fauxm", "Shamw", "Pseud", "Maket", "Probel", "Essai",
)  # fmt: skip
_TAILS: Final = (
    "son", "ley", "ez", "ová", "man", "ski", "berg", "ford", "wick", "sen", "ton", "ner", "quist",
    "dottir", "ard", "ini", "escu", "ian", "ko", "oğlu", "field", "worth", "by", "gård", "stein",
    "ham", "well", "more", "land", "wood", "ström", "as", "ides", "ar", "ette", "ault", "eaux",
    "mark", "holt", "vik",
)  # fmt: skip
FIRST_NAMES: Final = [f"{one}{two}" for one in _ONSETS for two in _ENDS]
LAST_NAMES: Final = [f"{one}{two}" for one in _STEMS for two in _TAILS]

PLACES: Final = (
    ("Phoenix", "AZ", "85004", "America/Phoenix"),
    ("Denver", "CO", "80203", "America/Denver"),
    ("Chicago", "IL", "60604", "America/Chicago"),
    ("New York", "NY", "10007", "America/New_York"),
    ("San Diego", "CA", "92101", "America/Los_Angeles"),
    ("Austin", "TX", "78701", "America/Chicago"),
    ("Honolulu", "HI", "96813", "Pacific/Honolulu"),
    ("Anchorage", "AK", "99501", "America/Anchorage"),
    ("Boise", "ID", "83702", "America/Boise"),
    ("Miami", "FL", "33130", "America/New_York"),
)
LABS: Final = ("north", "south", "coast", "hill", "river", "desert")
PANELS: Final = (
    "Made-up metabolic panel", "Sample lipid panel", "Demo thyroid panel", "Fixture blood count",
    "Pretend iron panel", "Mock vitamin panel", "Example hormone panel", "Notreal kidney panel",
    "Invented liver panel", "Dummy sugar panel", "Made-up allergy panel", "Sample heart panel",
)  # fmt: skip
MARKERS_A_PANEL: Final = 10
INTERPRETATIONS: Final = (
    "normal",
    "normal",
    "normal",
    "abnormal",
    "abnormal",
    "critical",
    "unknown",
)
"""Variants of the results of each panel, by interpretation."""


def lab(number: int) -> dict[str, Any]:
    slug = LABS[number]
    return {
        "id": 900 + number,
        "slug": f"lab-{slug}",
        "name": f"Lab {slug.capitalize()}",
        "first_line_address": f"{number + 1} Sample Street",
        "city": PLACES[number][0],
        "zipcode": PLACES[number][2],
        "collection_methods": ["testkit", "walk_in_test"],
        "sample_types": ["serum"],
    }


def lab_test(method: str, number: int) -> dict[str, Any]:
    """Return one of twelve tests of a collection method. Each belongs to a panel and a lab."""
    return {
        "id": f"1ab7e570-0000-4000-8000-{len(method):04d}{number:08d}",
        "slug": f"made-up-{method}-{number}",
        "name": f"{PANELS[number]}",
        "sample_type": "serum",
        "method": method,
        "price": 40.0 + number,
        "is_active": True,
        "status": "active",
        "fasting": number % 3 == 0,
        "lab": lab(number % len(LABS)),
        "is_delegated": False,
        "auto_generated": False,
    }


ACCOUNTS: Final = 300


def account(number: int) -> dict[str, Any]:
    return {
        "id": f"acc00000-0000-4000-8000-{number:012d}",
        "lab": f"lab-{LABS[number % len(LABS)]}",
        "status": ("active", "active", "pending", "suspended")[number % 4],
        "delegated_flow": ("order_delegated", "result_delegated")[number % 2],
        "provider_account_id": f"{70000 + number}",
        "account_name": f"{LAST_NAMES[number]} clinic",
        "allowed_billing": {"client_bill": ["AZ", "NY"]},
        "team_id_allowlist": ["7ea00000-0000-4000-8000-000000000001"],
    }


def result(panel: int, variant: int) -> dict[str, Any]:
    """Return a result with `format` placeholders:

    1 name, 2 birth date, 3 collected, 4 reported, 5 specimen, 6 status, 7 patient ID.
    """
    interpretation = INTERPRETATIONS[variant]
    lines = []
    for position in range(MARKERS_A_PANEL):
        is_outside = interpretation != "normal" and position % 5 == variant % 5
        value = 40.0 + 3 * position + variant + (70 if is_outside else 0)
        code = f"marker-{panel}-{position}"
        lines.append(
            {
                "name": f"{PANELS[panel].split()[1].capitalize()} marker {position + 1}",
                "slug": code,
                "value": value,
                "result": f"{value:g}",
                "type": "numeric",
                "unit": "mg/dL",
                "timestamp": "%4$s",
                "reference_range": "30-90",
                "min_range_value": 30.0,
                "max_range_value": 90.0,
                "is_above_max_range": value > 90,
                "is_below_min_range": False,
                "interpretation": interpretation if is_outside else "normal",
                "loinc": f"{1000 + panel * 16 + position}-{position}",
                "loinc_slug": code,
                "provider_id": f"P{panel:02d}{position:02d}",
            }
        )
    missing = {
        "name": "Marker that was not measured",
        "slug": "not-measured",
        "inferred_failure_type": "quantity_not_sufficient_failure",
        "note": "Not enough sample",
        "loinc": "9999-9",
        "loinc_slug": "not-measured",
    }
    return {
        "metadata": {
            "age": "40",
            "dob": "%2$s",
            "patient": "%1$s",
            "laboratory": f"Lab {LABS[panel % len(LABS)].capitalize()}",
            "date_collected": "%3$s",
            "date_received": "%3$s",
            "date_reported": "%4$s",
            "specimen_number": "%5$s",
            "status": "%6$s",
            "interpretation": interpretation,
            "patient_id": "%7$s",
        },
        "results": lines,
        "missing_results": [missing] if variant == 4 else None,
    }
