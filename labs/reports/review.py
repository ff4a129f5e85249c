"""What people make of a read report: rows checked and corrected, names compared."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final

from django.db import transaction

from backoffice.core.vocabulary.interpretations import Reading, as_received, read_line
from backoffice.core.vocabulary.measures import number_of
from backoffice.models import User
from labs.reports.acceptance import Overtaken, digest, last_words
from labs.reports.models import Report, ReportJob, ReportResult, RowCheck
from patients.identity import Agreement, compare_birth_dates, compare_name_parts
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

_MEASURED: Final = ("value", "units", "min_reference_range", "max_reference_range")

_UNITS: Final = (
    "% %{total} g/dl g/l mg/dl mg/l ug/dl µg/dl ug/l µg/l ng/dl ng/ml ng/l pg/ml pg/dl mmol/l"
    " umol/l µmol/l nmol/l pmol/l mmol/mol meq/l mosm/kg iu/l iu/ml u/l u/ml miu/l miu/ml uiu/ml"
    " µiu/ml ku/l kiu/l fl pg g mg ml l /ul /µl 10*3/ul 10^3/ul x10e3/ul k/ul thou/ul 10*6/ul"
    " 10^6/ul x10e6/ul m/ul 10*9/l 10^9/l 10*12/l 10^12/l cells/ul cells/mcl mcg/dl mcg/l mcl"
    " mm/h mm/hr ml/min ml/min/1.73 ml/min/1.73m2 mg/g mg/24h g/24h sec s seconds min h ratio"
    " minutes hours days index mg/mmol copies/ml mmhg kpa ph au/ml units"
)
KNOWN_UNITS: Final = frozenset(_UNITS.split())
"""Units as labs print them, folded; another one is shown in amber and blocks nothing."""

CONFIDENCE: Final = ((0.9, "very likely"), (0.7, "likely"), (0.4, "possible"), (0.0, "doubtful"))


# Rows


@dataclass(frozen=True, slots=True)
class Match:
    """A LOINC code the service found, and how sure it is in words."""

    code: str
    name: str
    confidence: str


@dataclass(frozen=True, slots=True)
class Line:
    """One row as staff see it: what was read, and what a person made of it."""

    parsed: ReportResult
    check: RowCheck | None
    outdated: bool
    """The latest word of a person was about another reading of this row."""

    @property
    def corrections(self) -> Mapping[str, Any]:
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
    def shown(self) -> dict[str, Any]:
        """Every correctable column as it now stands."""
        return {name: self.corrections.get(name, self.read(name)) for name in CORRECTABLE}

    def read(self, name: str) -> Any:
        if name == "loinc_code":
            return self.matches[0].code if self.matches else None
        if name == "interpretation":
            return self.parsed.interpretation_received
        return getattr(self.parsed, name)

    @property
    def changed(self) -> list[tuple[str, Any]]:
        """Corrected columns with what the service had read."""
        was = {name: self.read(name) for name in CORRECTABLE if name in self.corrections}
        return [
            (WORDS[name], limit(value) if isinstance(value, float) else value)
            for name, value in was.items()
        ]

    @property
    def number(self) -> float | None:
        return number_of(str(self.shown["value"]).strip().removesuffix("%"))

    @property
    def unit(self) -> str:
        """The unit to show behind the value; empty where the value says it itself."""
        units = self.shown["units"] or ""
        return "" if str(self.shown["value"]).rstrip().endswith(units) else units

    @property
    def meaning(self) -> Reading:
        """What the row means to us. Once its value or range is corrected, the sides that the
        service gave are of another row."""
        shown = self.shown
        is_as_read = not self.corrections.keys() & {*_MEASURED}
        return read_line(
            shown["interpretation"],
            type=self.parsed.type,
            text=str(shown["value"]),
            unit=shown["units"],
            low=shown["min_reference_range"],
            high=shown["max_reference_range"],
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
        """The interpretation as printed, where it is not what the row means."""
        return as_received(self.shown["interpretation"], self.flagged)

    @property
    def range(self) -> str:
        low, high = self.shown["min_reference_range"], self.shown["max_reference_range"]
        if low is not None and high is not None:
            return f"{limit(low)} – {limit(high)}"
        if high is not None:
            return f"up to {limit(high)}"
        return f"from {limit(low)}" if low is not None else ""

    @property
    def matches(self) -> list[Match]:
        return [
            Match(
                str(one.get("loinc_code") or ""),
                str(one.get("display_name") or one.get("loinc_name") or ""),
                confidence(one.get("confidence_score")),
            )
            for one in self.parsed.loinc_matches
            if isinstance(one, dict) and one.get("loinc_code")
        ]

    @property
    def doubts(self) -> list[str]:
        """Why this row is amber; none of it blocks."""
        said = []
        units = self.shown["units"]
        if self.parsed.type in ("numeric", "range", None) and self.number is not None and not units:
            said.append("No unit")
        elif units and _folded_unit(units) not in KNOWN_UNITS and "units" not in self.corrections:
            said.append("Unit not known here")
        if "loinc_code" not in self.corrections:
            status = self.parsed.loinc_match_status
            if not self.matches or status == "no_match":
                said.append("No code found")
            elif status != "auto_match":
                said.append("Code to be checked")
        return said


WORDS: Final[dict[str, str]] = {
    "test_name": "Name",
    "value": "Value",
    "units": "Unit",
    "min_reference_range": "Lower limit",
    "max_reference_range": "Upper limit",
    "interpretation": "Interpretation",
    "loinc_code": "LOINC code",
}


def confidence(score: Any) -> str:
    """A score from 0 to 1 as words."""
    if isinstance(score, bool) or not isinstance(score, int | float):
        return "not told"
    return next((words for least, words in CONFIDENCE if score >= least), "doubtful")


def limit(number: float) -> str:
    """A reference limit with all the digits that were sent, and without an exponent where people
    would not write one."""
    if number and not 1e-9 < abs(number) < 1e16:
        return repr(number)
    return format(Decimal(repr(number)), "f").removesuffix(".0")


def _folded_unit(units: str) -> str:
    return units.lower().replace("μ", "µ").replace(" ", "")


def lines(report: Report) -> list[Line]:
    """Rows of a report's job in the order of the document; two queries."""
    if report.job_id is None:
        return []
    latest: dict[int, RowCheck] = {}
    checks = RowCheck.objects.filter(report=report, job_id=report.job_id).select_related("by")
    for check in checks.order_by("id"):
        latest[check.position] = check
    return [
        _line(row, latest.get(row.position))
        for row in ReportResult.objects.filter(job_id=report.job_id).order_by("position")
    ]


