"""Review of a parsed report: checked and corrected rows, comparison with the patient."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from typing import Final

from django.db import transaction
from django.utils.translation import gettext, gettext_noop

from backoffice.accounts.models import User
from backoffice.core.vocabulary.interpretations import Reading, as_received, read_line
from backoffice.core.vocabulary.measures import number_of
from backoffice.service.json_text import JsonObject
from labs.reports.acceptance import ReportChanged, digest, latest_checks
from labs.reports.models import Report, ReportJob, ReportResult, RowCheck
from patients.identity_comparison import Agreement, compare_birth_dates, compare_name_parts
from patients.models import Demographics

CORRECTABLE: Final = (
    "test_name",
    "value",
    "units",
    "min_reference_range",
    "max_reference_range",
    "interpretation",
    "loinc_code",
)

_VALUE_COLUMNS: Final = ("value", "units", "min_reference_range", "max_reference_range")

_UNITS: Final = (
    "% %{total} g/dl g/l mg/dl mg/l ug/dl µg/dl ug/l µg/l ng/dl ng/ml ng/l pg/ml pg/dl mmol/l"
    " umol/l µmol/l nmol/l pmol/l mmol/mol meq/l mosm/kg iu/l iu/ml u/l u/ml miu/l miu/ml uiu/ml"
    " µiu/ml ku/l kiu/l fl pg g mg ml l /ul /µl 10*3/ul 10^3/ul x10e3/ul k/ul thou/ul 10*6/ul"
    " 10^6/ul x10e6/ul m/ul 10*9/l 10^9/l 10*12/l 10^12/l cells/ul cells/mcl mcg/dl mcg/l mcl"
    " mm/h mm/hr ml/min ml/min/1.73 ml/min/1.73m2 mg/g mg/24h g/24h sec s seconds min h ratio"
    " minutes hours days index mg/mmol copies/ml mmhg kpa ph au/ml units"
)
KNOWN_UNITS: Final = frozenset(_UNITS.split())
"""Units as labs print them, folded. Other units are highlighted but allowed."""

CONFIDENCE: Final = (
    (0.9, gettext_noop("very likely")),
    (0.7, gettext_noop("likely")),
    (0.4, gettext_noop("possible")),
    (0.0, gettext_noop("doubtful")),
)


# Rows


@dataclass(frozen=True, slots=True)
class LoincMatch:
    """A LOINC code that the service found, with its confidence as text."""

    code: str
    name: str
    confidence: str


@dataclass(frozen=True, slots=True)
class ReviewedRow:
    """One row as staff see it: the parsed row with the latest check."""

    parsed: ReportResult
    check: RowCheck | None
    outdated: bool
    """Whether the latest check was of an earlier parsed version of this row."""

    @property
    def corrections(self) -> JsonObject:
        return self.check.corrections if self.check and not self.outdated else {}

    @property
    def checked(self) -> bool:
        return bool(self.check and self.check.checked and not self.outdated)

    @property
    def reading(self) -> str:
        return bytes(self.parsed.reading).hex()

    @property
    def latest(self) -> int:
        return self.check.pk if self.check else 0

    @property
    def values(self) -> JsonObject:
        """The current value of every correctable column."""
        return {name: self.corrections.get(name, self.parsed_value(name)) for name in CORRECTABLE}

    def parsed_value(self, name: str) -> object:
        """Return the value of a column as the service read it."""
        if name == "loinc_code":
            return self.matches[0].code if self.matches else None
        if name == "interpretation":
            return self.parsed.interpretation_received
        return getattr(self.parsed, name)

    @property
    def changed(self) -> list[tuple[str, object]]:
        """Labels of the corrected columns with the values that the service had read."""
        parsed = {name: self.parsed_value(name) for name in CORRECTABLE if name in self.corrections}
        return [
            (
                gettext(COLUMN_LABELS[name]),
                format_limit(value) if isinstance(value, float) else value,
            )
            for name, value in parsed.items()
        ]

    @property
    def number(self) -> float | None:
        return number_of(str(self.values["value"]).strip().removesuffix("%"))

    @property
    def unit(self) -> str:
        """The unit to show after the value; empty if the value includes it."""
        units = self.values["units"] or ""
        return "" if str(self.values["value"]).rstrip().endswith(units) else units

    @property
    def meaning(self) -> Reading:
        """Return our interpretation of the row.

        After a correction of value or range, the service's flags for above and below are ignored.
        """
        values = self.values
        is_as_read = not self.corrections.keys() & {*_VALUE_COLUMNS}
        return read_line(
            values["interpretation"],
            type=self.parsed.type,
            text=str(values["value"]),
            unit=values["units"],
            low=values["min_reference_range"],
            high=values["max_reference_range"],
            above=self.parsed.is_above_max_range if is_as_read else None,
            below=self.parsed.is_below_min_range if is_as_read else None,
        )

    @property
    def flagged(self) -> str:
        return self.meaning.interpretation

    @property
    def side(self) -> str:
        return self.meaning.side

    @property
    def word(self) -> str | None:
        """Return the printed interpretation if it differs from our reading, else None."""
        return as_received(self.values["interpretation"], self.flagged)

    @property
    def range(self) -> str:
        low, high = self.values["min_reference_range"], self.values["max_reference_range"]
        if low is not None and high is not None:
            return f"{format_limit(low)} – {format_limit(high)}"
        if high is not None:
            return gettext("up to %(limit)s") % {"limit": format_limit(high)}
        if low is not None:
            return gettext("from %(limit)s") % {"limit": format_limit(low)}
        return ""

    @property
    def matches(self) -> list[LoincMatch]:
        return [
            LoincMatch(
                str(match.get("loinc_code") or ""),
                str(match.get("display_name") or match.get("loinc_name") or ""),
                confidence(match.get("confidence_score")),
            )
            for match in self.parsed.loinc_matches
            if isinstance(match, dict) and match.get("loinc_code")
        ]

    @property
    def doubts(self) -> list[str]:
        """Return reasons to highlight this row. None of them blocks the acceptance."""
        texts = []
        units = self.values["units"]
        if self.parsed.type in ("numeric", "range", None) and self.number is not None and not units:
            texts.append(gettext("No unit"))
        elif units and _folded_unit(units) not in KNOWN_UNITS and "units" not in self.corrections:
            texts.append(gettext("Unrecognized unit"))
        if "loinc_code" not in self.corrections:
            status = self.parsed.loinc_match_status
            if not self.matches or status == "no_match":
                texts.append(gettext("No code found"))
            elif status != "auto_match":
                texts.append(gettext("Verify code"))
        return texts


COLUMN_LABELS: Final[dict[str, str]] = {
    "test_name": gettext_noop("Name"),
    "value": gettext_noop("Value"),
    "units": gettext_noop("Unit"),
    "min_reference_range": gettext_noop("Lower limit"),
    "max_reference_range": gettext_noop("Upper limit"),
    "interpretation": gettext_noop("Interpretation"),
    "loinc_code": gettext_noop("LOINC code"),
}


def confidence(score: object) -> str:
    """Return a score from 0 to 1 as text."""
    if isinstance(score, bool) or not isinstance(score, int | float):
        return gettext("confidence not given")
    return gettext(next((words for least, words in CONFIDENCE if score >= least), "doubtful"))


def format_limit(number: float) -> str:
    """Return a reference limit with all its digits, without an exponent for common sizes."""
    if number and not 1e-9 < abs(number) < 1e16:
        return repr(number)
    return format(Decimal(repr(number)), "f").removesuffix(".0")


def _folded_unit(units: str) -> str:
    return units.lower().replace("μ", "µ").replace(" ", "")


def reviewed_rows(report: Report) -> list[ReviewedRow]:
    """Return the rows of a report's job in the order of the document, by two queries."""
    if report.job_id is None:
        return []
    latest: dict[int, RowCheck] = {}
    checks = RowCheck.objects.filter(report=report, job_id=report.job_id).select_related("by")
    for check in checks.order_by("id"):
        latest[check.position] = check
    return [
        _reviewed_row(row, latest.get(row.position))
        for row in ReportResult.objects.filter(job_id=report.job_id).order_by("position")
    ]


