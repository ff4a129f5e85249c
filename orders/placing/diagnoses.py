"""Diagnosis codes: searched while a person types, and checked at review (users.md 6).

Both ask the service while a person waits. Codes of the newest orders of this installation come
first, the most frequent ones at the top.
"""

from __future__ import annotations

import logging
import re
import time
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import msgspec
from django.core.cache import cache
from django.utils.translation import gettext
from redis import RedisError

from backoffice.core.service_client import service
from backoffice.service import errors
from orders.models import Order
from orders.placing.finding_type import STOP, WARN, Finding
from orders.placing.order_request import codes_in

logger = logging.getLogger(__name__)

WORD_LETTERS: Final = 100
FEWEST_LETTERS: Final = 2
"""Fewest letters for which the service is asked."""
MAX_SHOWN: Final = 10
WAIT_SECONDS: Final = 2.0
"""Most seconds that a person waits for the service."""
RECENT_ORDERS: Final = 500
"""Number of newest orders whose codes are counted."""
USED_KEY: Final = "diagnoses-used"
_USED_SECONDS: Final = 300
_DESCRIBED_SECONDS: Final = 30 * 24 * 3600
_LIKE_A_CODE: Final = re.compile(r"[A-Z][0-9][0-9A-Z](\.[0-9A-Z]{1,4})?")
"""ICD-10-CM: a category of three characters, and up to four more characters after a dot."""
_STORABLE: Final = re.compile(r"[0-9A-Z.]{1,12}")


class _Codes(msgspec.Struct):
    """The fields that are read from the record of an order."""

    icd_codes: list[str] | None = None


_CODES: Final = msgspec.json.Decoder(_Codes)


@dataclass(frozen=True, slots=True)
class DiagnosisChoice:
    """A code with the service's description if it is known.

    `is_secondary`: it cannot be the first diagnosis. `uses`: how many of the newest orders have it.
    """

    code: str
    description: str = ""
    is_secondary: bool = False
    uses: int = 0


@dataclass(frozen=True, slots=True)
class Matches:
    """The codes offered for the typed letters.

    `failed`: the service did not answer. `by_hand`: the typed letters if they look like a code but
    no code was found.
    """

    word: str
    choices: Sequence[DiagnosisChoice]
    failed: bool = False
    by_hand: str = ""


def match_diagnoses(word: str, chosen: Collection[str] = ()) -> Matches:
    """Return the codes that match `word`: the exact one, then used ones, then others.

    Without a word, return the most used ones. `chosen` codes are omitted. If the service does not
    answer, nothing is raised and the result is `failed`.
    """
    word = " ".join(word.replace("\x00", "").split())[:WORD_LETTERS]
    used = used_codes()
    if len(word) < FEWEST_LETTERS:
        codes = [code for code in used if code not in chosen and code.startswith(word.upper())]
        described, failed = _with_descriptions(codes[:MAX_SHOWN])
        return Matches(word, _with_uses(described, used), failed)
    typed = word.upper()
    matching, failed = _search_matches(word, used)
    ranked = sorted(_with_uses(matching, used), key=lambda choice: choice.code != typed)
    shown_choices = [choice for choice in ranked if choice.code not in chosen][:MAX_SHOWN]
    listed_codes = {choice.code for choice in shown_choices} | set(chosen)
    by_hand = typed if _LIKE_A_CODE.fullmatch(typed) and typed not in listed_codes else ""
    return Matches(word, shown_choices, failed, by_hand)


def used_codes() -> dict[str, int]:
    """Return the codes of the newest orders with their number, most frequent first.

    Among codes of the same number, the latest is first. The result is cached for five minutes.
    """
    try:
        cached: dict[str, int] | None = cache.get(USED_KEY)
    except (RedisError, OSError):
        cached = None
    if cached is None:
        cached = _count_used()
        _cache({USED_KEY: cached}, _USED_SECONDS)
    return cached


def _count_used() -> dict[str, int]:
    newest = Order.objects.order_by("-created_at", "-pk").values_list("record", flat=True)
    counts: Counter[str] = Counter()
    for record in newest[:RECENT_ORDERS]:
        try:
            codes = _CODES.decode(record).icd_codes or []
        except (msgspec.DecodeError, UnicodeError, RecursionError):
            continue  # Codes of other types are shown with their order but not counted.
        counts.update(filter(_STORABLE.fullmatch, codes_in(" ".join(codes))))
    return dict(counts.most_common())


