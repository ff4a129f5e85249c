"""Made-up results of parsing a report: a function of the digest of the file."""

from __future__ import annotations

from datetime import date, datetime, timedelta
from typing import Any, NamedTuple

from sandbox.keyed_random import KeyedRandom
from sandbox.models import User, UserInfo

Record = dict[str, Any]


class ReportLine(NamedTuple):
    """A line a report can have; `low` and `high` are its reference range."""

    name: str
    kind: str
    units: str | None
    low: float | None
    high: float | None
    loinc: tuple[str, str] | None
    panel: str | None = None
    sample: str = "serum_plasma_blood"
    measured: str = "direct"
    texts: tuple[str, ...] = ()


LINES = (
    ReportLine(
        "Glucose", "numeric", "mg/dL", 70, 99, ("2345-7", "Glucose [Mass/volume]"), "Metabolic",
    ),
    ReportLine(
        "Sodium", "numeric", "mmol/L", 135, 146, ("2951-2", "Sodium [Moles/volume]"), "Metabolic",
    ),
    ReportLine("Creatinine", "numeric", "mg/dL", 0.6, 1.3, ("2160-0", "Creatinine"), "Metabolic"),
    ReportLine(
        "LDL Cholesterol", "numeric", "mg/dL", 40, 99, ("13457-7", "Cholesterol in LDL"), "Lipids",
        measured="calculated",
    ),
    ReportLine(
        "Vitamin D, 25-Hydroxy", "numeric", "ng/mL", 30, 100, ("1989-3", "25-hydroxyvitamin D3"),
    ),
    ReportLine(
        "Hemoglobin A1c", "percentage", "%", 4, 5.6, ("4548-4", "Hemoglobin A1c/Hemoglobin"),
    ),
    ReportLine("Hematocrit", "percentage", "%", 36, 46, ("4544-3", "Hematocrit"), "Blood count"),
    ReportLine("C-Reactive Protein", "range", "mg/L", 0, 3, ("1988-5", "C reactive protein")),
    ReportLine(
        "Prostate Specific Antigen", "range", "ng/mL", 0, 4, ("2857-1", "Prostate specific Ag"),
    ),
    ReportLine(
        "Hepatitis C Antibody", "boolean", None, None, None, ("16128-1", "Hepatitis C virus Ab"),
        texts=("Negative", "Positive"),
    ),
    ReportLine(
        "Urine Ketones", "boolean", None, None, None, None, "Urinalysis", "urine",
        texts=("no", "yes"),
    ),
    ReportLine(
        "Urine Appearance", "comment", None, None, None, ("5767-9", "Appearance of Urine"),
        "Urinalysis", "urine", texts=("Clear, yellow", "Cloudy, amber"),
    ),
    ReportLine(
        "Prothrombin Time", "duration", "seconds", 11, 13.5, ("5902-2", "Prothrombin time (PT)"),
    ),
    ReportLine("Clotting Time", "duration", "minutes", 4, 10, None),
    ReportLine(
        "Albumin/Creatinine", "ratio", "mg/g", None, None, ("9318-7", "Albumin/Creatinine"),
        sample="urine", measured="ratio",
    ),
    ReportLine(
        "Antinuclear Antibody Titer", "ratio", None, None, None, ("5048-4", "Nuclear Ab titer"),
    ),
    ReportLine(
        "Viral Load", "numeric", "copies/mL", 0, 50, None, sample="unknown", measured="unknown",
    ),
)  # fmt: skip
FEWEST = 6
FORMATS = ("%m/%d/%Y", "%Y-%m-%d", "%d %b %Y")


def parse_report(seed: int, digest: str, user: User, at: datetime) -> Record:
    """ParsedLabReportData (errors-and-limits.md 7.3)."""
    rng = KeyedRandom(seed, "report", digest)
    lines = rng.sample(LINES, rng.integer(FEWEST, len(LINES)))
    return {
        "metadata": _metadata(rng, user, at),
        "results": [
            _result(KeyedRandom(seed, "report", digest, line.name), line) for line in lines
        ],
    }


def review(data: Record) -> Record:
    """Return the data after human review: open matches are decided, one text is corrected."""
    results = [
        each | {"loinc_match_status": "auto_match" if each["loinc_matches"] else "no_match"}
        if each["loinc_match_status"] == "needs_review"
        else each
        for each in data["results"]
    ]
    metadata = data["metadata"]
    if metadata["specimen_number"] is None:
        metadata = metadata | {"specimen_number": "SP-REVIEWED"}
    return {"metadata": metadata, "results": results}