def reviewed_row(report: Report, position: int) -> ReviewedRow | None:
    """Return one row, or None if there is none at this position."""
    row = ReportResult.objects.filter(job_id=report.job_id, position=position).first()
    if row is None or report.job_id is None:
        return None
    check = (
        RowCheck.objects.filter(report=report, job_id=report.job_id, position=position)
        .select_related("by")
        .order_by("-id")
        .first()
    )
    return _reviewed_row(row, check)


def _reviewed_row(row: ReportResult, check: RowCheck | None) -> ReviewedRow:
    outdated = check is not None and bytes(check.reading) != bytes(row.reading)
    return ReviewedRow(row, check, outdated)


@dataclass(frozen=True, slots=True)
class CheckOutcome:
    """A row after a check, and the page digest of the report right before and after the check."""

    row: ReviewedRow
    before: str
    after: str


def check_row(
    report: Report,
    position: int,
    by: User,
    *,
    reading: str,
    latest: int,
    checked: bool,
    values: JsonObject | None = None,
) -> CheckOutcome:
    """Mark a row as checked or unchecked, with corrected `values` (None: keep the corrections).

    Raises ReportChanged if the row is not the one that the person saw, and then changes nothing. An
    acceptance does not cover later checks.
    """
    with transaction.atomic(durable=True):
        locked = Report.objects.select_for_update().get(pk=report.pk)
        # Read the job before the row: if it is stored in between, the page digest is outdated.
        job = ReportJob.objects.only("content_hash").filter(report=locked.pk).first()
        row = reviewed_row(locked, position)
        if row is None or job is None or row.reading != reading or row.latest != latest:
            raise ReportChanged
        corrections = dict(row.corrections)
        if values is not None:
            corrections = {
                name: values[name]
                for name in CORRECTABLE
                if name in values and _is_changed(values[name], row.parsed_value(name))
            }
        checks = latest_checks(locked)
        check = RowCheck.objects.create(
            report=report,
            job_id=row.parsed.job_id,
            position=position,
            reading=bytes.fromhex(reading),
            checked=checked,
            corrections=corrections,
            by=by,
        )
        if locked.accepted_at is not None:
            Report.objects.filter(pk=report.pk).update(changed_since_accepted=True)
    check.by = by
    return CheckOutcome(
        ReviewedRow(row.parsed, check, outdated=False),
        digest(job, checks).hex(),
        digest(job, {**checks, position: check.pk}).hex(),
    )