def _with_uses(choices: Iterable[DiagnosisChoice], used: dict[str, int]) -> list[DiagnosisChoice]:
    """Add the number of uses, and sort the most used first. Equal ones stay in their order."""
    counted = [replace(choice, uses=used.get(choice.code, 0)) for choice in choices]
    return sorted(counted, key=lambda choice: -choice.uses)


def _search_matches(word: str, used: dict[str, int]) -> tuple[list[DiagnosisChoice], bool]:
    """Return the codes from the service and matching used ones, and whether the call failed."""
    typed = word.upper()
    matching_used = {
        choice.code: choice
        for choice in _with_cached_descriptions(used)
        if choice.code.startswith(typed) or typed in choice.description.upper()
    }
    try:
        answer = _search(word, time.monotonic() + WAIT_SECONDS)
    except errors.ServiceError as error:
        logger.info("diagnosis codes could not be looked up: %s", type(error).__name__)
        return list(matching_used.values()), True
    return list({**matching_used, **answer}.values()), False


def _with_descriptions(codes: Sequence[str]) -> tuple[list[DiagnosisChoice], bool]:
    """Return the codes with descriptions, and whether a call failed.

    The service is asked for descriptions that are not known.
    """
    ends = time.monotonic() + WAIT_SECONDS
    described = {
        choice.code: choice for choice in _with_cached_descriptions(codes) if choice.description
    }
    failed = False
    for code in codes:
        if code in described or failed:
            continue
        try:
            described |= {code: DiagnosisChoice(code)} | _search(code, ends)
        except errors.ServiceError as error:
            logger.info("diagnosis codes could not be described: %s", type(error).__name__)
            failed = True
    return [described.get(code, DiagnosisChoice(code)) for code in codes], failed


def _search(word: str, ends: float) -> dict[str, DiagnosisChoice]:
    """Return matches from the service, until `ends` of the monotonic clock. Raises ServiceError."""
    page = service().until(ends).insurance.search_diagnoses(word)
    diagnoses = [record.data for record in page.records]
    answer = {
        diagnosis.diagnosis_code: DiagnosisChoice(
            diagnosis.diagnosis_code, diagnosis.description, diagnosis.is_secondary
        )
        for diagnosis in diagnoses
    }
    descriptions = {
        _key(choice.code): (choice.description, choice.is_secondary)
        for choice in answer.values()
        if _STORABLE.fullmatch(choice.code)
    }
    _cache(descriptions, _DESCRIBED_SECONDS)
    return answer


def _with_cached_descriptions(codes: Iterable[str]) -> list[DiagnosisChoice]:
    """Return codes with the cached description of the service, or without one."""
    keys = {code: _key(code) for code in codes}
    try:
        cached: dict[str, tuple[str, bool]] = cache.get_many(keys.values())
    except (RedisError, OSError):
        cached = {}
    return [DiagnosisChoice(code, *cached.get(key, ())) for code, key in keys.items()]


def _key(code: str) -> str:
    return f"diagnosis:{code}"


def _cache(values: Mapping[str, object], seconds: int) -> None:
    try:
        cache.set_many(dict(values), seconds)
    except (RedisError, OSError):
        return  # The next call asks the service again.


def check_codes(codes: Sequence[str]) -> list[Finding]:
    """Return findings from the service's check of the codes.

    If the service does not answer, the finding is a warning.
    """
    if not codes:
        return []
    try:
        checked = service().insurance.validate_icd_codes(codes).data
    except errors.Refused as error:
        words = error.message or gettext("The service does not accept these diagnosis codes.")
        return [Finding("diagnosis", words, "icd_codes")]
    except errors.ServiceError as error:
        logger.info("diagnosis codes could not be checked: %s", error)
        words = gettext(
            "The diagnosis codes could not be checked because the service is not responding."
        )
        return [Finding("diagnosis unchecked", words, "icd_codes", WARN)]
    findings = [Finding("diagnosis", words, "icd_codes") for words in checked.errors]
    findings += [
        Finding(
            "diagnosis",
            gettext("%(code)s and %(other)s cannot be used together.")
            % {"code": violation.code, "other": violation.conflicts_with},
            "icd_codes",
        )
        for violation in checked.violations
    ]
    if not checked.valid and not findings:
        findings = [
            Finding(
                "diagnosis",
                gettext("The service does not accept a diagnosis code."),
                "icd_codes",
                STOP,
            )
        ]
    return findings + [
        Finding(
            "diagnosis overlap",
            gettext("%(code)s and %(other)s overlap.")
            % {"code": warning.code, "other": warning.overlaps_with},
            "icd_codes",
            WARN,
        )
        for warning in checked.warnings
    ]