def _metadata(rng: KeyedRandom, user: User, at: datetime) -> Record:
    info = UserInfo.objects.filter(user=user).first()
    written = rng.choice(FORMATS)
    collected = at.date() - timedelta(days=rng.integer(3, 400))
    reported = collected + timedelta(days=rng.integer(1, 6))

    def shown(day: date) -> str:
        return day.strftime(written)

    gender = info.gender if info and info.gender in ("male", "female") else "other"
    return {
        "patient_first_name": info.first_name if info else None,
        "patient_last_name": info.last_name if info else None,
        "dob": shown(info.dob) if info and rng.chance(0.9) else None,
        "gender": gender,
        "lab_name": rng.choice(("Made-up Reference Laboratory", "Sample Clinic Laboratory", None)),
        "date_reported": shown(reported),
        "date_collected": shown(collected) if rng.chance(0.9) else None,
        "specimen_number": f"SP{rng.digits(7)}" if rng.chance(0.8) else None,
    }


def _result(rng: KeyedRandom, line: ReportLine) -> Record:
    value, number, interpretation = _value(rng, line)
    above = below = None
    if number is not None and line.low is not None and line.high is not None:
        above, below = number > line.high, number < line.low
        interpretation = "abnormal" if above or below else "normal"
        if number > 2 * line.high:
            interpretation = "critical"
    matches, status = _matches(rng, line)
    return {
        "test_name": line.name,
        "value": value,
        "sample_type": line.sample,
        "measurement_kind": line.measured,
        "type": line.kind,
        "units": line.units,
        "max_reference_range": line.high,
        "min_reference_range": line.low,
        "source_panel_name": line.panel,
        "sensitivity": rng.choice(("unknown", "sensitive", "insensitive")),
        "loinc_matches": matches,
        "loinc_match_status": status,
        "interpretation": interpretation,
        "is_above_max_range": above,
        "is_below_min_range": below,
    }


def _value(rng: KeyedRandom, line: ReportLine) -> tuple[str, float | None, str]:
    """Return the printed text, its number if there is one, and its meaning if there is none."""
    if line.texts:
        odd = rng.chance(0.2)
        return line.texts[odd], None, "abnormal" if odd else "normal"
    low, high = line.low or 0, line.high or 1
    number = round(low + (high - low) * rng.uniform(-0.15, 1.3), 1)
    number = max(0.1, number)
    match line.kind:
        case "percentage":
            return f"{number} %", number, "unknown"
        case "duration":
            return f"{number} {line.units}", number, "unknown"
        case "range" if rng.chance(0.7):
            return f"<{high / 2:g}", None, "normal"
        case "range":
            return f"{high:g}-{high * 1.5:g}", None, "unknown"
        case "ratio" if line.units is None:
            return f"1/{40 * 2 ** rng.integer(0, 4)}", None, "unknown"
        case "ratio":
            return f"{rng.integer(4, 40)}/{rng.integer(1, 9)}", None, "unknown"
        case "numeric" if line.name == "Viral Load":
            return f"{rng.uniform(1, 9):.1f}e{rng.integer(2, 5)}", None, "unknown"
    return f"{number:g}", number, "unknown"


def _matches(rng: KeyedRandom, line: ReportLine) -> tuple[list[Record] | None, str]:
    """Candidates, best first."""
    if line.loinc is None:
        return ([] if rng.chance(0.5) else None), "no_match"
    sure = rng.chance(0.75)
    code, name = line.loinc
    best = rng.uniform(0.92, 0.99) if sure else rng.uniform(0.55, 0.8)
    found = [
        {
            "loinc_code": code,
            "loinc_name": name,
            "display_name": line.name,
            "aliases": [line.name.upper()],
            "confidence_score": round(best, 3),
        }
    ]
    for place in range(0 if sure else rng.integer(1, 4)):
        other = rng.choice([each.loinc for each in LINES if each.loinc not in (None, line.loinc)])
        if other is None or other[0] in [each["loinc_code"] for each in found]:
            continue
        found.append(
            {
                "loinc_code": other[0],
                "loinc_name": other[1],
                "display_name": other[1],
                "aliases": [],
                "confidence_score": round(best - 0.1 * (place + 1), 3),
            }
        )
    return found, "auto_match" if sure else "needs_review"