def _is_changed(value: object, parsed: object) -> bool:
    return (value or None) != (parsed or None) if isinstance(value, str) else value != parsed


# Comparison with the patient


@dataclass(frozen=True, slots=True)
class PersonFact:
    """One fact about the person, as printed and as stored.

    `same`: whether they agree; None if one of them is missing.
    """

    label: str
    printed: str
    known: str | date | None
    same: bool | None


def compare_with_patient(job: ReportJob, person: Demographics | None) -> list[PersonFact]:
    """Compare name and birth date on the report with those of the patient."""
    first, last = job.patient_first_name or "", job.patient_last_name or ""
    stored_first, stored_last = (person.first_name, person.last_name) if person else ("", "")
    printed_dob, stored_dob = job.dob or "", person.dob if person else None
    return [
        PersonFact(
            gettext_noop("Name"),
            " ".join(part for part in (first, last) if part),
            " ".join(part for part in (stored_first, stored_last) if part),
            IS_SAME[compare_name_parts(first, last, stored_first, stored_last)],
        ),
        PersonFact(
            gettext_noop("Birth date"),
            printed_dob,
            stored_dob,
            IS_SAME[compare_birth_dates(printed_dob, stored_dob)],
        ),
    ]


IS_SAME: Final[Mapping[Agreement, bool | None]] = {
    Agreement.SAME: True,
    Agreement.DIFFERENT: False,
    Agreement.UNKNOWN: None,
}


def has_contradiction(facts: Iterable[PersonFact]) -> bool:
    """Whether any fact differs. Missing facts do not."""
    return any(fact.same is False for fact in facts)