def line(report: Report, position: int) -> Line | None:
    """One row."""
    row = ReportResult.objects.filter(job_id=report.job_id, position=position).first()
    if row is None or report.job_id is None:
        return None
    check = (
        RowCheck.objects.filter(report=report, job_id=report.job_id, position=position)
        .select_related("by")
        .order_by("-id")
        .first()
    )
    return _line(row, check)


def _line(row: ReportResult, check: RowCheck | None) -> Line:
    outdated = check is not None and bytes(check.reading) != bytes(row.reading)
    return Line(row, check, outdated)


@dataclass(frozen=True, slots=True)
class Said:
    """A row after a person's word, and `seen` of the whole report just before and after it."""

    line: Line
    before: str
    after: str


def say(
    report: Report,
    position: int,
    by: User,
    *,
    reading: str,
    latest: int,
    checked: bool,
    values: Mapping[str, Any] | None = None,
) -> Said:
    """Tick a row, or take the tick away, with corrected `values` (None: leave them as they are).

    Raises Overtaken when the row is no longer what the person saw, and then changes nothing. An
    acceptance does not cover what is said after it.
    """
    with transaction.atomic(durable=True):
        locked = Report.objects.select_for_update().get(pk=report.pk)
        # Before the row: a reading that comes in between makes the page's digest an old one.
        job = ReportJob.objects.only("content_hash").filter(report=locked.pk).first()
        known = line(locked, position)
        if known is None or job is None or known.reading != reading or known.latest != latest:
            raise Overtaken
        corrections = dict(known.corrections)
        if values is not None:
            corrections = {
                name: values[name]
                for name in CORRECTABLE
                if name in values and _differs(values[name], known.read(name))
            }
        words = last_words(locked)
        check = RowCheck.objects.create(
            report=report,
            job_id=known.parsed.job_id,
            position=position,
            reading=bytes.fromhex(reading),
            checked=checked,
            corrections=corrections,
            by=by,
        )
        if locked.accepted_at is not None:
            Report.objects.filter(pk=report.pk).update(changed_since_accepted=True)
    check.by = by
    return Said(
        Line(known.parsed, check, outdated=False),
        digest(job, words).hex(),
        digest(job, {**words, position: check.pk}).hex(),
    )


def _differs(said: Any, read: Any) -> bool:
    return (said or None) != (read or None) if isinstance(said, str) else said != read


# Whose report is it?


@dataclass(frozen=True, slots=True)
class Compared:
    """One fact about the person: as printed, as we know it, and whether they agree (None: one of
    them is missing)."""

    label: str
    printed: str
    known: Any
    same: bool | None


def compared(job: ReportJob, person: Demographics | None) -> list[Compared]:
    """Name and birth date on the report beside those of the patient (`patients.identity`)."""
    first, last = job.patient_first_name or "", job.patient_last_name or ""
    known_first, known_last = (person.first_name, person.last_name) if person else ("", "")
    born, known_born = job.dob or "", person.dob if person else None
    return [
        Compared(
            "Name",
            " ".join(part for part in (first, last) if part),
            " ".join(part for part in (known_first, known_last) if part),
            SAME_OR_NOT[compare_name_parts(first, last, known_first, known_last)],
        ),
        Compared(
            "Birth date", born, known_born, SAME_OR_NOT[compare_birth_dates(born, known_born)]
        ),
    ]


SAME_OR_NOT: Final[Mapping[Agreement, bool | None]] = {
    Agreement.SAME: True,
    Agreement.DIFFERENT: False,
    Agreement.UNKNOWN: None,
}


def differs(facts: Iterable[Compared]) -> bool:
    """True when something contradicts: what is missing on either side does not."""
    return any(fact.same is False for fact in facts)
